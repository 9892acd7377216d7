#include "engine/openai.h"

#include <algorithm>

#include "base/clock.h"
#include "engine/constraints.h"
#include "engine/wire.h"

namespace tritonforge::engine {
namespace {

// clang-format off
// Of both, OpenAI's own and what SGLang and vLLM have beside them.
const std::vector<std::string> kSharedFields{
    "model", "n", "stream", "stream_options", "max_tokens", "temperature", "top_p", "stop", "seed", "logprobs",
    "frequency_penalty", "presence_penalty", "logit_bias", "user", "response_format",
    "top_k", "min_p", "min_tokens", "repetition_penalty", "stop_token_ids", "ignore_eos", "skip_special_tokens",
    "no_stop_trim", "spaces_between_special_tokens", "rid", "session_id", "session_params", "lora_path", "priority",
    "timeout_s", "return_hidden_states"};
const std::vector<std::string> kChatFields{
    "messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "functions",
    "function_call", "audio", "modalities", "prediction", "metadata", "store", "service_tier", "reasoning_effort",
    "verbosity", "safety_identifier", "prompt_cache_key", "web_search_options",
    "chat_template_kwargs", "chat_template", "separate_reasoning", "stream_reasoning", "continue_final_message",
    "add_generation_prompt"};
const std::vector<std::string> kCompletionFields{"prompt", "best_of", "echo", "suffix"};
// Those with which nothing is done unless they ask for nothing.
const std::vector<std::string> kWithoutEffect{
    "functions", "function_call", "audio", "prediction", "web_search_options", "suffix", "lora_path", "session_params",
    "return_hidden_states", "chat_template", "continue_final_message", "reasoning_effort", "verbosity"};
// clang-format on

constexpr int64_t kMostAlternatives = 20;  // top_logprobs, as OpenAI bounds them

void check_fields(const Json& body, bool chat, const std::string& where) {
  std::vector<std::string> known = kSharedFields;
  const auto& own = chat ? kChatFields : kCompletionFields;
  known.insert(known.end(), own.begin(), own.end());
  known.insert(known.end(), constraint_fields().begin(), constraint_fields().end());
  check_keys(body, known, where);
  refuse_constraints(body, where);
  for (const std::string& field : kWithoutEffect)
    refuse_unless(body, field.c_str(), {false, "", Json::array(), Json::object(), "none"}, where);
  refuse_unless(body, "modalities", {Json::array({"text"}), Json::array()}, where);
  refuse_unless(body, "add_generation_prompt", {true}, where);
  refuse_unless(body, "stream_reasoning", {true}, where);
  refuse_unless(body, "parallel_tool_calls", {true}, where);
  refuse_unless(body, "priority", {0}, where);
}

SamplingParams sampling_from(const Json& body, bool chat, const std::string& where) {
  SamplingParams params;
  params.max_new_tokens = chat ? 1 << 30 : 16;  // OpenAI's: to the end of the context, and 16
  read_sampling_fields(body, where, params);
  for (const char* field : {"max_tokens", "max_completion_tokens"})
    params.max_new_tokens = whole_field(body, field, params.max_new_tokens, where);
  params.min_new_tokens = whole_field(body, "min_tokens", params.min_new_tokens, where);
  params.seed = seed_field(body, "seed", where);
  return params;
}

// "logprobs" is true or false in a chat, beside "top_logprobs"; in a completion it is the number of alternatives.
void read_log_probs(const Json& body, OpenAiRequest& request, LogProbsWanted& wanted, const std::string& where) {
  const auto found = body.find("logprobs");
  const bool given = found != body.end() && !found->is_null();
  if (request.chat) {
    request.log_probs = optional_field(body, "logprobs", false, where);
    wanted.top = whole_field(body, "top_logprobs", 0, where);
    if (wanted.top > 0 && !request.log_probs)
      fail(ErrorKind::kUsage, "{}: 'top_logprobs' needs 'logprobs': true", where);
  } else if (given && found->is_boolean()) {
    request.log_probs = found->get<bool>();
  } else if (given) {
    wanted.top = whole_number(*found, "logprobs", where);
    request.log_probs = true;
  }
  if (wanted.top < 0 || wanted.top > kMostAlternatives)
    fail(ErrorKind::kUsage, "{}: '{}' must be between 0 and {}, not {}", where,
         request.chat ? "top_logprobs" : "logprobs", kMostAlternatives, wanted.top);
}

std::vector<std::vector<int64_t>> completion_prompts(const Json& body, const tokenizer::Tokenizer& tokenizer,
                                                     const std::string& where) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end()) fail(ErrorKind::kUsage, "{}: field 'prompt' is missing", where);
  const bool some = prompt->is_array() && !prompt->empty();
  std::vector<std::vector<int64_t>> all;
  if (some && prompt->front().is_number()) {
    all.push_back(ids_from(*prompt, "prompt", where));
  } else if (some && std::ranges::all_of(*prompt, [](const Json& each) { return each.is_array(); })) {
    for (const Json& ids : *prompt) all.push_back(ids_from(ids, "prompt", where));
  } else if (some || prompt->is_string()) {
    for (const std::string& text : texts_from(*prompt, "prompt", where)) all.push_back(tokenizer.encode(text));
  } else {
    fail(ErrorKind::kUsage, "{}: field 'prompt' must be a text, a list of texts, or token ids", where);
  }
  return all;
}

