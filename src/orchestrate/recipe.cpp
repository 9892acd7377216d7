#include "orchestrate/recipe.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "rollout/reward.h"

namespace tritonforge::orchestrate {
namespace {

void check(bool ok, const std::string& field, const std::string& rule) {
  if (!ok) fail(ErrorKind::kUsage, "'{}' {}", field, rule);
}

// Mappings are merged key by key; everything else of `over` replaces `base`.
YAML::Node merged(const YAML::Node& base, const YAML::Node& over) {
  if (!base.IsMap() || !over.IsMap()) return YAML::Clone(over);
  YAML::Node result = YAML::Clone(base);
  for (const auto& entry : over) {
    const auto key = entry.first.as<std::string>();
    const YAML::Node below = static_cast<const YAML::Node&>(base)[key];
    result[key] = below ? merged(below, entry.second) : YAML::Clone(entry.second);
  }
  return result;
}

void require_recipe(const fs::path& path) {
  if (fs::exists(path)) return;
  const auto recipes = names_in(path.has_parent_path() ? path.parent_path() : ".",
                                [](const fs::path& entry) { return entry.extension() == ".yaml"; });
  fail(ErrorKind::kNotFound, "there is no recipe {}{}", path.string(), nearest_hint(path.filename().string(), recipes));
}

YAML::Node load_extended(const fs::path& path, int depth) {
  if (depth > 8) fail(ErrorKind::kUsage, "{}: 'extends' goes in a circle", path.string());
  require_recipe(path);
  YAML::Node node = load_yaml_file(path.string());
  if (!node.IsMap()) fail(ErrorKind::kUsage, "{}: a recipe is a mapping", path.string());
  const YAML::Node parent = static_cast<const YAML::Node&>(node)["extends"];
  if (!parent) return node;
  const YAML::Node base = load_extended(path.parent_path() / parent.as<std::string>(), depth + 1);
  node.remove("extends");
  return merged(base, node);
}

// What the recipe names; "" where it names none.
std::string algorithm_of(const YAML::Node& recipe) {
  const YAML::Node rl = recipe["rl"];
  if (!rl || !rl.IsMap()) return "";
  const YAML::Node algorithm = static_cast<const YAML::Node&>(rl)["algorithm"];
  return algorithm && algorithm.IsScalar() ? algorithm.Scalar() : "";
}

}  // namespace

bool RecipeConfig::has_stage(const std::string& stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

void RecipeConfig::validate() const {
  check(name.find('/') == std::string::npos, "name", "must be a folder name");
  check(!stages.empty(), "stages", "must name at least one of data, sft, rl, bench");
  check(!model.path.empty() || model.is_chat(), "model.path", "is missing");
  if (model.is_chat()) {
    check(model.path.empty(), "model.chat_url", "and model.path name two models");
    check(!model.chat_name.empty(), "model.chat_name", "is missing");
    check(stages == std::vector<std::string>{"bench"}, "model.chat_url",
          "is for the one stage bench: it is not trained");
    check(bench.models == std::vector<std::string>{"base"}, "bench.models", "must be [base] with model.chat_url");
  }
  try {
    rollout::Reward::named(rollout.reward);
  } catch (const Error& error) {
    fail(error.kind(), "'rollout.reward': {}", error.what());
  }
  if (!engine.external.empty() && (has_stage("sft") || has_stage("rl"))) {
    fail(ErrorKind::kUsage,
         "'engine.external': training needs engines that take its weights from shared memory; start them here "
         "(engine.count)");
  }
  for (const auto& [stage, train] : {std::pair{"sft", &sft.train}, std::pair{"rl", &rl.train}}) {
    const std::string refusal = has_stage(stage) ? train->states_refusal(model.device, model.dtype) : "";
    check(refusal.empty(), fmt::format("{}.train.optimizer_state", stage),
          fmt::format("{} {}", tritonforge::name_of(train->optimizer_state), refusal));
  }
  check(data.text.empty() || data.conversations.empty(), "data.conversations", "is set beside data.text");
  const bool pairs = has_stage("data") || (has_stage("sft") && data.from_pairs());
  if (pairs) check(!data.pairs.empty(), "data.pairs", "is missing");
  if (evaluator.request.backend != Backend::kTriton) {
    check(!pairs, "evaluator.backend",
          fmt::format("is {}, and the pairs of stages data and sft are in Triton", name_of(evaluator.request.backend)));
    check(!evaluates() || evaluator.mode == EvaluationMode::kPlan, "evaluator.mode",
          fmt::format("must be plan for candidates in {}", name_of(evaluator.request.backend)));
  }
  if (has_stage("rl")) {
    check(!rl.problems.empty(), "rl.problems", "is missing");
    check(rl.sampling.temperature > 0, "rl.sampling.temperature", "must be above 0: else a group's samples are alike");
    check(rollout.max_context <= rl.train.max_tokens_per_micro_batch, "rl.train.max_tokens_per_micro_batch",
          fmt::format("is {}: a trajectory of rollout.max_context = {} tokens does not fit",
                      rl.train.max_tokens_per_micro_batch, rollout.max_context));
    check(rl.validation.every == 0 || !rl.validation.problems.empty(), "rl.validation.problems", "is missing");
  }
  if (has_stage("bench")) {
    check(!bench.problems.empty(), "bench.problems", "is missing");
    check(!bench.models.empty(), "bench.models", "must name at least one of base, sft, rl");
    check(!bench.turns.empty(), "bench.turns", "must name at least one turn budget");
    for (const int64_t k : bench.pass_at)
      check(k <= bench.samples, "bench.pass_at",
            fmt::format("{} needs as many bench.samples, not {}", k, bench.samples));
  }
}

RolloutOptions RecipeConfig::rollout_request(const SamplingOptions& sampling, int64_t max_turns) const {
  RolloutOptions options = rollout;
  options.max_turns = max_turns;
  options.sampling = sampling;
  options.evaluate = evaluator.request;
  options.evaluate.mode = evaluator.mode;
  options.evaluate.measure_performance = evaluator.on_gpu();
  if (model.is_chat()) {
    options.router = model.chat_url;
    options.chat_model = model.chat_name;
  }
  return options;
}

namespace {

// Options, and whole sections, that do not decide the result.
const std::vector<std::string> kFree = {"dashboard_port",
                                        "share_device",
                                        "supervisor",
                                        "engine",
                                        "model.device",
                                        "rollout.concurrency",
                                        "rollout.evaluations",
                                        "rollout.max_queued",
                                        "rollout.generate_timeout_s",
                                        "rollout.evaluate_margin_s",
                                        "rollout.patience_s",
                                        "evaluator.device",
                                        "evaluator.devices",
                                        "evaluator.workers",
                                        "sft.train.checkpoint_interval",
                                        "sft.train.keep_checkpoints",
                                        "sft.train.buffer_timeout_s",
                                        "rl.train.checkpoint_interval",
                                        "rl.train.keep_checkpoints",
                                        "rl.train.buffer_timeout_s"};

// Sections, and the stages that read them. What is not here is read by all.
const std::map<std::string, std::vector<std::string>> kReaders = {{"data", {"data", "sft"}},
                                                                  {"sft", {"sft"}},
                                                                  {"rl", {"rl"}},
                                                                  {"bench", {"bench"}},
                                                                  {"rollout", {"rl", "bench"}},
                                                                  {"evaluator", {"data", "rl", "bench"}}};

bool may_change(const std::string& key, const std::vector<std::string>& begun) {
  const auto readers = kReaders.find(key.substr(0, key.find('.')));
  return readers != kReaders.end() &&
         std::none_of(readers->second.begin(), readers->second.end(), [&](const std::string& stage) {
           return std::find(begun.begin(), begun.end(), stage) != begun.end();
         });
}

void flatten(const OptionList& list, const std::string& path, std::map<std::string, std::string>& values) {
  for (const Option& option : list.options()) {
    const std::string key = path + option.name;
    if (option.hidden || std::find(kFree.begin(), kFree.end(), key) != kFree.end()) continue;
    if (option.kind == OptionKind::kSection) flatten(*option.section, key + ".", values);
    else values[key] = text_of(option);
  }
}

}  // namespace

std::vector<std::string> deciding_changes(RecipeConfig before, RecipeConfig now,
                                          const std::vector<std::string>& begun) {
  std::map<std::string, std::string> old_values, new_values;
  flatten(options_of(before), "", old_values);
  flatten(options_of(now), "", new_values);
  std::vector<std::string> changes;
  for (const auto& [key, value] : new_values) {
    if (old_values[key] != value && !may_change(key, begun))
      changes.push_back(fmt::format("{}: {}, now {}", key, old_values[key], value));
  }
  return changes;
}

RecipeConfig load_recipe(const fs::path& path, const std::vector<std::string>& overrides) {
  YAML::Node node = load_extended(path, 0);
  for (const auto& assignment : overrides) apply_override(node, assignment);
  if (const std::string name = algorithm_of(node); !name.empty()) node = merged(algorithm_keys(name), node);
  return load_config<RecipeConfig>(node, path.string());
}

fs::path resolve_path(const std::string& path) {
  const fs::path given = path;
  if (given.empty()) return given;
  if (given.is_absolute() || fs::exists(given)) return fs::absolute(given);
  const char* root = std::getenv("TRITONFORGE_ROOT");
  return root ? fs::path(root) / given : fs::absolute(given);
}

}  // namespace tritonforge::orchestrate
