#include "contract/rollout.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tritonforge {
namespace {

void at_least(double value, double least, const char* key, const std::string& where) {
  if (!(value >= least) || !std::isfinite(value)) {
    fail(ErrorKind::kUsage, "{}: '{}' must be at least {}, not {}", where, key, least, value);
  }
}

SamplingOptions sampling_from_json(const Json& json, const std::string& where) {
  check_keys(json, {"temperature", "top_p", "top_k", "min_p", "max_new_tokens"}, where);
  SamplingOptions out;
  out.temperature = optional_field(json, "temperature", out.temperature, where);
  out.top_p = optional_field(json, "top_p", out.top_p, where);
  out.min_p = optional_field(json, "min_p", out.min_p, where);
  out.top_k = optional_field(json, "top_k", out.top_k, where);
  out.max_new_tokens = optional_field(json, "max_new_tokens", out.max_new_tokens, where);
  at_least(out.temperature, 0, "temperature", where);
  at_least(static_cast<double>(out.max_new_tokens), 1, "max_new_tokens", where);
  if (!(out.top_p > 0 && out.top_p <= 1))
    fail(ErrorKind::kUsage, "{}: 'top_p' must be in (0, 1], not {}", where, out.top_p);
  return out;
}

EvaluationOptions evaluation_from_json(const Json& json, const std::string& where) {
  check_keys(
      json,
      {"mode", "backend", "num_correct_trials", "num_perf_trials", "measure_performance", "fresh_seeds", "timeout_s"},
      where);
  EvaluationOptions out;
  out.mode = optional_field(json, "mode", out.mode, where);
  out.backend = optional_field(json, "backend", out.backend, where);
  out.num_correct_trials = optional_field(json, "num_correct_trials", out.num_correct_trials, where);
  out.num_perf_trials = optional_field(json, "num_perf_trials", out.num_perf_trials, where);
  out.measure_performance = optional_field(json, "measure_performance", out.measure_performance, where);
  out.fresh_seeds = optional_field(json, "fresh_seeds", out.fresh_seeds, where);
  out.timeout_s = optional_field(json, "timeout_s", out.timeout_s, where);
  at_least(static_cast<double>(out.num_correct_trials), 1, "num_correct_trials", where);
  at_least(out.timeout_s, 0.1, "timeout_s", where);
  return out;
}

std::string optional_text(const Json& json, const char* key, std::string_view fallback, const std::string& where) {
  return optional_field(json, key, std::string(fallback), where);
}

}  // namespace

RolloutOptions rollout_options_from_json(const Json& json, const std::string& where) {
  check_keys(json,
             {"max_turns", "gamma", "reward", "credit", "advantage", "prompt", "stop_reward", "max_context",
              "enable_thinking", "sampling", "evaluate", "router", "evaluator"},
             where);
  RolloutOptions out;
  out.max_turns = optional_field(json, "max_turns", out.max_turns, where);
  out.gamma = optional_field(json, "gamma", out.gamma, where);
  out.reward = optional_field(json, "reward", out.reward, where);
  out.credit = from_name<Credit>(optional_text(json, "credit", name_of(out.credit), where), "credit rule");
  out.advantage = from_name<Advantage>(optional_text(json, "advantage", name_of(out.advantage), where), "advantage");
  out.prompt = from_name<PromptStyle>(optional_text(json, "prompt", name_of(out.prompt), where), "prompt style");
  out.stop_reward = optional_field(json, "stop_reward", out.stop_reward, where);
  out.max_context = optional_field(json, "max_context", out.max_context, where);
  out.enable_thinking = optional_field(json, "enable_thinking", out.enable_thinking, where);
  out.router = optional_field(json, "router", out.router, where);
  out.evaluator = optional_field(json, "evaluator", out.evaluator, where);
  if (json.contains("sampling")) out.sampling = sampling_from_json(json["sampling"], where + ".sampling");
  if (json.contains("evaluate")) out.evaluate = evaluation_from_json(json["evaluate"], where + ".evaluate");
  at_least(static_cast<double>(out.max_turns), 1, "max_turns", where);
  at_least(out.gamma, 0, "gamma", where);
  at_least(static_cast<double>(out.max_context), 2, "max_context", where);
  return out;
}

Json to_json(const RolloutOptions& o) {
  return {{"max_turns", o.max_turns},
          {"gamma", o.gamma},
          {"reward", o.reward},
          {"credit", name_of(o.credit)},
          {"advantage", name_of(o.advantage)},
          {"prompt", name_of(o.prompt)},
          {"stop_reward", o.stop_reward},
          {"max_context", o.max_context},
          {"enable_thinking", o.enable_thinking},
          {"sampling",
           {{"temperature", o.sampling.temperature},
            {"top_p", o.sampling.top_p},
            {"top_k", o.sampling.top_k},
            {"min_p", o.sampling.min_p},
            {"max_new_tokens", o.sampling.max_new_tokens}}},
          {"evaluate",
           {{"mode", o.evaluate.mode},
            {"backend", o.evaluate.backend},
            {"num_correct_trials", o.evaluate.num_correct_trials},
            {"num_perf_trials", o.evaluate.num_perf_trials},
            {"measure_performance", o.evaluate.measure_performance},
            {"fresh_seeds", o.evaluate.fresh_seeds},
            {"timeout_s", o.evaluate.timeout_s}}},
          {"router", o.router},
          {"evaluator", o.evaluator}};
}

GroupSpec group_spec_from_json(const Json& json, const RolloutOptions& options, const std::string& where) {
  check_keys(json, {"group_id", "problem_id", "problem_source", "n_samples", "seed", "messages"}, where);
  GroupSpec spec;
  spec.id = require<std::string>(json, "group_id", where);
  spec.problem_id = require<std::string>(json, "problem_id", where);
  spec.problem_source = require<std::string>(json, "problem_source", where);
  spec.n_samples = optional_field(json, "n_samples", spec.n_samples, where);
  spec.seed = optional_field(json, "seed", spec.seed, where);
  spec.options = options;
  if (spec.id.empty()) fail(ErrorKind::kUsage, "{}: 'group_id' is empty", where);
  if (spec.n_samples < 1 || spec.n_samples > 4096) {
    fail(ErrorKind::kUsage, "{}: 'n_samples' must be 1 to 4096, not {}", where, spec.n_samples);
  }
  if (json.contains("messages")) {
    for (const Json& message : require<std::vector<Json>>(json, "messages", where)) {
      spec.messages.push_back(tokenizer::message_from_json(message, where + ".messages"));
    }
  }
  return spec;
}

}  // namespace tritonforge
