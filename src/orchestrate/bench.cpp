// KBenchEval: the held-out problems through the same rollout path as RL, samples x turns, and the figures of them.
#include <algorithm>

#include "base/rng.h"
#include "orchestrate/bench_results.h"
#include "orchestrate/inputs.h"
#include "orchestrate/stages.h"
#include "orchestrate/validation.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kProgressRound = 1;  // seconds between two looks at what there is

// Why the first sample that has no verdict has none.
std::string first_failure(const BenchResults& results) {
  const Json failures = failures_of(results);
  if (failures.empty()) return "no sample has a turn";
  const Json& first = failures.front();
  return fmt::format("{}: {}", first.at("error_kind").get<std::string>(), first.at("reason").get<std::string>());
}

BenchSpeed speed_of(const std::optional<SpeedFigures>& figures) {
  BenchSpeed speed;
  if (!figures) return speed;
  for (const auto& [p, share] : figures->fast) speed.fast[fmt::format("{:.1f}", p)] = share.value;
  if (figures->geometric_mean) speed.geo_mean = figures->geometric_mean->value;
  if (figures->median) speed.median = figures->median->value;
  return speed;
}

BenchRow table_row(const BenchResults& results, const FiguresRow& row, const Figures& single_turns) {
  const Figures& figures = row.figures;
  BenchRow line;
  line.stage = results.stage;
  line.label = results.label;
  line.turns = row.turns;
  line.samples = figures.samples;
  line.failed = figures.failed;
  line.compile_rate = figures.compiled.value;
  line.pass_at_1 = figures.correct.value;
  line.ci_low = figures.correct.interval->low;
  line.ci_high = figures.correct.interval->high;
  line.eager = speed_of(figures.eager);
  line.torch_compile = speed_of(figures.torch_compile);
  const auto single = single_turns.pass_at.find(row.turns);
  if (row.turns > 1 && single != single_turns.pass_at.end()) line.single_turn_pass_at_k = single->second.estimate.value;
  return line;
}

std::string progress_note(const GroupProgress& now) {
  std::string note = fmt::format("{} correct, {} turns", now.correct, now.turns);
  if (now.failed > 0) note += fmt::format(", {} failed through us", now.failed);
  return note;
}

// Of the ids of a bench's groups, which are other ones where the stage was reopened since.
std::string id_prefix(const RunContext& run, const std::string& stage) {
  const int64_t times = run.record.times_reopened(stage);
  return times == 0 ? fmt::format("bench-{}-", stage) : fmt::format("bench-{}-again{}-", stage, times);
}

GroupSpec group_of(const RunContext& run, const BenchResults& results, size_t index) {
  const Problem& problem = results.problems[index];
  GroupSpec group;
  group.id = id_prefix(run, results.stage) + problem.id;
  group.problem_id = problem.id;
  group.problem_source = problem.source;
  group.n_samples = results.samples_per_problem;
  group.seed = Rng::derive(Rng::derive(static_cast<uint64_t>(run.config.seed), "bench " + results.stage), index) >> 1;
  group.options = results.request;
  return group;
}

}  // namespace

std::vector<BenchRow> bench_rows(const BenchResults& results) {
  // Single turns come first, with pass@k for every budget: what as many answers give without feedback.
  BenchResults asked = results;
  asked.ks = results.budgets;
  asked.budgets.insert(asked.budgets.begin(), 1);
  const std::vector<FiguresRow> rows = overall_rows(asked);
  std::vector<BenchRow> lines;
  for (auto row_at = rows.begin() + 1; row_at != rows.end(); ++row_at) {
    const FiguresRow& row = *row_at;
    if (row.answer == Answer::kFinal) continue;
    lines.push_back(table_row(results, row, rows.front().figures));
    if (row.figures.samples > 0) continue;
    fail(ErrorKind::kUnavailable, "bench {}: none of {} samples has a verdict; the first: {}", results.stage,
         row.figures.failed, first_failure(results));
  }
  return lines;
}

std::string label_of(const RecipeConfig& config, const std::string& stage) {
  if (stage == "sft") return "SFT";
  if (stage == "rl") return config.has_stage("sft") ? "SFT+RL" : "RL";
  if (config.model.is_chat()) return config.model.chat_name;
  const fs::path model = fs::path(config.model.path).lexically_normal();
  const bool alone = !config.has_stage("sft") && !config.has_stage("rl");  // then it is no base of anything
  return alone ? (model.has_filename() ? model : model.parent_path()).filename().string() : stage;
}

int64_t weights_version(const RecipeConfig& config, const std::string& stage) {
  if (stage == "rl") return 2 + config.rl.steps;
  return stage == "sft" ? 1 : 0;
}

BenchEnd run_bench(RunContext& run, const std::string& stage) {
  const auto& bench = run.config.bench;
  const std::string label = "bench " + stage;
  BenchResults results;
  results.stage = stage;
  results.label = label_of(run.config, stage);
  const auto best = stage == "rl" ? earlier_best_step(run.config, run.record.folder()) : std::nullopt;
  if (best) results.label += fmt::format(" (step {})", *best);
  results.model = run.config.model.is_chat()
                      ? fmt::format("{} at {}", run.config.model.chat_name, run.config.model.chat_url)
                      : run.config.model.path;
  results.problems = bench_problems(run.config);
  results.budgets = bench.turns;
  results.ks = bench.pass_at;
  results.request = run.config.rollout_request(bench.sampling,
                                               *std::max_element(bench.turns.begin(), bench.turns.end()));
  results.request.keep_turns = true;
  results.request.priority = Priority::kEvaluation;
  results.samples_per_problem = bench.samples;
  results.seed = run.config.seed;
  std::vector<GroupSpec> groups;
  for (size_t i = 0; i < results.problems.size(); ++i) groups.push_back(group_of(run, results, i));
  run.record.begin_stage("bench");
  run.buffer.submit(groups);

  // One lease a problem. After --resume the same leases hold the same samples.
  std::vector<Lease> leases;
  const int64_t total = static_cast<int64_t>(groups.size()) * bench.samples;
  const auto show = [&] {
    const GroupProgress now = run.buffer.progress(id_prefix(run, stage));
    run.record.set_progress(label, now.trajectories, total, progress_note(now));
  };
  for (const GroupSpec& group : groups) {
    show();
    const LeaseRequest request{.lease_id = "lease-" + group.id, .group_ids = {group.id}, .samples = bench.samples};
    leases.push_back(run.buffer.lease(request, kProgressRound, show));
    results.samples.push_back(leases.back().groups.at(0).samples);
    results.response_tokens += leases.back().figures.response_tokens;
  }
  show();
  run.buffer.require_results(leases, label);
  run.record.write_bench(stage, results.samples);
  write_results(results, run.record.folder() / ("bench-" + stage));
  BenchEnd end{bench_rows(results), {}};
  for (const Lease& lease : leases) end.leases.push_back(lease.id);
  return end;
}

}  // namespace tritonforge::orchestrate
