#include "engine/wire.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <span>
#include <utility>

#include "engine/constraints.h"

namespace tritonforge::engine {
namespace {

constexpr const char* kWhere = "POST /generate";

// clang-format off
const std::vector<std::string> kSamplingFields{
    "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "max_new_tokens", "min_new_tokens", "stop", "stop_token_ids", "ignore_eos", "skip_special_tokens",
    "no_stop_trim", "n", "seed", "sampling_seed", "spaces_between_special_tokens", "custom_params", "dtype"};

const std::vector<std::string> kGenerateFields{
    "text", "input_ids", "rid", "stream", "sampling_params", "return_logprob", "logprob_start_len", "top_logprobs_num",
    "token_ids_logprob", "return_text_in_logprobs", "return_hidden_states", "session_id", "timeout_s", "lora_path",
    "image_data", "video_data", "audio_data", "input_embeds", "custom_logit_processor", "session_params", "log_metrics",
    "return_routed_experts", "priority", "extra_key", "model"};
// clang-format on

struct Prompts {
  std::vector<std::vector<int64_t>> ids;
  bool list = false;
};

Prompts prompts_from(const Json& body, const tokenizer::Tokenizer& tokenizer) {
  const auto ids = body.find("input_ids"), text = body.find("text");
  const bool has_ids = ids != body.end() && !ids->is_null(), has_text = text != body.end() && !text->is_null();
  if (has_ids == has_text) fail(ErrorKind::kUsage, "{}: give one of 'input_ids' and 'text'", kWhere);
  Prompts prompts;
  if (has_ids) {
    prompts.list = ids->is_array() && !ids->empty() && ids->front().is_array();
    if (!prompts.list) prompts.ids.push_back(ids_from(*ids, "input_ids", kWhere));
    else
      for (const Json& each : *ids) prompts.ids.push_back(ids_from(each, "input_ids", kWhere));
  } else {
    prompts.list = text->is_array();
    for (const auto& each : texts_from(*text, "text", kWhere)) prompts.ids.push_back(tokenizer.encode(each));
  }
  if (prompts.ids.empty()) fail(ErrorKind::kUsage, "{}: the list of prompts is empty", kWhere);
  return prompts;
}

// {"token id": bias}, the keys as text (JSON has no others).
std::map<int64_t, double> bias_from(const Json& value, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::kUsage, "{}: field 'logit_bias' must map token ids to numbers", where);
  std::map<int64_t, double> bias;
  for (const auto& [key, each] : value.items()) {
    int64_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (key.empty() || error != std::errc() || end != key.data() + key.size() || !each.is_number())
      fail(ErrorKind::kUsage, "{}: field 'logit_bias' must map token ids to numbers, not '{}' to {}", where, key,
           each.dump().substr(0, 40));
    bias[token] = each.get<double>();
  }
  return bias;
}

// The entry of prompt i in a field that is one value for all of them or a list of one each.
const Json* entry_of(const Json& body, const char* field, size_t i, size_t count) {
  const auto found = body.find(field);
  if (found == body.end() || found->is_null()) return nullptr;
  if (!found->is_array()) return &*found;
  if (found->size() != count)
    fail(ErrorKind::kUsage, "{}: {} entries in '{}' for {} prompts", kWhere, found->size(), field, count);
  return (*found)[i].is_null() ? nullptr : &(*found)[i];
}

template <typename T>
T entry_or(const Json& body, const char* field, size_t i, size_t count, T fallback) {
  const Json* entry = entry_of(body, field, i, count);
  if (entry == nullptr) return fallback;
  if constexpr (std::same_as<T, int64_t>) return whole_number(*entry, field, kWhere);
  else return require<T>(Json{{field, *entry}}, field, kWhere);
}

// One list of ids for all prompts, or a list of lists.
std::vector<int64_t> wanted_ids(const Json& body, size_t i, size_t count) {
  const auto found = body.find("token_ids_logprob");
  if (found == body.end() || found->is_null()) return {};
  const bool each = found->is_array() && !found->empty() && (found->front().is_array() || found->front().is_null());
  const Json* ids = each ? entry_of(body, "token_ids_logprob", i, count) : &*found;
  return ids == nullptr ? std::vector<int64_t>{} : ids_from(*ids, "token_ids_logprob", kWhere);
}

LogProbsWanted log_probs_wanted(const Json& body, size_t i, size_t count) {
  LogProbsWanted wanted{.top = entry_or<int64_t>(body, "top_logprobs_num", i, count, 0),
                        .ids = wanted_ids(body, i, count)};
  wanted.prompt_from = entry_or<int64_t>(body, "logprob_start_len", i, count, -1);
  return wanted;
}

// [log-probability, token id, text or null], as SGLang has it.
struct Entries {
  const tokenizer::Tokenizer& tokenizer;
  const bool text;
  Json one(Json log_prob, int64_t token) const {
    return {std::move(log_prob), token, text ? Json(tokenizer.decode({token})) : Json(nullptr)};
  }
  Json all(const std::vector<float>& log_probs, std::span<const int64_t> tokens) const {
    Json entries = Json::array();
    for (size_t i = 0; i < log_probs.size(); ++i) entries.push_back(one(log_probs[i], tokens[i]));
    return entries;
  }
  Json places(const std::vector<TokenLogProbs>& places) const {
    Json all = Json::array();
    for (const TokenLogProbs& place : places) {
      Json& entries = all.emplace_back(Json::array());
      for (const TokenLogProb& each : place) entries.push_back(one(each.log_prob, each.token));
    }
    return all;
  }
};

void add_log_probs(Json& meta, const Sample& sample, const Output& output, const GenerateRequest& request,
                   const tokenizer::Tokenizer& tokenizer) {
  const Entries entries{tokenizer, request.logprob_text};
  const LogProbsWanted& wanted = request.request.log_probs;
  meta["output_token_logprobs"] = entries.all(sample.log_probs, sample.output_ids);
  if (wanted.top > 0) meta["output_top_logprobs"] = entries.places(sample.top_log_probs);
  if (!wanted.ids.empty()) meta["output_token_ids_logprobs"] = entries.places(sample.ids_log_probs);
  if (wanted.prompt_from < 0) return;
  // The prompt's first token has nothing before it: null.
  const std::span<const int64_t> prompt = request.request.prompt_ids;
  const auto after_first = [&](Json first, Json rest) {
    if (wanted.prompt_from == 0) rest.insert(rest.begin(), std::move(first));
    return rest;
  };
  const auto scored = prompt.subspan(static_cast<size_t>(std::max<int64_t>(wanted.prompt_from, 1)));
  meta["input_token_logprobs"] = after_first(entries.one(nullptr, prompt[0]),
                                             entries.all(output.prompt.log_probs, scored));
  if (wanted.top > 0) meta["input_top_logprobs"] = after_first(nullptr, entries.places(output.prompt.top));
  if (!wanted.ids.empty()) meta["input_token_ids_logprobs"] = after_first(nullptr, entries.places(output.prompt.ids));
}

Json finish_of(const Sample& sample) {
  if (sample.finish == FinishReason::kNone) return nullptr;
  Json finish{{"type", name_of(sample.finish)}};
  if (sample.matched_token >= 0) finish["matched"] = sample.matched_token;
  else if (!sample.matched_text.empty()) finish["matched"] = sample.matched_text;
  if (sample.finish == FinishReason::kLength) finish["length"] = sample.output_ids.size();
  if (sample.finish == FinishReason::kAbort) finish["message"] = sample.abort_message;
  return finish;
}

}  // namespace

