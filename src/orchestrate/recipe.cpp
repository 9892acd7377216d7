#include "orchestrate/recipe.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/hub.h"
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

// What the placement's groups cannot be together.
void check_placement(const RecipeConfig& config) {
  const Layout layout = config.layout();
  const auto on_gpu = [](const std::vector<Place>& places) { return !places.front().gpus.empty(); };
  if (config.trains() && config.serves())
    check(on_gpu(layout.actor) == on_gpu(layout.engines), "placement",
          "gives GPUs to one of actor and rollout alone: both compute on GPUs, or both on the CPU");
  check(!config.trains() || on_gpu(layout.actor) || !config.model.device.starts_with("cuda"), "placement.actor",
        "has no GPU");
  const size_t gpus = layout.eval.gpus.size();
  if (!config.evaluates() || gpus == 0) return;
  check(config.evaluator.mode != EvaluationMode::kInterpret, "placement.eval",
        "has GPUs, and mode interpret uses none");
  check(gpus == 1 || config.evaluator.mode == EvaluationMode::kPlan, "placement.eval",
        fmt::format("has {} GPUs, and mode {} uses 1", gpus, name_of(config.evaluator.mode)));
}

// Where a recipe may be: as given, else of the program's own: recipes/quickstart.yaml, quickstart.
std::vector<fs::path> places_of(const fs::path& given) {
  if (given.is_absolute()) return {given};
  const fs::path root = resolve_path("recipes").parent_path();
  return {given, root / given, root / "recipes" / given, root / "recipes" / (given.string() + ".yaml")};
}

fs::path find_recipe(const fs::path& given) {
  if (fs::exists(given)) return given;
  for (const fs::path& place : places_of(given))
    if (fs::is_regular_file(place)) return place;
  return given;
}

// What lies where `path` was looked for, with the ending where `path` has one.
std::vector<std::string> recipes_near(const fs::path& path) {
  const bool whole = path.extension() == ".yaml";
  std::set<std::string> names;
  for (const fs::path& place : places_of(path)) {
    for (const fs::path name : names_in(place.has_parent_path() ? place.parent_path() : ".", [](const fs::path& entry) {
           return entry.extension() == ".yaml" && !entry.filename().string().starts_with(".");
         }))
      names.insert(whole ? name.string() : name.stem().string());
  }
  return {names.begin(), names.end()};
}

void require_recipe(const fs::path& path) {
  if (fs::is_regular_file(path / "recipe.yaml"))
    fail(ErrorKind::kUsage, "{} is a run's folder: `tritonforge run {} --output {} --resume` goes on with it",
         path.string(), (path / "recipe.yaml").string(), path.string());
  if (fs::exists(path)) return;
  fail(ErrorKind::kNotFound, "there is no recipe {}{}", path.string(),
       nearest_hint(path.filename().string(), recipes_near(path)));
}

// Beside the recipe that names it, else of the program's own.
fs::path base_of(const fs::path& recipe, const YAML::Node& parent) {
  if (!parent.IsScalar()) fail(ErrorKind::kUsage, "{}: 'extends' must be the name of one recipe", recipe.string());
  const fs::path beside = recipe.parent_path() / parent.Scalar();
  if (fs::is_regular_file(beside)) return beside;
  const fs::path found = find_recipe(parent.Scalar());
  return fs::is_regular_file(found) ? found : beside;
}