// How many samples of each prompt are drawn, and how many of them answered.
void read_choices(const Json& body, OpenAiRequest& request, SamplingParams& sampling, const std::string& where) {
  request.n = sampling.n;
  const auto best_of = whole_field(body, "best_of", request.n, where);
  if (best_of < request.n)
    fail(ErrorKind::kUsage, "{}: 'best_of' ({}) is less than 'n' ({})", where, best_of, request.n);
  if (best_of > request.n && request.stream)
    fail(ErrorKind::kUsage, "{}: the best of {} are known at the end: 'best_of' above 'n' cannot be streamed", where,
         best_of);
  sampling.n = best_of;
}

bool uses_tools(const OrderedJson& body) {
  return body.contains("tools") && body["tools"].is_array() && !body["tools"].empty() &&
         (!body.contains("tool_choice") || body["tool_choice"] != "none");
}

void read_chat(const OrderedJson& body, tokenizer::ChatFormat format, OpenAiRequest& request,
               const std::string& where) {
  if (const auto tools = body.find("tools"); tools != body.end() && !tools->is_null() && !tools->is_array())
    fail(ErrorKind::kUsage, "{}: field 'tools' must be a list", where);
  request.tools = uses_tools(body);
  const auto choice = body.find("tool_choice");
  if (choice != body.end() && !choice->is_null() && *choice != "none" && *choice != "auto")
    fail(ErrorKind::kUnsupported,
         "{}: 'tool_choice' may be \"auto\" or \"none\": no call can be forced, since this engine does not constrain "
         "its "
         "output",
         where);
  const auto separate = body.find("separate_reasoning");
  if (separate != body.end() && !separate->is_null() && !separate->is_boolean())
    fail(ErrorKind::kUsage, "{}: field 'separate_reasoning' must be true or false", where);
  request.reasoning = format == tokenizer::ChatFormat::kQwen3 &&
                      (separate == body.end() || separate->is_null() || separate->get<bool>());
}

}  // namespace

std::vector<int64_t> chat_prompt(const OrderedJson& body, const tokenizer::Tokenizer& tokenizer,
                                 tokenizer::ChatFormat format, const std::string& where) {
  if (!body.contains("messages")) fail(ErrorKind::kUsage, "{}: field 'messages' is missing", where);
  tokenizer::ChatOptions options;
  if (uses_tools(body)) options.tools = body["tools"];
  if (body.contains("chat_template_kwargs") && !body["chat_template_kwargs"].is_null()) {
    for (const auto& [key, value] : body["chat_template_kwargs"].items()) {
      if (key != "enable_thinking" || !value.is_boolean()) {
        fail(ErrorKind::kUsage, "{}: chat_template_kwargs knows 'enable_thinking' (true or false), not '{}'", where,
             key);
      }
      options.enable_thinking = value.get<bool>();
    }
  }
  return tokenizer.encode(
      tokenizer::render_chat(format, tokenizer::messages_from_json(body["messages"], where), options));
}

OpenAiRequest openai_from_json(const std::string& text, bool chat, const tokenizer::Tokenizer& tokenizer,
                               tokenizer::ChatFormat format, const std::string& model, const std::string& id) {
  const std::string where = chat ? "POST /v1/chat/completions" : "POST /v1/completions";
  const Json body = parse_json(text.empty() ? "{}" : text, where);
  check_fields(body, chat, where);
  OpenAiRequest request;
  request.chat = chat;
  request.id = optional_field<std::string>(body, "rid", (chat ? "chatcmpl-" : "cmpl-") + id, where);
  request.created = static_cast<int64_t>(unix_seconds());
  request.model = optional_field(body, "model", model, where);
  request.stream = optional_field(body, "stream", false, where);
  request.timeout_s = timeout_field(body, where);
  if (const auto options = body.find("stream_options"); options != body.end() && !options->is_null()) {
    check_keys(*options, {"include_usage", "include_obfuscation"}, where + ": stream_options");
    request.include_usage = optional_field(*options, "include_usage", false, where);
  }
  SamplingParams sampling = sampling_from(body, chat, where);
  LogProbsWanted wanted;
  read_log_probs(body, request, wanted, where);
  std::vector<std::vector<int64_t>> prompts;
  if (chat) {
    request.n = sampling.n;
    const OrderedJson ordered = parse_ordered_json(text, where);
    read_chat(ordered, format, request, where);
    prompts.push_back(chat_prompt(ordered, tokenizer, format, where));
  } else {
    read_choices(body, request, sampling, where);
    request.echo = optional_field(body, "echo", false, where);
    if (request.echo && request.log_probs) wanted.prompt_from = 0;
    prompts = completion_prompts(body, tokenizer, where);
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request& each = request.requests.emplace_back();
    each.id = prompts.size() == 1 ? request.id : fmt::format("{}-{}", request.id, i);
    each.list_id = request.id;
    each.prompt_ids = prompts[i];
    each.sampling = sampling;
    each.log_probs = wanted;
    each.stream = request.stream;
  }
  return request;
}

}  // namespace tritonforge::engine
