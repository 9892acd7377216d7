#include "orchestrate/recipe.h"

#include <algorithm>
#include <cstdlib>

namespace tritonforge::orchestrate {
namespace {

void check(bool ok, const char* field, const std::string& rule) {
  if (!ok) fail(ErrorKind::kUsage, "'{}' {}", field, rule);
}

void check_name(const std::string& value, const char* field, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    fail(ErrorKind::kUsage, "'{}': unknown value '{}'{}", field, value, nearest_hint(value, known));
  }
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

YAML::Node load_extended(const fs::path& path, int depth) {
  if (depth > 8) fail(ErrorKind::kUsage, "{}: 'extends' goes in a circle", path.string());
  YAML::Node node = load_yaml_file(path.string());
  if (!node.IsMap()) fail(ErrorKind::kUsage, "{}: a recipe is a mapping", path.string());
  const YAML::Node parent = static_cast<const YAML::Node&>(node)["extends"];
  if (!parent) return node;
  const YAML::Node base = load_extended(path.parent_path() / parent.as<std::string>(), depth + 1);
  node.remove("extends");
  return merged(base, node);
}

}  // namespace

bool RecipeConfig::has_stage(const std::string& stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

void RecipeConfig::validate() const {
  check(!name.empty() && name.find('/') == std::string::npos, "name", "must be a folder name");
  check(!stages.empty(), "stages", "must name at least one of data, sft, rl, bench");
  for (const auto& stage : stages) check_name(stage, "stages", {"data", "sft", "rl", "bench"});
  check(!model.path.empty(), "model.path", "is missing");
  check_name(model.dtype, "model.dtype", {"float32", "bfloat16"});
  check_name(evaluator.mode, "evaluator.mode", {"interpret", "live"});
  check_name(evaluator.sandbox, "evaluator.sandbox", {"auto", "strict"});
  check_name(rollout.credit, "rollout.credit", {"trajectory", "per_turn", "best_turn"});
  check_name(rollout.advantage, "rollout.advantage", {"grpo", "grpo_nostd", "rloo"});
  check_name(rollout.prompt, "rollout.prompt", {"minimal", "kernelbench"});
  check(rollout.max_turns >= 1 && rollout.max_turns <= 16, "rollout.max_turns", "must be between 1 and 16");
  check(rollout.gamma >= 0 && rollout.gamma <= 1, "rollout.gamma", "must be between 0 and 1");
  check(evaluator.workers >= 1, "evaluator.workers", "must be at least 1");
  check(engine.count >= 1, "engine.count", "must be at least 1");
  if (!engine.external.empty() && (has_stage("sft") || has_stage("rl"))) {
    fail(ErrorKind::kUsage,
         "'engine.external': training needs engines that take its weights from shared memory; start them here "
         "(engine.count)");
  }
  if (has_stage("data") || (has_stage("sft") && data.text.empty()))
    check(!data.pairs.empty(), "data.pairs", "is missing");
  if (has_stage("sft")) check(sft.steps >= 1, "sft.steps", "must be at least 1");
  if (has_stage("rl")) {
    check(!rl.problems.empty(), "rl.problems", "is missing");
    check(rl.steps >= 1, "rl.steps", "must be at least 1");
    check(rl.prompts_per_step >= 1, "rl.prompts_per_step", "must be at least 1");
    check(rl.samples_per_prompt >= 2, "rl.samples_per_prompt", "must be at least 2: a group compares its members");
    check(rl.max_staleness >= 0, "rl.max_staleness", "must not be negative");
  }
  if (has_stage("bench")) {
    check(!bench.problems.empty(), "bench.problems", "is missing");
    check(bench.samples >= 1, "bench.samples", "must be at least 1");
    check(!bench.models.empty(), "bench.models", "must name at least one of base, sft, rl");
    for (const auto& model : bench.models) check_name(model, "bench.models", {"base", "sft", "rl"});
    check(!bench.turns.empty(), "bench.turns", "must name at least one turn budget");
    for (const int64_t turns : bench.turns) check(turns >= 1 && turns <= 16, "bench.turns", "must be between 1 and 16");
  }
}

RecipeConfig load_recipe(const fs::path& path, const std::vector<std::string>& overrides) {
  YAML::Node node = load_extended(path, 0);
  for (const auto& assignment : overrides) apply_override(node, assignment);
  return load_config<RecipeConfig>(node, path.string());
}

fs::path resolve_path(const std::string& path) {
  const fs::path given = path;
  if (given.is_absolute() || fs::exists(given)) return fs::absolute(given);
  const char* root = std::getenv("TRITONFORGE_ROOT");
  return root ? fs::path(root) / given : fs::absolute(given);
}

}  // namespace tritonforge::orchestrate
