#include <algorithm>
#include <functional>
#include <numeric>

#include "base/text.h"
#include "engine/openai.h"

namespace tritonforge::engine {
namespace {

Json finish_of(const Sample& sample, bool called) {
  switch (sample.finish) {
    case FinishReason::kNone: return nullptr;
    case FinishReason::kStop: return called ? "tool_calls" : "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kAbort: return "abort";
  }
  return nullptr;
}

// ---- Log-probabilities ----

Json chat_token(int64_t token, float log_prob, const tokenizer::Tokenizer& tokenizer) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.token_bytes(token)) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", tokenizer.decode({token})}, {"logprob", log_prob}, {"bytes", std::move(bytes)}};
}

Json chat_log_probs(const Sample& sample, size_t from, const tokenizer::Tokenizer& tokenizer) {
  Json content = Json::array();
  for (size_t i = from; i < sample.output_ids.size(); ++i) {
    Json& entry = content.emplace_back(chat_token(sample.output_ids[i], sample.log_probs[i], tokenizer));
    entry["top_logprobs"] = Json::array();
    if (i >= sample.top_log_probs.size()) continue;
    for (const TokenLogProb& each : sample.top_log_probs[i])
      entry["top_logprobs"].push_back(chat_token(each.token, each.log_prob, tokenizer));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

int64_t characters_of(const std::string& text) { return std::ranges::count_if(text, std::not_fn(continues_character)); }

// A completion's lists, filled token after token. `offset`: where the next one's text begins, in characters.
class CompletionLogProbs {
 public:
  CompletionLogProbs(const tokenizer::Tokenizer& tokenizer, bool alternatives, size_t offset)
      : tokenizer_(tokenizer), alternatives_(alternatives), offset_(offset) {}
  void add(int64_t token, Json log_prob, const TokenLogProbs* top) {
    const std::string text = tokenizer_.decode({token});
    tokens_.push_back(text);
    log_probs_.push_back(std::move(log_prob));
    offsets_.push_back(offset_);
    offset_ += static_cast<size_t>(characters_of(text));
    if (!alternatives_) return;
    Json& alternatives = top_.emplace_back(nullptr);
    if (top == nullptr) return;
    alternatives = Json::object();
    // Two tokens can have one text (halves of characters): the more likely one is told.
    for (const TokenLogProb& each : *top) alternatives.emplace(tokenizer_.decode({each.token}), each.log_prob);
  }
  size_t offset() const { return offset_; }
  Json json() const {
    return {{"tokens", tokens_},
            {"token_logprobs", log_probs_},
            {"top_logprobs", alternatives_ ? top_ : Json(nullptr)},
            {"text_offset", offsets_}};
  }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  const bool alternatives_;
  size_t offset_;
  Json tokens_ = Json::array(), log_probs_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
};

// With `echo`, the prompt's tokens before the first of the sample's.
Json completion_log_probs(const OpenAiRequest& request, size_t index, const Output& output, const Sample& sample,
                          StreamedSample& sent, const tokenizer::Tokenizer& tokenizer) {
  const Request& asked = request.requests[index];
  CompletionLogProbs list(tokenizer, asked.log_probs.top > 0, sent.characters);
  for (size_t i = 0; request.echo && !sent.opened && i < asked.prompt_ids.size(); ++i) {
    const bool scored = i > 0 && i - 1 < output.prompt.log_probs.size();
    list.add(asked.prompt_ids[i], scored ? Json(output.prompt.log_probs[i - 1]) : Json(nullptr),
             scored && asked.log_probs.top > 0 ? &output.prompt.top[i - 1] : nullptr);
  }
  for (size_t i = sent.tokens; i < sample.output_ids.size(); ++i) {
    list.add(sample.output_ids[i], sample.log_probs[i],
             i < sample.top_log_probs.size() ? &sample.top_log_probs[i] : nullptr);
  }
  sent.characters = list.offset();
  return list.json();
}

// ---- Choices ----

Json calls_of(const OpenAiRequest& request, const std::vector<ToolCall>& calls, size_t choice, size_t first,
              bool indexed) {
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Json& entry = list.emplace_back(Json{{"id", fmt::format("call_{}_{}_{}", request.id, choice, first + i)},
                                         {"type", "function"},
                                         {"function", {{"name", calls[i].name}, {"arguments", calls[i].arguments}}}});
    if (indexed) entry["index"] = first + i;
  }
  return list;
}

// What a sample adds to what was sent of it: its part of a message or of a text, and its log-probabilities.
Json choice_of(const OpenAiRequest& request, size_t index, const Output& output, const Sample& sample, size_t choice,
               StreamedSample& sent, const tokenizer::Tokenizer& tokenizer) {
  const bool over = sample.finish != FinishReason::kNone;
  Json json{{"index", choice}, {"logprobs", nullptr}};
  const std::string_view added = std::string_view(sample.text).substr(std::min(sent.text, sample.text.size()));
  if (!request.chat) {
    std::string text = request.echo && !sent.opened ? tokenizer.decode(request.requests[index].prompt_ids) : "";
    json["text"] = text.append(added);
    if (request.log_probs) json["logprobs"] = completion_log_probs(request, index, output, sample, sent, tokenizer);
  } else {
    AssistantParts parts{.reasoning = "", .content = std::string(added), .calls = {}};
    if (request.tools || request.reasoning) {
      if (!sent.parser) sent.parser.emplace(request.reasoning, request.tools);
      parts = sent.parser->advance(sample.text, over);
    }
    Json message = Json::object();
    if (!request.stream || !sent.opened) message["role"] = "assistant";
    const bool only_calls = !request.stream && parts.content.empty() && !parts.calls.empty();
    if (!request.stream || !sent.opened || !parts.content.empty())
      message["content"] = only_calls ? Json(nullptr) : Json(parts.content);
    if (!parts.reasoning.empty()) message["reasoning_content"] = parts.reasoning;
    if (!parts.calls.empty())
      message["tool_calls"] = calls_of(request, parts.calls, choice, sent.calls, request.stream);
    sent.calls += parts.calls.size();
    json[request.stream ? "delta" : "message"] = std::move(message);
    if (request.log_probs) json["logprobs"] = chat_log_probs(sample, sent.tokens, tokenizer);
  }
  json["finish_reason"] = finish_of(sample, sent.calls > 0);
  if (over && sample.matched_token >= 0) json["matched_stop"] = sample.matched_token;
  else if (over && !sample.matched_text.empty()) json["matched_stop"] = sample.matched_text;
  sent.text = sample.text.size();
  sent.tokens = sample.output_ids.size();
  sent.opened = true;
  sent.finished = over;
  return json;
}

double mean_log_prob(const Sample& sample) {
  const auto count = static_cast<double>(std::max<size_t>(sample.log_probs.size(), 1));
  return std::accumulate(sample.log_probs.begin(), sample.log_probs.end(), 0.0) / count;
}

// The `count` samples whose tokens are the most likely on average, or all in their order.
std::vector<const Sample*> best_samples(const Output& output, int64_t count) {
  std::vector<const Sample*> samples;
  for (const Sample& sample : output.samples) samples.push_back(&sample);
  if (std::ssize(samples) <= count) return samples;
  std::ranges::stable_sort(samples, std::ranges::greater(), [](const Sample* s) { return mean_log_prob(*s); });
  samples.resize(static_cast<size_t>(count));
  return samples;
}

Json usage_of(const std::vector<Output>& outputs) {
  int64_t prompt = 0, completion = 0, cached = 0;
  for (const Output& output : outputs) {
    prompt += output.prompt_tokens;
    cached += output.cached_tokens;
    for (const Sample& sample : output.samples) completion += static_cast<int64_t>(sample.output_ids.size());
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json envelope(const OpenAiRequest& request, const char* object) {
  return {{"id", request.id}, {"object", object}, {"created", request.created}, {"model", request.model}};
}

// The engine names SGLang's fields.
std::string in_openais_names(std::string message) {
  constexpr std::pair<std::string_view, std::string_view> kNames[]{
      {"sampling_params.", ""}, {"max_new_tokens", "max_tokens"}, {"min_new_tokens", "min_tokens"}};
  for (const auto& [name, theirs] : kNames) {
    for (size_t at; (at = message.find(name)) != std::string::npos;) message.replace(at, name.size(), theirs);
  }
  return message;
}

// The field that a message of ours names: "'x' ...", "... field 'x' ...", or "PATH: 'x' ...".
Json field_named_in(const std::string& message) {
  if (message.starts_with('\'')) return message.substr(1, message.find('\'', 1) - 1);
  for (const std::string_view before : {"field '", ": '"}) {
    const size_t found = message.find(before);
    if (found == std::string::npos) continue;
    const size_t open = found + before.size();
    return message.substr(open, message.find('\'', open) - open);
  }
  return nullptr;
}

}  // namespace

Json openai_reply(const OpenAiRequest& request, const std::vector<Output>& outputs,
                  const tokenizer::Tokenizer& tokenizer) {
  Json reply = envelope(request, request.chat ? "chat.completion" : "text_completion");
  Json choices = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const Sample* sample : best_samples(outputs[i], request.n)) {
      StreamedSample nothing;
      choices.push_back(choice_of(request, i, outputs[i], *sample, choices.size(), nothing, tokenizer));
    }
  }
  reply["choices"] = std::move(choices);
  reply["usage"] = usage_of(outputs);
  return reply;
}

