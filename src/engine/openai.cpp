#include "engine/openai.h"

#include <algorithm>

#include "base/clock.h"

namespace tritonforge::engine {
namespace {

const std::vector<std::string> kRefused{"logit_bias", "functions",  "function_call", "suffix",
                                        "audio",      "prediction", "best_of",       "echo"};

std::vector<std::string> stops_from(const Json& body, const std::string& where) {
  const auto stop = body.find("stop");
  if (stop == body.end() || stop->is_null()) return {};
  if (stop->is_string()) return {stop->get<std::string>()};
  return require<std::vector<std::string>>(body, "stop", where);
}

SamplingParams sampling_from(const Json& body, bool chat, const std::string& where) {
  for (const auto& field : kRefused) {
    const auto found = body.find(field);
    const bool neutral = found == body.end() || found->is_null() || *found == false || *found == 1 || *found == "" ||
                         (found->is_structured() && found->empty());
    if (!neutral) fail(ErrorKind::kUnsupported, "{}: field '{}' is not supported", where, field);
  }
  for (const char* field : {"frequency_penalty", "presence_penalty", "top_logprobs"}) {
    if (optional_field(body, field, 0.0, where) != 0)
      fail(ErrorKind::kUnsupported, "{}: field '{}' is not supported", where, field);
  }
  if (const auto format = body.find("response_format");
      format != body.end() && format->is_object() && format->value("type", "text") != "text") {
    fail(ErrorKind::kUnsupported, "{}: response_format '{}' is not supported", where, format->value("type", ""));
  }
  SamplingParams params;
  params.max_new_tokens = chat ? 1 << 30 : 16;  // OpenAI's: to the end of the context, and 16
  const auto read = [&](const char* field, auto& value) { value = optional_field(body, field, value, where); };
  read("max_tokens", params.max_new_tokens);
  read("max_completion_tokens", params.max_new_tokens);
  read("temperature", params.temperature);
  read("top_p", params.top_p);
  read("top_k", params.top_k);
  read("min_p", params.min_p);
  read("n", params.n);
  read("ignore_eos", params.ignore_eos);
  read("skip_special_tokens", params.skip_special_tokens);
  read("no_stop_trim", params.no_stop_trim);
  read("stop_token_ids", params.stop_token_ids);
  if (const auto seed = body.find("seed"); seed != body.end() && !seed->is_null()) {
    params.seed = static_cast<uint64_t>(require<int64_t>(body, "seed", where));
  }
  params.stop = stops_from(body, where);
  return params;
}

std::vector<std::vector<int64_t>> completion_prompts(const Json& body, const tokenizer::Tokenizer& tokenizer,
                                                     const std::string& where) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end()) fail(ErrorKind::kUsage, "{}: field 'prompt' is missing", where);
  try {
    if (prompt->is_string()) return {tokenizer.encode(prompt->get<std::string>())};
    if (prompt->is_array() && !prompt->empty()) {
      if (prompt->front().is_number()) return {prompt->get<std::vector<int64_t>>()};
      if (prompt->front().is_array()) return prompt->get<std::vector<std::vector<int64_t>>>();
      std::vector<std::vector<int64_t>> all;
      for (const auto& text : prompt->get<std::vector<std::string>>()) all.push_back(tokenizer.encode(text));
      return all;
    }
  } catch (const nlohmann::json::exception&) {
    // told below
  }
  fail(ErrorKind::kUsage, "{}: field 'prompt' must be a text, a list of texts, or token ids", where);
}

std::vector<int64_t> chat_prompt(const std::string& body, const tokenizer::Tokenizer& tokenizer,
                                 tokenizer::ChatFormat format, const std::string& where) {
  const OrderedJson ordered = parse_ordered_json(body, where);
  if (!ordered.contains("messages")) fail(ErrorKind::kUsage, "{}: field 'messages' is missing", where);
  tokenizer::ChatOptions options;
  const bool use_tools = !ordered.contains("tool_choice") || ordered["tool_choice"] != "none";
  if (ordered.contains("tools") && use_tools) options.tools = ordered["tools"];
  if (ordered.contains("chat_template_kwargs") && !ordered["chat_template_kwargs"].is_null()) {
    for (const auto& [key, value] : ordered["chat_template_kwargs"].items()) {
      if (key != "enable_thinking" || !value.is_boolean()) {
        fail(ErrorKind::kUsage, "{}: chat_template_kwargs knows 'enable_thinking' (true or false), not '{}'", where,
             key);
      }
      options.enable_thinking = value.get<bool>();
    }
  }
  return tokenizer.encode(
      tokenizer::render_chat(format, tokenizer::messages_from_json(ordered["messages"], where), options));
}

Json finish_of(const Sample& sample) {
  switch (sample.finish) {
    case FinishReason::kNone: return nullptr;
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kAbort: return "abort";
  }
  return nullptr;
}