void refuse_unless(const Json& object, const char* field, const std::vector<Json>& neutral, const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return;
  if (std::find(neutral.begin(), neutral.end(), *found) == neutral.end()) {
    fail(ErrorKind::kUnsupported, "{}: field '{}' is not supported", where, field);
  }
}

int64_t whole_number(const Json& value, const char* field, const std::string& where) {
  if (const auto number = tritonforge::whole_number<int64_t>(value)) return *number;
  fail(ErrorKind::kUsage, "{}: field '{}' must be a whole number (int64), not {}", where, field,
       value.dump().substr(0, 40));
}

int64_t whole_field(const Json& object, const char* field, int64_t fallback, const std::string& where) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? fallback : whole_number(*found, field, where);
}

std::optional<uint64_t> seed_field(const Json& object, const char* field, const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->is_number_unsigned() ? found->get<uint64_t>()
                                     : static_cast<uint64_t>(whole_number(*found, field, where));
}

std::optional<double> timeout_field(const Json& body, const std::string& where) {
  const auto found = body.find("timeout_s");
  if (found == body.end() || found->is_null()) return std::nullopt;
  const auto seconds = require<double>(body, "timeout_s", where);
  if (seconds <= 0) fail(ErrorKind::kUsage, "{}: field 'timeout_s' must be above 0, not {}", where, seconds);
  return seconds;
}

Deadline sooner(Deadline deadline, std::optional<double> timeout_s) {
  return timeout_s && *timeout_s < deadline.remaining_s() ? Deadline::after(*timeout_s) : deadline;
}

std::vector<std::string> texts_from(const Json& value, const char* field, const std::string& where) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); })) {
    fail(ErrorKind::kUsage, "{}: field '{}' must be a text or a list of texts", where, field);
  }
  return value.get<std::vector<std::string>>();
}

std::vector<int64_t> ids_from(const Json& value, const char* field, const std::string& where) {
  if (value.is_number_integer()) return {whole_number(value, field, where)};
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number_integer(); })) {
    fail(ErrorKind::kUsage, "{}: field '{}' must be a list of token ids", where, field);
  }
  std::vector<int64_t> ids;
  for (const Json& id : value) ids.push_back(whole_number(id, field, where));
  return ids;
}