std::vector<Json> openai_chunks(const OpenAiRequest& request, const Output& output, size_t index,
                                std::vector<StreamedSample>& sent, const tokenizer::Tokenizer& tokenizer) {
  std::vector<Json> chunks;
  sent.resize(output.samples.size());
  for (size_t i = 0; i < output.samples.size(); ++i) {
    const Sample& sample = output.samples[i];
    StreamedSample& state = sent[i];
    const bool over = sample.finish != FinishReason::kNone;
    if (state.finished || (!over && sample.text.size() == state.text && state.opened)) continue;
    const size_t choice = index * static_cast<size_t>(request.n) + i;
    Json chunk = envelope(request, request.chat ? "chat.completion.chunk" : "text_completion");
    Json added = choice_of(request, index, output, sample, choice, state, tokenizer);
    // What came may be held back: it may become a tag.
    if (!over && request.chat && added["delta"].empty() && added["logprobs"].is_null()) continue;
    chunk["choices"] = Json::array({std::move(added)});
    if (request.include_usage) chunk["usage"] = nullptr;  // it comes at the end
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

Json openai_usage_chunk(const OpenAiRequest& request, const std::vector<Output>& outputs) {
  Json chunk = envelope(request, request.chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_of(outputs);
  return chunk;
}

net::Response openai_error(const std::exception& error) {
  net::Response response = net::Response::error(error);
  const std::string message = in_openais_names(error.what());
  const auto* known = dynamic_cast<const Error*>(&error);
  const char* type = response.status == 429  ? "rate_limit_error"
                     : response.status < 500 ? "invalid_request_error"
                                             : "server_error";
  const bool about_a_field = response.status == 400 || response.status == 422;
  response.body = Json{{"error",
                        {{"message", message},
                         {"type", type},
                         {"param", about_a_field ? field_named_in(message) : Json(nullptr)},
                         {"code", name_of(known != nullptr ? known->kind() : ErrorKind::kInternal)}}}}
                      .dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

}  // namespace tritonforge::engine