Json log_probs_of(const OpenAiRequest& request, const Sample& sample, size_t from,
                  const tokenizer::Tokenizer& tokenizer) {
  if (!request.log_probs) return nullptr;
  if (!request.chat) {
    Json tokens = Json::array(), values = Json::array();
    for (size_t i = from; i < sample.output_ids.size(); ++i) {
      tokens.push_back(tokenizer.decode({sample.output_ids[i]}));
      values.push_back(sample.log_probs[i]);
    }
    return {{"tokens", std::move(tokens)}, {"token_logprobs", std::move(values)}, {"top_logprobs", nullptr}};
  }
  Json content = Json::array();
  for (size_t i = from; i < sample.output_ids.size(); ++i) {
    const std::string raw = tokenizer.token_bytes(sample.output_ids[i]);
    Json bytes = Json::array();
    for (const char byte : raw) bytes.push_back(static_cast<unsigned char>(byte));
    content.push_back({{"token", tokenizer.decode({sample.output_ids[i]})},
                       {"logprob", sample.log_probs[i]},
                       {"bytes", std::move(bytes)},
                       {"top_logprobs", Json::array()}});
  }
  return {{"content", std::move(content)}};
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

}  // namespace

OpenAiRequest openai_from_json(const std::string& text, bool chat, const tokenizer::Tokenizer& tokenizer,
                               tokenizer::ChatFormat format, const std::string& model, const std::string& id) {
  const std::string where = chat ? "POST /v1/chat/completions" : "POST /v1/completions";
  const Json body = parse_json(text.empty() ? "{}" : text, where);
  if (!body.is_object()) fail(ErrorKind::kUsage, "{}: expected an object", where);
  OpenAiRequest request;
  request.chat = chat;
  request.id = (chat ? "chatcmpl-" : "cmpl-") + id;
  request.created = static_cast<int64_t>(unix_seconds());
  request.model = optional_field(body, "model", model, where);
  request.stream = optional_field(body, "stream", false, where);
  if (body.contains("stream_options") && body["stream_options"].is_object()) {
    request.include_usage = optional_field(body["stream_options"], "include_usage", false, where);
  }
  if (const auto wanted = body.find("logprobs"); wanted != body.end() && !wanted->is_null()) {
    if (!chat && wanted->is_number_integer() && wanted->get<int64_t>() > 1) {
      fail(ErrorKind::kUnsupported, "{}: logprobs {}: only the sampled token's (0 or 1) are given", where,
           wanted->get<int64_t>());
    }
    request.log_probs = wanted->is_boolean() ? wanted->get<bool>() : !chat && wanted->is_number_integer();
  }
  const SamplingParams sampling = sampling_from(body, chat, where);
  const auto prompts = chat ? std::vector<std::vector<int64_t>>{chat_prompt(text, tokenizer, format, where)}
                            : completion_prompts(body, tokenizer, where);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request& each = request.requests.emplace_back();
    each.id = prompts.size() == 1 ? request.id : fmt::format("{}-{}", request.id, i);
    each.prompt_ids = prompts[i];
    each.sampling = sampling;
    each.stream = request.stream;
  }
  return request;
}

Json openai_reply(const OpenAiRequest& request, const std::vector<Output>& outputs,
                  const tokenizer::Tokenizer& tokenizer) {
  Json reply = envelope(request, request.chat ? "chat.completion" : "text_completion");
  Json choices = Json::array();
  for (const Output& output : outputs) {
    for (const Sample& sample : output.samples) {
      Json choice{{"index", choices.size()},
                  {"finish_reason", finish_of(sample)},
                  {"logprobs", log_probs_of(request, sample, 0, tokenizer)}};
      if (sample.matched_token >= 0) choice["matched_stop"] = sample.matched_token;
      else if (!sample.matched_text.empty()) choice["matched_stop"] = sample.matched_text;
      if (request.chat) choice["message"] = {{"role", "assistant"}, {"content", sample.text}};
      else choice["text"] = sample.text;
      choices.push_back(std::move(choice));
    }
  }
  reply["choices"] = std::move(choices);
  reply["usage"] = usage_of(outputs);
  return reply;
}

std::vector<Json> openai_chunks(const OpenAiRequest& request, const Output& output, int64_t first_index,
                                std::vector<StreamedSample>& sent, const tokenizer::Tokenizer& tokenizer) {
  std::vector<Json> chunks;
  sent.resize(output.samples.size());
  for (size_t i = 0; i < output.samples.size(); ++i) {
    const Sample& sample = output.samples[i];
    StreamedSample& state = sent[i];
    const bool over = sample.finish != FinishReason::kNone;
    if (state.finished || (!over && sample.text.size() == state.text && state.opened)) continue;
    Json choice{{"index", first_index + static_cast<int64_t>(i)},
                {"finish_reason", over ? finish_of(sample) : Json(nullptr)},
                {"logprobs", log_probs_of(request, sample, state.tokens, tokenizer)}};
    const std::string added = sample.text.size() > state.text ? sample.text.substr(state.text) : "";
    if (request.chat) {
      choice["delta"] = {{"content", added}};
      if (!state.opened) choice["delta"]["role"] = "assistant";
    } else {
      choice["text"] = added;
    }
    state = {sample.text.size(), sample.output_ids.size(), true, over};
    Json chunk = envelope(request, request.chat ? "chat.completion.chunk" : "text_completion");
    chunk["choices"] = Json::array({std::move(choice)});
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

}  // namespace tritonforge::engine
