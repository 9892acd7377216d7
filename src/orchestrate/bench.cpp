// KBenchEval: the held-out problems through the same rollout path as RL, samples x turns, and the figures of them.
#include <algorithm>

#include "base/rng.h"
#include "orchestrate/inputs.h"
#include "orchestrate/stages.h"
#include "orchestrate/statistics.h"

namespace tritonforge::orchestrate {
namespace {

// Whether a failure of ours is among the first `turns` turns: then nobody knows whether they would have passed.
bool failed_within(const Trajectory& trajectory, int64_t turns) {
  return ended_by_failure(trajectory) && static_cast<int64_t>(trajectory.turns.size()) <= turns;
}

// Unbiased pass@k of single turns, over the problems with k of them that were judged.
std::optional<double> single_turn_pass(const std::vector<std::vector<Trajectory>>& by_problem, int64_t k) {
  double sum = 0, problems = 0;
  for (const auto& samples : by_problem) {
    int64_t judged = 0, correct = 0;
    for (const Trajectory& trajectory : samples) {
      if (failed_within(trajectory, 1)) continue;
      judged += 1;
      correct += !trajectory.turns.empty() && trajectory.turns.front().verdict.correct;
    }
    if (judged < k) continue;
    sum += pass_at_k(judged, correct, k);
    problems += 1;
  }
  return problems > 0 ? std::optional(sum / problems) : std::nullopt;
}

BenchRow bench_row(const std::vector<std::vector<Trajectory>>& by_problem, int64_t budget, uint64_t seed) {
  BenchRow row;
  row.turns = budget;
  std::vector<std::vector<double>> passed;
  std::vector<double> speedups;
  double compiled = 0;
  bool timed = false;
  for (const auto& samples : by_problem) {
    auto& values = passed.emplace_back();
    for (const Trajectory& trajectory : samples) {
      if (failed_within(trajectory, budget)) {
        ++row.failed;
        continue;
      }
      // A sample passes with the best of its first `budget` turns: the verdicts say which one to keep.
      bool any_compiled = false, any_correct = false;
      double speedup = 0;
      const auto turns = std::min<size_t>(trajectory.turns.size(), static_cast<size_t>(budget));
      for (size_t t = 0; t < turns; ++t) {
        const Verdict& verdict = trajectory.turns[t].verdict;
        any_compiled |= verdict.compiled;
        any_correct |= verdict.correct;
        timed |= verdict.stage == Stage::kTimed;
        if (verdict.correct) speedup = std::max(speedup, verdict.speedup);
      }
      compiled += any_compiled;
      values.push_back(any_correct);
      if (any_correct && speedup > 0) speedups.push_back(speedup);
      row.pass_at_1 += any_correct;
      ++row.samples;
    }
  }
  const double n = std::max<double>(1, static_cast<double>(row.samples));
  row.compile_rate = compiled / n;
  row.pass_at_1 /= n;
  if (budget > 1) row.single_turn_pass_at_k = single_turn_pass(by_problem, budget);
  const Interval interval = cluster_bootstrap95(passed, seed);
  row.ci_low = interval.low;
  row.ci_high = interval.high;
  if (timed) {
    for (const char* p : {"0.0", "0.5", "0.8", "1.0", "1.5", "2.0"})
      row.fast[p] = fast_p(speedups, row.samples, std::stod(p));
    row.geo_mean_speedup = geometric_mean(speedups);
  }
  return row;
}

// Why the first sample that has no verdict has none.
std::string first_failure(const std::vector<std::vector<Trajectory>>& by_problem) {
  for (const auto& samples : by_problem) {
    for (const Trajectory& trajectory : samples) {
      if (!ended_by_failure(trajectory)) continue;
      const Verdict& verdict = trajectory.turns.back().verdict;
      return fmt::format("{}: {}", name_of(verdict.fault), verdict.diagnostics);
    }
  }
  return "no sample has a turn";
}

}  // namespace

std::vector<BenchRow> bench_rows(const std::string& stage, const std::vector<std::vector<Trajectory>>& by_problem,
                                 const std::vector<int64_t>& turn_budgets, uint64_t seed) {
  std::vector<BenchRow> rows;
  for (const int64_t budget : turn_budgets) {
    rows.push_back(bench_row(by_problem, budget, seed));
    rows.back().stage = rows.back().label = stage;
    if (rows.back().samples > 0) continue;
    fail(ErrorKind::kUnavailable, "bench {}: none of {} samples has a verdict; the first: {}", stage,
         rows.back().failed, first_failure(by_problem));
  }
  return rows;
}

std::string label_of(const RecipeConfig& config, const std::string& stage) {
  if (stage == "sft") return "SFT";
  if (stage == "rl") return config.has_stage("sft") ? "SFT+RL" : "RL";
  const fs::path model = fs::path(config.model.path).lexically_normal();
  const bool alone = !config.has_stage("sft") && !config.has_stage("rl");  // then it is no base of anything
  return alone ? (model.has_filename() ? model : model.parent_path()).filename().string() : stage;
}

std::vector<BenchRow> run_bench(RunContext& run, const std::string& stage) {
  const auto& bench = run.config.bench;
  const auto problems = bench_problems(run.config);
  const auto seed = static_cast<uint64_t>(run.config.seed);
  const std::string label = "bench " + stage;
  const int64_t max_turns = *std::max_element(bench.turns.begin(), bench.turns.end());
  std::vector<GroupSpec> groups;
  for (size_t i = 0; i < problems.size(); ++i) {
    GroupSpec& group = groups.emplace_back();
    group.id = fmt::format("bench-{}-{}", stage, problems[i].id);
    group.problem_id = problems[i].id;
    group.problem_source = problems[i].source;
    group.n_samples = bench.samples;
    group.seed = Rng::derive(Rng::derive(seed, label), i) >> 1;
    group.options = run.config.rollout_request(bench.sampling, max_turns);
  }
  run.record.begin_stage("bench");
  run.buffer.submit(groups);

  // One lease a problem, so that the progress shows. After --resume the same leases hold the same samples.
  std::vector<Lease> leases;
  std::vector<std::vector<Trajectory>> by_problem;
  const auto total = static_cast<int64_t>(groups.size());
  for (const GroupSpec& group : groups) {
    run.record.set_progress(label, static_cast<int64_t>(by_problem.size()), total);
    leases.push_back(
        run.buffer.lease({.lease_id = "lease-" + group.id, .group_ids = {group.id}, .samples = bench.samples}));
    by_problem.push_back(leases.back().groups.at(0).samples);
  }
  run.buffer.require_results(leases, label);
  for (const Lease& lease : leases) run.buffer.commit(lease.id, /*step=*/0);
  run.record.set_progress(label, total, total);
  run.record.write_bench(stage, by_problem);
  auto rows = bench_rows(stage, by_problem, bench.turns, seed);
  for (BenchRow& row : rows) row.label = label_of(run.config, stage);
  return rows;
}

}  // namespace tritonforge::orchestrate
