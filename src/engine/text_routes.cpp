#include "engine/text_routes.h"

#include <algorithm>

#include "engine/openai.h"
#include "engine/wire.h"

namespace tritonforge::engine {
namespace {

using HttpRequest = net::Request;
using net::Response;

struct Unserved {
  const char *path, *what;
};
constexpr Unserved kUnserved[]{{"/v1/embeddings", "embeddings"},          {"/encode", "embeddings"},
                               {"/v1/score", "scores of pairs of texts"}, {"/v1/rerank", "reranking"},
                               {"/classify", "classification"},           {"/v1/classify", "classification"},
                               {"/v1/responses", "OpenAI's Responses"},   {"/v1/messages", "Anthropic's Messages"},
                               {"/v1/audio/transcriptions", "audio"},     {"/v1/audio/speech", "audio"},
                               {"/v1/images/generations", "images"},      {"/v1/moderations", "moderation"}};

// One text, a list of texts, or a chat, as token ids.
Response tokenize(const Engine& engine, tokenizer::ChatFormat format, const HttpRequest& request) {
  const std::string where = "POST " + request.path;
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer();
  const OrderedJson ordered = parse_ordered_json(request.body.empty() ? "{}" : request.body, where);
  const Json body = request.json();
  check_keys(body,
             {"model", "prompt", "text", "messages", "tools", "tool_choice", "chat_template_kwargs",
              "add_special_tokens", "add_generation_prompt", "return_token_strs"},
             where);
  refuse_unless(body, "add_generation_prompt", {true}, where);
  const auto strings = optional_field(body, "return_token_strs", false, where);
  Json tokens = Json::array(), counts = Json::array(), texts = Json::array();
  const auto add = [&](const std::vector<int64_t>& ids) {
    tokens.push_back(ids);
    counts.push_back(ids.size());
    Json& each = texts.emplace_back(Json::array());
    for (const int64_t id : ids) each.push_back(tokenizer.decode({id}));
  };
  const char* field = body.contains("text") ? "text" : "prompt";
  const bool list = body.contains(field) && body[field].is_array();
  if (body.contains("messages")) {
    add(chat_prompt(ordered, tokenizer, format, where));
  } else if (body.contains(field)) {
    for (const std::string& text : texts_from(body[field], field, where)) add(tokenizer.encode(text));
  } else {
    fail(ErrorKind::kUsage, "{}: give one of 'prompt' and 'messages'", where);
  }
  const auto one_or_all = [&](const Json& all) { return list ? all : all[0]; };
  return Response::json({{"tokens", one_or_all(tokens)},
                         {"count", one_or_all(counts)},
                         {"max_model_len", engine.info().max_context},
                         {"token_strs", strings ? one_or_all(texts) : Json(nullptr)}});
}

Response detokenize(const Engine& engine, const HttpRequest& request) {
  const std::string where = "POST " + request.path;
  const Json body = request.json();
  check_keys(body, {"model", "tokens", "skip_special_tokens"}, where);
  const auto skip = optional_field(body, "skip_special_tokens", false, where);
  const Json& tokens = require_list(body, "tokens", where);
  const bool list = !tokens.empty() && tokens.front().is_array();
  const tokenizer::Tokenizer& tokenizer = *engine.tokenizer();
  const int64_t vocabulary = std::max(engine.info().vocab_size, tokenizer.vocab_size());
  Json texts = Json::array();
  for (const Json& list_of_ids : list ? tokens : Json::array({tokens})) {
    const auto ids = ids_from(list_of_ids, "tokens", where);
    const auto outside = std::ranges::find_if(ids, [&](int64_t id) { return id < 0 || id >= vocabulary; });
    if (outside != ids.end())
      fail(ErrorKind::kUsage, "{}: field 'tokens' holds {}, outside the vocabulary of {}", where, *outside, vocabulary);
    texts.push_back(tokenizer.decode(ids, skip));
  }
  const Json text = list ? texts : texts[0];
  return Response::json({{"text", text}, {"prompt", text}});  // SGLang's name and vLLM's
}

}  // namespace

void add_text_routes(net::HttpServer& server, const Engine& engine, tokenizer::ChatFormat format) {
  const auto post = [&](const std::string& path, const net::Handler& handler) {
    server.route("POST", path, [handler](const HttpRequest& request) {
      try {
        return handler(request);
      } catch (const Error& error) {
        return openai_error(error);
      }
    });
  };
  for (const std::string prefix : {"", "/v1"}) {
    post(prefix + "/tokenize", [&engine, format](const HttpRequest& r) { return tokenize(engine, format, r); });
    post(prefix + "/detokenize", [&engine](const HttpRequest& r) { return detokenize(engine, r); });
  }
  for (const Unserved& each : kUnserved) {
    post(each.path, [&each](const HttpRequest& request) -> Response {
      fail(ErrorKind::kUnsupported, "POST {}: no {} here: this engine generates text", request.path, each.what);
    });
  }
}

}  // namespace tritonforge::engine