YAML::Node load_extended(const fs::path& path, int depth) {
  if (depth > 8) fail(ErrorKind::kUsage, "{}: 'extends' goes in a circle", path.string());
  require_recipe(path);
  YAML::Node node = load_yaml_file(path.string());
  if (!node.IsMap()) fail(ErrorKind::kUsage, "{}: a recipe is a mapping", path.string());
  const YAML::Node parent = static_cast<const YAML::Node&>(node)["extends"];
  if (!parent) return node;
  const YAML::Node base = load_extended(base_of(path, parent), depth + 1);
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

bool same(const YAML::Node& a, const YAML::Node& b) {
  if (a.IsScalar() && b.IsScalar()) return a.Scalar() == b.Scalar();
  if (!a.IsSequence() || !b.IsSequence() || a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

// What is at a dotted path; undefined where nothing is.
YAML::Node find_path(const YAML::Node& node, const std::string& path) {
  if (!node || !node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
  const size_t dot = path.find('.');
  const YAML::Node below = node[path.substr(0, dot)];
  return dot == std::string::npos || !below ? below : find_path(below, path.substr(dot + 1));
}

// What a placement says of other keys of the recipe: path and value in YAML.
std::vector<std::pair<std::string, std::string>> decided_keys(const Layout& layout, bool plans) {
  const auto device = [](const Place& place) { return place.gpus.empty() ? "cpu" : "cuda:0"; };
  const bool gpu = !layout.actor.front().gpus.empty() || !layout.engines.front().gpus.empty();
  std::vector<std::string> eval;
  for (size_t i = 0; i < layout.eval.gpus.size(); ++i) eval.push_back(fmt::format("\"cuda:{}\"", i));
  const bool several = plans && eval.size() > 1;
  const bool shares = layout.actor_shares || layout.rollout_shares || layout.eval_shares;
  return {{"model.device", gpu ? "cuda:0" : "cpu"},
          {"engine.count", std::to_string(layout.engines.size())},
          {"evaluator.device", several ? "cpu" : device(layout.eval)},
          {"evaluator.devices", several ? fmt::format("[{}]", fmt::join(eval, ", ")) : "[]"},
          {"share_device", gpu && shares ? "true" : "false"}};
}

// Puts what the placement decides into the recipe, and refuses where the recipe says otherwise.
void apply_placement(YAML::Node& recipe, const std::string& where) {
  const YAML::Node section = static_cast<const YAML::Node&>(recipe)["placement"];
  if (!section || section.IsNull()) return;
  struct PlacementOnly {
    PlacementSection placement;
    void describe(OptionList& v) { v("placement", placement, ""); }
  };
  YAML::Node only(YAML::NodeType::Map);
  only["placement"] = section;
  const PlacementSection placement = load_config<PlacementOnly>(only, where).placement;
  if (!placement.given()) return;
  const Layout layout = lay_out(placement);
  const YAML::Node mode = find_path(recipe, "evaluator.mode");
  const bool plans = !mode || !mode.IsScalar() || mode.Scalar() == "plan";
  const auto refuse = [&](const std::string& key, const std::string& value) {
    const YAML::Node written = find_path(recipe, key);
    if (!written || written.IsNull() || same(written, YAML::Load(value))) return;
    fail(ErrorKind::kUsage, "{}: '{}' is {} here, and 'placement' decides it ({}): leave it out", where, key,
         YAML::Dump(written), value);
  };
  for (const auto& [key, value] : decided_keys(layout, plans)) {
    refuse(key, value);
    apply_override(recipe, key + "=" + value);
  }
  // The trainer's degrees go into its own config, when it is started.
  const Degrees& degrees = layout.actor_degrees;
  for (const char* stage : {"sft", "rl"}) {
    for (const auto& [axis, degree] : {std::pair{"tp", std::to_string(degrees.tp)},
                                       {"cp", std::to_string(degrees.cp)},
                                       {"cp_form", std::string(tritonforge::name_of(degrees.cp_form))},
                                       {"pp", std::to_string(degrees.pp)},
                                       {"pp_chunks", std::to_string(degrees.pp_chunks)},
                                       {"dp", std::to_string(degrees.dp)},
                                       {"ep", std::to_string(degrees.ep)}}) {
      const std::string key = fmt::format("{}.train.parallel.{}", stage, axis);
      const YAML::Node written = find_path(recipe, key);
      if (!written || written.IsNull() || !written.IsScalar() || written.Scalar() == "1") continue;
      refuse(key, degree);
    }
  }
}

}  // namespace

Layout RecipeConfig::layout() const {
  if (placement.given()) return lay_out(placement);
  Layout layout;
  layout.engines.assign(static_cast<size_t>(engine.count), Place());
  layout.actor_shares = layout.rollout_shares = layout.eval_shares = share_device;
  return layout;
}

bool RecipeConfig::has_stage(const std::string& stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

void RecipeConfig::validate() const {
  check(name.find('/') == std::string::npos, "name", "must be a folder name");
  check(!stages.empty(), "stages", "must name at least one of data, sft, rl, bench");
  const auto place = [](const std::string& stage) { return std::ranges::find(kStages, stage); };
  check(std::ranges::adjacent_find(stages, std::ranges::greater_equal(), place) == stages.end(), "stages",
        "come in the order data, sft, rl, bench, each once");
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
  if (placement.given()) check_placement(*this);
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
  check(rollout.generators <= static_cast<int64_t>(std::min(rollout.buffer.concurrency, rollout.buffer.evaluations)),
        "rollout.generators", "are more than rollout.concurrency or rollout.evaluations has to share out");
  if (has_stage("rl")) {
    check(!rl.problems.empty(), "rl.problems", "is missing");
    check(rl.sampling.temperature > 0, "rl.sampling.temperature", "must be above 0: else a group's samples are alike");
    check(rollout.max_context <= rl.train.max_tokens_per_micro_batch, "rl.train.max_tokens_per_micro_batch",
          fmt::format("is {}: a trajectory of rollout.max_context = {} tokens does not fit",
                      rl.train.max_tokens_per_micro_batch, rollout.max_context));
    check(rl.replay.groups == 0 || rl.replay.steps <= rollout.buffer.retention.steps, "rl.replay.steps",
          fmt::format("is {}, but tokens stay for rollout.keep_steps = {}", rl.replay.steps,
                      rollout.buffer.retention.steps));
    check(rl.replay.groups == 0 || rl.train.loss.tis_cap > 0, "rl.train.loss.tis_cap",
          "must be above 0 with rl.replay: replayed tokens are weighed by how likely they still are");
    rl.schedule();  // throws
    for (const auto& [key, interval] : {std::pair{"rl.train.checkpoint_interval", rl.train.checkpoint_interval},
                                        std::pair{"rl.validation.every", rl.validation.every}}) {
      const int64_t above = (interval / rl.update_interval + 1) * rl.update_interval;
      check(interval % rl.update_interval == 0, key,
            fmt::format("is {}: only after every {} steps (rl.update_interval) do the engines have the trainer's "
                        "weights; the next multiple is {}",
                        interval, rl.update_interval, above));
    }
    check(rl.over_sampling == 0 || rl.refills == 0, "rl.over_sampling",
          "and rl.refills are two ways to have more groups than a step needs: one of them must be 0");
    // Each of these steps commits its lease and at most one of a validation; what is forgotten is taken for new.
    const int64_t asked_again = 2 * rl.max_staleness;
    check(rl.over_sampling == 0 || rollout.buffer.retention.steps >= asked_again, "rollout.keep_steps",
          fmt::format("must be at least {} with rl.over_sampling, twice rl.max_staleness: a run that goes on asks for "
                      "those steps' groups again, and would train twice on what the buffer has forgotten",
                      asked_again));
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

OptionRule with_concurrency() {
  return [](Option& buffer) {
    auto& options = buffer.section->options();
    const auto found = std::ranges::find(options, "concurrency", &Option::name);
    TF_CHECK(found != options.end(), "the buffer has no option 'concurrency'");
    found->low = Option::Bound{1, true};
    found->help = "trajectories under way at once";
  };
}

RolloutOptions RecipeConfig::rollout_request(const SamplingOptions& sampling, int64_t max_turns) const {
  RolloutOptions options = rollout;
  options.max_turns = max_turns;
  options.sampling = sampling;
  options.evaluate = evaluator.request;
  options.evaluate.mode = evaluator.mode;
  options.evaluate.measure_performance = evaluator.on_gpu();
  if (model.is_chat()) options.chat_model = model.chat_name;  // the buffer knows where it is
  return options;
}

EvaluationOptions RecipeConfig::pair_request() const {
  EvaluationOptions options = evaluator.request;
  options.mode = evaluator.mode;
  options.measure_performance = false;
  return options;
}

namespace {

// Options, and whole sections, that do not decide the result.
const std::vector<std::string> kFree = {"dashboard_port",
                                        "rl.transcripts",
                                        "share_device",
                                        "supervisor",
                                        "tracking",
                                        "engine",
                                        "router",
                                        "model.device",
                                        "rollout.concurrency",
                                        "rollout.evaluations",
                                        "rollout.max_queued",
                                        "rollout.generate_timeout_s",
                                        "rollout.silence_timeout_s",
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
                                        "rl.train.buffer_timeout_s",
                                        "model.shape",
                                        "placement.hosts",
                                        "placement.gpus",
                                        "placement.cores",
                                        "placement.gpu",
                                        "placement.ssh_config",
                                        "placement.rollout",
                                        "placement.eval",
                                        "placement.actor.hosts",
                                        "placement.actor.gpu_ids",
                                        "placement.actor.cores",
                                        "placement.actor.core_ids"};

// What decides the result in a section that does not.
const std::vector<std::string> kDeciding = {"engine.kv_cache_dtype", "engine.weight_dtype", "engine.external"};

bool is_free(const std::string& key) {
  const auto within = [&](const std::string& name) { return key == name || key.starts_with(name + "."); };
  return std::ranges::any_of(kFree, within) && std::ranges::none_of(kDeciding, within);
}

// Sections, and keys that more stages read than their section, with these stages. What is not here is read by all.
const std::map<std::string, std::vector<std::string>> kReaders = {{"data", {"data", "sft"}},
                                                                  {"sft", {"sft"}},
                                                                  {"rl", {"rl"}},
                                                                  {"bench", {"bench"}},
                                                                  {"engine", {"rl", "bench"}},
                                                                  {"rollout", {"rl", "bench"}},
                                                                  {"rollout.prompt", {"sft", "rl", "bench"}},
                                                                  {"rollout.enable_thinking", {"sft", "rl", "bench"}},
                                                                  {"evaluator", {"data", "rl", "bench"}}};

bool may_change(const std::string& key, const std::vector<std::string>& begun) {
  auto readers = kReaders.find(key);
  if (readers == kReaders.end()) readers = kReaders.find(key.substr(0, key.find('.')));
  return readers != kReaders.end() &&
         std::none_of(readers->second.begin(), readers->second.end(), [&](const std::string& stage) {
           return std::find(begun.begin(), begun.end(), stage) != begun.end();
         });
}

// Why a stage that was begun cannot have more steps or fewer: those that it has would have been others, or something
// was made from its last one. "" where it can.
std::string steps_refusal(const std::string& key, const RecipeConfig& before, const std::vector<std::string>& begun) {
  const auto& train = key == "sft.steps" ? before.sft.train : before.rl.train;
  if (train.schedule == train::Schedule::kCosine) return "a cosine falls over all of them";
  if (key == "sft.steps") return std::ranges::find(begun, "rl") == begun.end() ? "" : "RL began after the last one";
  return before.rl.steps % before.rl.update_interval == 0 ? "" : "the last one was no multiple of rl.update_interval";
}

void flatten(const OptionList& list, const std::string& path, std::map<std::string, std::string>& values) {
  for (const Option& option : list.options()) {
    const std::string key = path + option.name;
    if (option.hidden) continue;
    if (option.kind == OptionKind::kSection) flatten(*option.section, key + ".", values);
    else if (!is_free(key)) values[key] = text_of(option);
  }
}

std::map<std::string, std::string> deciding_values(RecipeConfig config) {
  std::map<std::string, std::string> values;
  flatten(options_of(config), "", values);
  // Which GPUs judge decides nothing, whether any does decides what is timed and how kernels are run.
  values["evaluator.device"] = config.evaluator.on_gpu() ? "a GPU" : "the CPU";
  // So with servers that are not ours: one may come back at another address.
  values["engine.external"] = config.engine.external.empty() ? "none" : "given";
  values["model.chat_url"] = config.model.is_chat() ? "given" : "none";
  return values;
}

}  // namespace

std::vector<std::string> deciding_changes(const RecipeConfig& before, const RecipeConfig& now,
                                          const std::vector<std::string>& begun) {
  auto old_values = deciding_values(before);
  const auto new_values = deciding_values(now);
  std::vector<std::string> changes;
  for (const auto& [key, value] : new_values) {
    if (old_values[key] == value || may_change(key, begun)) continue;
    std::string reason;
    if (key == "sft.steps" || key == "rl.steps") {
      reason = steps_refusal(key, before, begun);
      if (reason.empty()) continue;
      reason = ": " + reason;
    }
    changes.push_back(fmt::format("{}: {}, now {}{}", key, old_values[key], value, reason));
  }
  return changes;
}

RecipeConfig load_recipe(const fs::path& given, const std::vector<std::string>& overrides) {
  const fs::path path = find_recipe(given);
  YAML::Node node = load_extended(path, 0);
  for (const auto& assignment : overrides) apply_override(node, assignment);
  if (const std::string name = algorithm_of(node); !name.empty()) node = merged(algorithm_keys(name), node);
  apply_placement(node, path.string());
  return load_config<RecipeConfig>(node, path.string());
}

fs::path resolve_path(const std::string& path) {
  const fs::path given = path;
  if (given.empty()) return given;
  if (given.is_absolute() || fs::exists(given)) return fs::absolute(given);
  const char* root = std::getenv("TRITONFORGE_ROOT");
  const fs::path below = root ? fs::path(root) / given : fs::absolute(given);
  if (fs::exists(below)) return below;
  const auto name = parse_hub_name(path);
  return name ? cached(*name).value_or(below) : below;
}

}  // namespace tritonforge::orchestrate
