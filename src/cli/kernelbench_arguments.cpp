#include "cli/kernelbench_arguments.h"

#include <functional>
#include <map>

namespace tritonforge::cli {
namespace {

struct Argument {
  std::string key, value;

  [[noreturn]] void wrong(const std::string& wanted) const {
    fail(ErrorKind::kUsage, "bench: {} must be {}, not '{}'", key, wanted, value);
  }
  template <typename T>
  T as(OptionKind kind) const {
    const auto parsed = parse_value(kind, value);
    if (!parsed) wrong(expected(kind));
    return std::get<T>(*parsed);
  }
  int64_t integer() const { return as<int64_t>(OptionKind::kInteger); }
  double number() const { return as<double>(OptionKind::kNumber); }
  bool truth() const {  // as Python spells it, too
    if (value == "True" || value == "1") return true;
    if (value == "False" || value == "0") return false;
    return as<bool>(OptionKind::kBool);
  }
  void only(const std::string& possible, const std::string& why) const {
    if (value != possible) fail(ErrorKind::kUsage, "bench: {}={}: {}", key, value, why);
  }
  // "(1,3)", "[1, 3]", "1,3": the integers in it.
  std::vector<int64_t> integers() const {
    std::vector<int64_t> found;
    std::string part;
    for (const char c : value + ",") {
      if (std::string("()[] ").find(c) != std::string::npos) continue;
      if (c != ',') {
        part += c;
        continue;
      }
      const auto parsed = parse_value(OptionKind::kInteger, part);
      if (!parsed) wrong("a list of integers");
      found.push_back(std::get<int64_t>(*parsed));
      part.clear();
    }
    return found;
  }
};

using Apply = std::function<std::string(const Argument&, BenchTarget&)>;

Apply set(std::function<void(const Argument&, BenchTarget&)> action) {
  return [action = std::move(action)](const Argument& argument, BenchTarget& target) {
    action(argument, target);
    return std::string();
  };
}
Apply without_meaning(std::string why) {
  return [why = std::move(why)](const Argument& argument, BenchTarget&) {
    return fmt::format("{}={} has no meaning here: {}", argument.key, argument.value, why);
  };
}

const std::map<std::string, Apply>& arguments() {
  static const Apply log = without_meaning("every prompt, kernel and verdict is in the run's folder");
  static const Apply samples = set([](const auto& a, auto& to) { to.recipe.bench.samples = a.integer(); });
  static const std::map<std::string, Apply> known{
      // Which problems.
      {"level", set([](const auto& a, auto& to) { to.recipe.bench.levels = {a.integer()}; })},
      {"problem_id", set([](const auto& a, auto& to) { to.recipe.bench.problem_ids.push_back(a.value); })},
      {"problem_ids", set([](const auto& a, auto& to) {
         for (const int64_t id : a.integers()) to.recipe.bench.problem_ids.push_back(std::to_string(id));
       })},
      {"subset", set([](const auto& a, auto& to) {  // first and last, both in
         const auto ends = a.integers();
         if (ends.size() != 2 || ends[0] < 1 || ends[1] < ends[0]) a.wrong("(FIRST, LAST)");
         for (int64_t id = ends[0]; id <= ends[1]; ++id) to.recipe.bench.problem_ids.push_back(std::to_string(id));
       })},
      {"dataset_src", without_meaning("problems are read from --problems")},
      {"dataset_name",
       [](const Argument& a, BenchTarget& to) -> std::string {
         if (!fs::exists(a.value)) return without_meaning("problems are read from --problems")(a, to);
         to.recipe.bench.problems = a.value;
         return "";
       }},
      // What is generated.
      {"model_name", set([](const auto& a, auto& to) { to.model = a.value; })},
      {"num_samples", samples},
      {"num_samples_per_problem", samples},
      {"max_tokens", set([](const auto& a, auto& to) { to.recipe.bench.sampling.max_new_tokens = a.integer(); })},
      {"temperature", set([](const auto& a, auto& to) { to.recipe.bench.sampling.temperature = a.number(); })},
      {"is_reasoning_model", set([](const auto& a, auto& to) { to.recipe.rollout.enable_thinking = a.truth(); })},
      {"num_workers", set([](const auto& a, auto& to) { to.recipe.rollout.buffer.concurrency = a.integer(); })},
      {"run_name", set([](const auto& a, auto& to) { to.run.output = "runs/" + a.value; })},
      // How it is judged.
      {"num_correct_trials",
       set([](const auto& a, auto& to) { to.recipe.evaluator.request.num_correct_trials = a.integer(); })},
      {"num_perf_trials",
       set([](const auto& a, auto& to) { to.recipe.evaluator.request.num_perf_trials = a.integer(); })},
      {"timeout", set([](const auto& a, auto& to) { to.recipe.evaluator.request.timeout_s = a.number(); })},
      {"num_cpu_workers",
       set([](const auto& a, auto& to) { to.recipe.evaluator.workers = static_cast<int>(a.integer()); })},
      {"backend",
       set([](const auto& a, auto& to) { to.recipe.evaluator.request.backend = from_name<Backend>(a.value, a.key); })},
      {"eval_mode", set([](const auto& a, auto&) { a.only("local", "there is no remote evaluation service"); })},
      {"num_gpu_devices", set([](const auto& a, auto&) { a.only("1", "one GPU is used; name it with --device"); })},
      {"measure_performance", without_meaning("what is correct is timed where --device names a GPU, nowhere else")},
      // Accepted and said.
      {"server_type", without_meaning("the model of --model is served here; a URL there uses an engine that runs")},
      {"eval_device", without_meaning("--device names the GPU")},
      {"gpu", without_meaning("--device names the GPU")},
      {"gpu_arch", without_meaning("a kernel is compiled for the GPU that is there, or for sm_90 and gfx942")},
      {"precision", without_meaning("inputs have the dtypes that the problem gives them")},
      {"timing_method", without_meaning("the trusted side times with a method of its own")},
      {"build_cache", without_meaning("Triton compiles while a candidate is judged")},
      {"kernel_eval_build_dir", without_meaning("Triton compiles while a candidate is judged")},
      {"clear_cache", without_meaning("every evaluation starts from a fresh process")},
      {"check_kernel", without_meaning("what cheats is found in every evaluation")},
      {"store_type", without_meaning("results are files of the run's folder")},
      {"runs_dir", without_meaning("--output names the run's folder")},
      {"logdir", without_meaning("--output names the run's folder")},
      {"eval_results_dir", without_meaning("--output names the run's folder")},
      {"api_query_interval", without_meaning("the engine batches on its own")},
      {"reasoning_effort", without_meaning("no model that is served here takes it")},
      {"budget_tokens", without_meaning("max_tokens limits thought and answer together")},
      {"prompt_option", without_meaning("--prompt names the style")},
      {"custom_prompt_key", without_meaning("--prompt names the style")},
      {"include_hardware_info", without_meaning("--prompt names the style")},
      {"hardware_gpu_name", without_meaning("--prompt names the style")},
      {"pass_at_k_values", set([](const auto& a, auto& to) { to.recipe.bench.pass_at = a.integers(); })},
      {"log", log},
      {"verbose", log},
      {"verbose_logging", log},
      {"log_prompt", log},
      {"log_generated_kernel", log},
      {"log_eval_result", log},
  };
  return known;
}

}  // namespace

std::string apply_kernelbench_argument(const std::string& text, BenchTarget target) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) fail(ErrorKind::kUsage, "bench: '{}' is not key=value", text);
  const Argument argument{text.substr(0, equals), text.substr(equals + 1)};
  const auto found = arguments().find(argument.key);
  if (found == arguments().end()) {
    std::vector<std::string> names;
    for (const auto& [name, apply] : arguments()) names.push_back(name);
    fail(ErrorKind::kUsage, "bench: unknown key '{}'{}", argument.key, nearest_hint(argument.key, names));
  }
  return found->second(argument, target);
}

}  // namespace tritonforge::cli
