#include "engine/wire.h"

#include <algorithm>

namespace tritonforge::engine {
namespace {

constexpr const char* kWhere = "POST /generate";

std::vector<std::string> texts_from(const Json& value, const char* field, const std::string& where) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); })) {
    fail(ErrorKind::kUsage, "{}: field '{}' must be a text or a list of texts", where, field);
  }
  return value.get<std::vector<std::string>>();
}

std::vector<int64_t> ids_from(const Json& value, const char* field, const std::string& where) {
  if (value.is_number_integer()) return {value.get<int64_t>()};
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number_integer(); })) {
    fail(ErrorKind::kUsage, "{}: field '{}' must be a list of token ids", where, field);
  }
  return value.get<std::vector<int64_t>>();
}

// A field that SGLang has and this engine has not: accepted where it changes nothing.
void refuse_unless(const Json& object, const char* field, const std::vector<Json>& neutral, const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return;
  if (std::find(neutral.begin(), neutral.end(), *found) == neutral.end()) {
    fail(ErrorKind::kUnsupported, "{}: field '{}' is not supported", where, field);
  }
}

const std::vector<std::string> kSamplingFields{"temperature",
                                               "top_p",
                                               "top_k",
                                               "min_p",
                                               "max_new_tokens",
                                               "stop",
                                               "stop_token_ids",
                                               "ignore_eos",
                                               "skip_special_tokens",
                                               "no_stop_trim",
                                               "n",
                                               "seed",
                                               "sampling_seed",
                                               "spaces_between_special_tokens",
                                               "frequency_penalty",
                                               "presence_penalty",
                                               "repetition_penalty",
                                               "min_new_tokens",
                                               "regex",
                                               "json_schema",
                                               "ebnf",
                                               "structural_tag",
                                               "stop_regex",
                                               "logit_bias",
                                               "custom_params"};

const std::vector<std::string> kGenerateFields{"text",
                                               "input_ids",
                                               "rid",
                                               "stream",
                                               "return_logprob",
                                               "sampling_params",
                                               "logprob_start_len",
                                               "top_logprobs_num",
                                               "return_text_in_logprobs",
                                               "token_ids_logprob",
                                               "return_hidden_states",
                                               "session_id",
                                               "timeout_s",
                                               "lora_path",
                                               "image_data",
                                               "model"};

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
  return prompts;
}

}  // namespace

SamplingParams sampling_from_json(const Json& json, const std::string& where) {
  check_keys(json, kSamplingFields, where);
  for (const char* field : {"frequency_penalty", "presence_penalty", "min_new_tokens"})
    refuse_unless(json, field, {0, 0.0}, where);
  refuse_unless(json, "repetition_penalty", {1, 1.0}, where);
  for (const char* field :
       {"regex", "json_schema", "ebnf", "structural_tag", "stop_regex", "logit_bias", "custom_params"}) {
    refuse_unless(json, field, {Json::object(), Json::array()}, where);
  }
  SamplingParams params;
  const auto read = [&](const char* field, auto& value) { value = optional_field(json, field, value, where); };
  read("temperature", params.temperature);
  read("top_p", params.top_p);
  read("top_k", params.top_k);
  read("min_p", params.min_p);
  read("max_new_tokens", params.max_new_tokens);
  read("ignore_eos", params.ignore_eos);
  read("skip_special_tokens", params.skip_special_tokens);
  read("no_stop_trim", params.no_stop_trim);
  read("n", params.n);
  for (const char* field : {"seed", "sampling_seed"}) {  // SGLang's name is the second
    if (const auto seed = json.find(field); seed != json.end() && !seed->is_null()) {
      params.seed = require<uint64_t>(json, field, where);
    }
  }
  if (const auto stop = json.find("stop"); stop != json.end() && !stop->is_null())
    params.stop = texts_from(*stop, "stop", where);
  if (const auto ids = json.find("stop_token_ids"); ids != json.end() && !ids->is_null()) {
    params.stop_token_ids = ids_from(*ids, "stop_token_ids", where);
  }
  return params;
}

