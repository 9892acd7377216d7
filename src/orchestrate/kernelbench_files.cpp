#include "orchestrate/kernelbench_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/checksum.h"
#include "base/text.h"

namespace tritonforge::orchestrate {
namespace {

// In the order of KernelBench's data set: its analysis pairs results and baselines by their position.
std::vector<size_t> problems_of_level(const BenchResults& results, int level) {
  std::vector<size_t> order;
  for (size_t i = 0; i < results.problems.size(); ++i) {
    if (results.problems[i].level == level) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Problem &one = results.problems[a], &other = results.problems[b];
    return std::tie(one.problem_id, one.id) < std::tie(other.problem_id, other.id);
  });
  return order;
}

// KernelBench's number; its id where the set has none or has one twice.
std::map<std::string, std::string> kernelbench_keys(const BenchResults& results, const std::vector<size_t>& problems) {
  std::map<int, int> uses;
  for (const size_t i : problems) ++uses[results.problems[i].problem_id];
  std::map<std::string, std::string> keys;
  for (const size_t i : problems) {
    const Problem& problem = results.problems[i];
    const bool number = problem.problem_id > 0 && uses[problem.problem_id] == 1;
    keys[problem.id] = number ? std::to_string(problem.problem_id) : problem.id;
  }
  return keys;
}

// A file's name has 255 bytes at most.
std::string part_of_name(const std::string& key) {
  constexpr size_t kMost = 160;
  const std::string escaped = percent_encode(key), digest = checksum(key);
  return escaped.size() <= kMost ? escaped : escaped.substr(0, kMost - digest.size() - 1) + "-" + digest;
}

// {"averages", "metadata", "problems"} as KernelBench's eval_from_generations writes it.
OrderedJson kernelbench_pass_at_k(const OrderedJson& results, const std::vector<int64_t>& ks) {
  OrderedJson problems = OrderedJson::object(), averages = OrderedJson::object();
  std::map<int64_t, std::pair<double, int64_t>> sums;
  int64_t samples = 0, correct_samples = 0, with_samples = 0;
  for (const auto& [key, entries] : results.items()) {
    const auto n = static_cast<int64_t>(entries.size());
    const auto correct = std::count_if(entries.begin(), entries.end(),
                                       [](const auto& entry) { return entry.at("correctness").template get<bool>(); });
    OrderedJson& problem = problems[key] = {{"total_samples", n}, {"correct_samples", correct}};
    samples += n;
    correct_samples += correct;
    with_samples += n > 0;
    for (const int64_t k : ks) {
      if (k > n) continue;
      const double pass = pass_at_k(n, correct, k);
      problem[fmt::format("pass@{}", k)] = pass;
      sums[k].first += pass;
      ++sums[k].second;
    }
  }
  OrderedJson metadata = {{"total_problems", problems.size()},
                          {"problems_with_samples", with_samples},
                          {"total_evaluated_samples", samples},
                          {"total_correct_samples", correct_samples}};
  for (const auto& [k, sum] : sums) {
    averages[fmt::format("avg_pass@{}", k)] = sum.first / static_cast<double>(sum.second);
    metadata[fmt::format("pass@{}_count", k)] = sum.second;
  }
  return {{"averages", averages}, {"metadata", metadata}, {"problems", problems}};
}

void write_kernelbench_run(const BenchResults& results, int level, Answer answer, const fs::path& folder) {
  fs::create_directories(folder);
  const auto problems = problems_of_level(results, level);
  const auto keys = kernelbench_keys(results, problems);
  const int64_t budget = *std::max_element(results.budgets.begin(), results.budgets.end());
  OrderedJson evaluated = OrderedJson::object();
  size_t most = 0;
  for (const size_t i : problems) {
    const std::string& key = keys.at(results.problems[i].id);
    OrderedJson& entries = evaluated[key] = OrderedJson::array();
    for (size_t s = 0; s < results.samples[i].size(); ++s) {
      const Trajectory& sample = results.samples[i][s];
      const auto turn = answer_turn(outcome_of(sample), budget, answer);
      if (!turn && ended_by_failure(sample)) continue;
      const Turn answered = turn ? sample.turns[*turn] : Turn();
      OrderedJson entry = {{"sample_id", s}};
      entry.update(OrderedJson(to_kernel_exec_result(answered.verdict)));
      entries.push_back(std::move(entry));
      if (!answered.code.empty())
        write_file_atomic(folder / fmt::format("level_{}_problem_{}_sample_{}_kernel.py", level, part_of_name(key), s),
                          answered.code);
    }
    most = std::max(most, entries.size());
  }
  write_file_atomic(folder / "eval_results.json", evaluated.dump(4) + "\n");
  const auto ks = results.ks.empty() ? usual_ks(static_cast<int64_t>(most)) : results.ks;
  write_file_atomic(folder / "pass_at_k_results.json", kernelbench_pass_at_k(evaluated, ks).dump(2) + "\n");
}

OrderedJson kernelbench_timing(const Timing& timing, const std::string& device) {
  return {{"mean", timing.mean},          {"std", timing.std},  {"min", timing.min}, {"max", timing.max},
          {"num_trials", timing.samples}, {"hardware", device}, {"device", device}};
}

// results/timing/HARDWARE/NAME.json: {"level1": {"19_relu.py": {"mean", ...}}}, of the problems that were timed.
void write_kernelbench_baseline(const BenchResults& results, const fs::path& folder, const std::string& name,
                                Timing Verdict::* baseline) {
  std::map<std::string, OrderedJson> by_device;
  std::set<int> levels;
  for (const Problem& problem : results.problems) levels.insert(problem.level);
  for (const int level : levels) {
    for (const size_t i : problems_of_level(results, level)) {
      const Problem& problem = results.problems[i];
      const std::string file = fmt::format("{}_{}.py", problem.problem_id, problem.name);
      for (const Trajectory& sample : results.samples[i]) {
        for (const Turn& turn : sample.turns) {
          const Timing& timing = turn.verdict.*baseline;
          if (turn.verdict.stage != Stage::kTimed || timing.samples == 0) continue;
          OrderedJson& times = by_device[turn.verdict.device][fmt::format("level{}", level)];
          if (!times.contains(file)) times[file] = kernelbench_timing(timing, turn.verdict.device);
        }
      }
    }
  }
  for (const auto& [device, times] : by_device) {
    std::string hardware = device;
    for (char& c : hardware) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    fs::create_directories(folder / "results/timing" / hardware);
    write_file_atomic(folder / "results/timing" / hardware / (name + ".json"), times.dump(4) + "\n");
  }
}

}  // namespace

void write_kernelbench(const BenchResults& results, const fs::path& folder) {
  std::set<int> levels;
  for (const Problem& problem : results.problems) levels.insert(problem.level);
  const bool several = results.request.max_turns > 1;
  for (const int level : levels) {
    const std::string name = fmt::format("level{}", level);
    write_kernelbench_run(results, level, Answer::kBest, folder / "runs" / name);
    if (several) write_kernelbench_run(results, level, Answer::kFinal, folder / "runs" / (name + "_final"));
  }
  write_kernelbench_baseline(results, folder, "baseline_time_torch", &Verdict::eager_runtime);
  write_kernelbench_baseline(results, folder, "baseline_time_torch_compile_inductor_default",
                             &Verdict::torch_compile_runtime);
}

}  // namespace tritonforge::orchestrate
