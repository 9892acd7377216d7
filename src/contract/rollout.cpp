#include "contract/rollout.h"

#include "base/options_json.h"
#include "contract/prompt_message.h"

namespace tritonforge {

RolloutOptions rollout_options_from_json(const Json& json, const std::string& where) {
  return options_from_json<RolloutOptions>(json, where);
}

Json to_json(const EvaluationOptions& options) { return options_to_json(options); }
Json to_json(const RolloutOptions& options) { return options_to_json(options); }

tokenizer::Message prompt_message(const Json& json, const std::string& where) {
  tokenizer::Message message = tokenizer::message_from_json(json, where);
  if (!message.tool_calls.empty())
    fail(ErrorKind::kUnsupported, "{}: 'tool_calls': a rollout's prompt calls no tools", where);
  return message;
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
      spec.messages.push_back(prompt_message(message, where + ".messages"));
    }
  }
  return spec;
}

}  // namespace tritonforge