void read_sampling_fields(const Json& json, const std::string& where, SamplingParams& params) {
  const auto read = [&](const char* field, auto& value) {
    if constexpr (std::same_as<decltype(value), int64_t&>) value = whole_field(json, field, value, where);
    else value = optional_field(json, field, value, where);
  };
  read("temperature", params.temperature);
  read("top_p", params.top_p);
  read("top_k", params.top_k);
  read("min_p", params.min_p);
  read("frequency_penalty", params.frequency_penalty);
  read("presence_penalty", params.presence_penalty);
  read("repetition_penalty", params.repetition_penalty);
  read("ignore_eos", params.ignore_eos);
  read("skip_special_tokens", params.skip_special_tokens);
  read("no_stop_trim", params.no_stop_trim);
  read("n", params.n);
  if (const auto bias = json.find("logit_bias"); bias != json.end() && !bias->is_null())
    params.logit_bias = bias_from(*bias, where);
  if (const auto stop = json.find("stop"); stop != json.end() && !stop->is_null())
    params.stop = texts_from(*stop, "stop", where);
  if (const auto ids = json.find("stop_token_ids"); ids != json.end() && !ids->is_null())
    params.stop_token_ids = ids_from(*ids, "stop_token_ids", where);
}

SamplingParams sampling_from_json(const Json& json, const std::string& where) {
  std::vector<std::string> known = kSamplingFields;
  known.insert(known.end(), constraint_fields().begin(), constraint_fields().end());
  check_keys(json, known, where);
  refuse_constraints(json, where);
  refuse_unless(json, "custom_params", {Json::object()}, where);
  refuse_unless(json, "dtype", {}, where);
  SamplingParams params;
  read_sampling_fields(json, where, params);
  params.max_new_tokens = whole_field(json, "max_new_tokens", params.max_new_tokens, where);
  params.min_new_tokens = whole_field(json, "min_new_tokens", params.min_new_tokens, where);
  for (const char* field : {"seed", "sampling_seed"}) {  // SGLang's name is the second
    if (const auto seed = seed_field(json, field, where)) params.seed = seed;
  }
  return params;
}

GenerateBody generate_from_json(const Json& body, const tokenizer::Tokenizer& tokenizer,
                                const std::string& default_id) {
  check_keys(body, kGenerateFields, kWhere);
  refuse_unless(body, "return_hidden_states", {false}, kWhere);
  refuse_unless(body, "return_routed_experts", {false}, kWhere);
  refuse_unless(body, "priority", {0}, kWhere);
  for (const char* field : {"lora_path", "image_data", "video_data", "audio_data", "input_embeds",
                            "custom_logit_processor", "session_params"})
    refuse_unless(body, field, {Json::array()}, kWhere);
  Prompts prompts = prompts_from(body, tokenizer);
  GenerateBody parsed;
  parsed.list = prompts.list;
  parsed.stream = optional_field(body, "stream", false, kWhere);
  parsed.timeout_s = timeout_field(body, kWhere);
  const bool text = optional_field(body, "return_text_in_logprobs", false, kWhere);
  const size_t count = prompts.ids.size();
  for (size_t i = 0; i < count; ++i) {
    GenerateRequest& each = parsed.requests.emplace_back();
    each.return_logprob = entry_or(body, "return_logprob", i, count, false);
    each.logprob_text = text;
    each.request.prompt_ids = std::move(prompts.ids[i]);
    const Json* sampling = entry_of(body, "sampling_params", i, count);
    each.request.sampling = sampling_from_json(sampling != nullptr ? *sampling : Json::object(),
                                               std::string(kWhere) + ": sampling_params");
    if (each.return_logprob) each.request.log_probs = log_probs_wanted(body, i, count);
    each.request.stream = parsed.stream;
    each.request.id = entry_or(body, "rid", i, count, default_id);
    if (count == 1 || (body.contains("rid") && body["rid"].is_array())) continue;
    each.request.list_id = each.request.id;
    each.request.id += "-" + std::to_string(i);
  }
  return parsed;
}

std::vector<Json> generate_to_json(const Output& output, const GenerateRequest& request,
                                   const tokenizer::Tokenizer& tokenizer) {
  std::vector<Json> list;
  for (const Sample& sample : output.samples) {
    const int64_t version = sample.weight_versions.empty() ? output.weight_version : sample.weight_versions.back();
    Json meta{{"id", output.id},
              {"finish_reason", finish_of(sample)},
              {"prompt_tokens", output.prompt_tokens},
              {"completion_tokens", sample.output_ids.size()},
              {"cached_tokens", output.cached_tokens},
              {"weight_version", std::to_string(version)},
              {"output_token_weight_versions", sample.weight_versions},
              {"first_token_latency", output.first_token_s},
              {"e2e_latency", output.latency_s}};
    if (sample.mixed_cache) meta["mixed_weight_cache"] = true;
    if (request.return_logprob) add_log_probs(meta, sample, output, request, tokenizer);
    list.push_back({{"text", sample.text}, {"output_ids", sample.output_ids}, {"meta_info", std::move(meta)}});
  }
  return list;
}

}  // namespace tritonforge::engine