GenerateBody generate_from_json(const Json& body, const tokenizer::Tokenizer& tokenizer,
                                const std::string& default_id) {
  check_keys(body, kGenerateFields, kWhere);
  refuse_unless(body, "top_logprobs_num", {0}, kWhere);
  refuse_unless(body, "return_hidden_states", {false}, kWhere);
  for (const char* field : {"token_ids_logprob", "lora_path", "image_data"})
    refuse_unless(body, field, {Json::array()}, kWhere);
  if (const auto start = body.find("logprob_start_len"); start != body.end() && !start->is_null() && *start != -1) {
    fail(ErrorKind::kUnsupported,
         "{}: logprob_start_len: log-probabilities of the prompt come from `tritonforge score`", kWhere);
  }
  Prompts prompts = prompts_from(body, tokenizer);
  GenerateBody parsed;
  parsed.list = prompts.list;
  parsed.stream = optional_field(body, "stream", false, kWhere);
  const bool log_probs = optional_field(body, "return_logprob", false, kWhere);
  const bool text = optional_field(body, "return_text_in_logprobs", false, kWhere);
  const Json sampling = body.contains("sampling_params") && !body["sampling_params"].is_null() ? body["sampling_params"]
                                                                                               : Json::object();
  const Json ids = body.contains("rid") && !body["rid"].is_null() ? body["rid"] : Json(default_id);
  const size_t count = prompts.ids.size();
  if (count == 0) fail(ErrorKind::kUsage, "{}: the list of prompts is empty", kWhere);
  for (const auto& [name, value] : {std::pair<const char*, const Json&>{"sampling_params", sampling}, {"rid", ids}}) {
    if (value.is_array() && value.size() != count) {
      fail(ErrorKind::kUsage, "{}: {} entries in '{}' for {} prompts", kWhere, value.size(), name, count);
    }
  }
  const std::string where = std::string(kWhere) + ": sampling_params";
  for (size_t i = 0; i < count; ++i) {
    GenerateRequest& each = parsed.requests.emplace_back();
    each.return_logprob = log_probs;
    each.logprob_text = text;
    each.request.prompt_ids = std::move(prompts.ids[i]);
    each.request.sampling = sampling_from_json(sampling.is_array() ? sampling[i] : sampling, where);
    each.request.stream = parsed.stream;
    const Json& id = ids.is_array() ? ids[i] : ids;
    if (!id.is_string()) fail(ErrorKind::kUsage, "{}: field 'rid' must be a text", kWhere);
    each.request.id = id.get<std::string>();
    if (!ids.is_array() && count > 1) each.request.id += "-" + std::to_string(i);
  }
  return parsed;
}

std::vector<Json> generate_to_json(const Output& output, const GenerateRequest& request,
                                   const tokenizer::Tokenizer& tokenizer) {
  std::vector<Json> list;
  for (const Sample& sample : output.samples) {
    Json finish = nullptr;
    if (sample.finish != FinishReason::kNone) {
      finish = {{"type", name_of(sample.finish)}};
      if (sample.matched_token >= 0) finish["matched"] = sample.matched_token;
      else if (!sample.matched_text.empty()) finish["matched"] = sample.matched_text;
      if (sample.finish == FinishReason::kLength) finish["length"] = sample.output_ids.size();
      if (sample.finish == FinishReason::kAbort) finish["message"] = sample.abort_message;
    }
    const int64_t version = sample.weight_versions.empty() ? output.weight_version : sample.weight_versions.back();
    Json meta{{"id", output.id},
              {"finish_reason", std::move(finish)},
              {"prompt_tokens", output.prompt_tokens},
              {"completion_tokens", sample.output_ids.size()},
              {"cached_tokens", output.cached_tokens},
              {"weight_version", std::to_string(version)},
              {"output_token_weight_versions", sample.weight_versions},
              {"first_token_latency", output.first_token_s},
              {"e2e_latency", output.latency_s}};
    if (sample.mixed_cache) meta["mixed_weight_cache"] = true;
    if (request.return_logprob) {
      Json entries = Json::array();
      for (size_t i = 0; i < sample.output_ids.size(); ++i) {
        Json text = request.logprob_text ? Json(tokenizer.decode({sample.output_ids[i]})) : Json(nullptr);
        entries.push_back({sample.log_probs[i], sample.output_ids[i], std::move(text)});
      }
      meta["output_token_logprobs"] = std::move(entries);
    }
    list.push_back({{"text", sample.text}, {"output_ids", sample.output_ids}, {"meta_info", std::move(meta)}});
  }
  return list;
}

}  // namespace tritonforge::engine
