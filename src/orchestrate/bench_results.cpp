#include "orchestrate/bench_results.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/log.h"
#include "orchestrate/bench_report.h"
#include "orchestrate/kernelbench_files.h"

namespace tritonforge::orchestrate {
namespace {

bool passed(const Verdict& verdict) { return verdict.correct && !verdict.cheated(); }

Json figure_json(const Estimate& estimate) {
  Json json = {{"value", estimate.value}, {"ci95", nullptr}};
  if (estimate.interval) json["ci95"] = {estimate.interval->low, estimate.interval->high};
  return json;
}

Json figure_json(const SpeedFigures& speed) {
  Json json = {{"timed", speed.timed}, {"fast_p", Json::object()}};
  for (const auto& [p, share] : speed.fast) json["fast_p"][fmt::format("{:.1f}", p)] = figure_json(share);
  json["geometric_mean"] = speed.geometric_mean ? figure_json(*speed.geometric_mean) : Json();
  json["median"] = speed.median ? figure_json(*speed.median) : Json();
  return json;
}

Json figure_json(const FiguresRow& row) {
  const Figures& figures = row.figures;
  Json json = {{"turns", row.turns},
               {"answer", name_of(row.answer)},
               {"group", row.group},
               {"problems", figures.problems},
               {"samples", figures.samples},
               {"failed", figures.failed},
               {"compile_rate", figure_json(figures.compiled)},
               {"correct", figure_json(figures.correct)},
               {"pass_at_k", Json::object()},
               {"eager", figures.eager ? figure_json(*figures.eager) : Json()},
               {"torch_compile", figures.torch_compile ? figure_json(*figures.torch_compile) : Json()}};
  for (const auto& [k, pass] : figures.pass_at) {
    json["pass_at_k"][std::to_string(k)] = figure_json(pass.estimate);
    json["pass_at_k"][std::to_string(k)]["problems"] = pass.problems;
  }
  return json;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "unknown";
}

// Where a candidate's own process held the clock, all that a time says is what the candidate would have it say.
bool only_claims(const BenchResults& results) {
  bool claimed = false;
  for (const auto& samples : results.samples) {
    for (const Trajectory& sample : samples) {
      for (const Turn& turn : sample.turns) {
        if (turn.verdict.stage != Stage::kTimed) continue;
        if (turn.verdict.speedup > 0) return false;
        claimed |= turn.verdict.claimed_speedup > 0;
      }
    }
  }
  return claimed;
}

}  // namespace

SampleOutcome outcome_of(const Trajectory& trajectory) {
  SampleOutcome sample;
  sample.failed = ended_by_failure(trajectory);
  for (const Turn& turn : trajectory.turns) {
    if (sample.failed && &turn == &trajectory.turns.back()) break;
    const Verdict& verdict = turn.verdict;
    TurnOutcome& outcome = sample.turns.emplace_back();
    outcome.compiled = verdict.compiled;
    outcome.correct = passed(verdict);
    if (!outcome.correct || verdict.stage != Stage::kTimed) continue;
    outcome.eager = verdict.eager_speedup;
    outcome.torch_compile = verdict.torch_compile_speedup;
  }
  return sample;
}

Timed timed_of(const BenchResults& results) {
  if (only_claims(results)) return {};
  Timed timed;
  bool any = false;
  for (const auto& samples : results.samples) {
    for (const Trajectory& sample : samples) {
      for (const Turn& turn : sample.turns) {
        any |= turn.verdict.stage == Stage::kTimed;
        timed.eager |= turn.verdict.eager_runtime.samples > 0;
        timed.torch_compile |= turn.verdict.torch_compile_runtime.samples > 0;
      }
    }
  }
  timed.eager |= !any && results.timing();  // where nothing was correct, nothing was fast
  return timed;
}

namespace {

using Group = std::pair<std::string, std::vector<ProblemOutcomes>>;

std::vector<ProblemOutcomes> outcomes_of(const BenchResults& results) {
  std::vector<ProblemOutcomes> all;
  for (const auto& samples : results.samples) {
    auto& outcomes = all.emplace_back();
    for (const Trajectory& sample : samples) outcomes.push_back(outcome_of(sample));
  }
  return all;
}

// By level, then by family; a problem of several families is in each of them.
std::vector<Group> groups_of(const BenchResults& results, const std::vector<ProblemOutcomes>& outcomes) {
  std::map<std::string, std::vector<ProblemOutcomes>> levels, families;
  for (size_t i = 0; i < results.problems.size(); ++i) {
    const Problem& problem = results.problems[i];
    levels[fmt::format("level {}", problem.level)].push_back(outcomes[i]);
    for (const auto& name : std::set<std::string>(problem.families.begin(), problem.families.end()))
      families["family " + name].push_back(outcomes[i]);
  }
  std::vector<Group> groups(levels.begin(), levels.end());
  groups.insert(groups.end(), families.begin(), families.end());
  return groups;
}

std::vector<FiguresRow> rows_of(const BenchResults& results, const std::vector<Group>& groups) {
  const auto ks = results.ks.empty() ? usual_ks(results.samples_per_problem) : results.ks;
  const Timed timed = timed_of(results);
  const auto seed = static_cast<uint64_t>(results.seed);
  std::vector<FiguresRow> rows;
  for (const int64_t turns : results.budgets) {
    for (const Answer answer : {Answer::kBest, Answer::kFinal}) {
      if (turns == 1 && answer == Answer::kFinal) continue;  // there is one turn
      for (const auto& [group, problems] : groups)
        rows.push_back({turns, answer, group, figures_of(problems, turns, answer, ks, timed, seed)});
    }
  }
  return rows;
}

}  // namespace

std::vector<FiguresRow> figures_rows(const BenchResults& results) {
  const auto outcomes = outcomes_of(results);
  std::vector<Group> groups = groups_of(results, outcomes);
  groups.insert(groups.begin(), {"all", outcomes});
  return rows_of(results, groups);
}

std::vector<FiguresRow> overall_rows(const BenchResults& results) {
  return rows_of(results, {{"all", outcomes_of(results)}});
}

std::string no_eager_reason(const BenchResults& results) {
  const Timed timed = timed_of(results);
  if (timed.eager) return "";
  if (timed.torch_compile)
    return "not measured: no verdict holds a time of eager PyTorch; verdicts of an earlier version hold the faster "
           "baseline's alone";
  if (only_claims(results))
    return "not measured: the candidates' own processes held the clock (live mode), whose times are claims";
  const auto& mode = results.request.evaluate.mode;
  return fmt::format("not measured: {} mode judges on the CPU, whose times say nothing of a GPU",
                     mode ? name_of(*mode) : "this");
}

std::string no_torch_compile_reason(const BenchResults& results) {
  if (timed_of(results).torch_compile) return "";
  const std::string reason = no_eager_reason(results);
  return reason.empty() ? "not measured: no verdict holds a time of torch.compile" : reason;
}

Json hardware_of(const BenchResults& results) {
  std::map<std::string, int64_t> devices;
  for (const auto& samples : results.samples) {
    for (const Trajectory& sample : samples) {
      for (const Turn& turn : sample.turns) {
        if (!turn.verdict.device.empty()) ++devices[turn.verdict.device];
      }
    }
  }
  const auto bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"cpu", cpu_name()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_gib", std::round(bytes / (1 << 30) * 10) / 10},
          {"judged_on", devices}};
}

Json failures_of(const BenchResults& results) {
  Json failures = Json::array();
  for (size_t i = 0; i < results.problems.size(); ++i) {
    for (size_t s = 0; s < results.samples[i].size(); ++s) {
      const Trajectory& sample = results.samples[i][s];
      if (!ended_by_failure(sample)) continue;
      const Verdict& verdict = sample.turns.back().verdict;
      failures.push_back({{"problem_id", results.problems[i].id},
                          {"sample", s},
                          {"turn", sample.turns.size()},
                          {"error_kind", name_of(verdict.fault)},
                          {"reason", verdict.diagnostics}});
    }
  }
  return failures;
}

Json figures_json(const BenchResults& results, const std::vector<FiguresRow>& rows) {
  Json lines = Json::array();
  for (const FiguresRow& row : rows) lines.push_back(figure_json(row));
  const SamplingOptions& sampling = results.request.sampling;
  return {
      {"stage", results.stage},
      {"label", results.label},
      {"model", results.model},
      {"sampling_budget",
       {{"problems", results.problems.size()},
        {"samples_per_problem", results.samples_per_problem},
        {"turns", results.request.max_turns},
        {"temperature", sampling.temperature},
        {"top_p", sampling.top_p},
        {"top_k", sampling.top_k},
        {"min_p", sampling.min_p},
        {"max_new_tokens", sampling.max_new_tokens},
        {"response_tokens", results.response_tokens > 0 ? Json(results.response_tokens) : Json()},
        {"seed", results.seed}}},
      {"evaluation", to_json(results.request.evaluate)},
      {"hardware", hardware_of(results)},
      {"interval", "95 %: bootstrap over problems, 4000 rounds; Wilson's where nothing varies or there is one problem"},
      {"eager", {{"measured", timed_of(results).eager}, {"why_not", no_eager_reason(results)}}},
      {"torch_compile", {{"measured", timed_of(results).torch_compile}, {"why_not", no_torch_compile_reason(results)}}},
      {"failures_of_ours", failures_of(results)},
      {"rows", std::move(lines)}};
}

dataset::Table samples_table(const BenchResults& results) {
  using namespace dataset;
  struct Row {
    const Problem& problem;
    const Trajectory& sample;
    size_t sample_index, turn_index;
    const Turn& turn;
    const Verdict& verdict;
    bool failed() const { return turn.status == TurnStatus::kFailed; }
    bool timed() const { return verdict.stage == Stage::kTimed; }
  };
  std::vector<Row> rows;
  for (size_t i = 0; i < results.problems.size(); ++i) {
    for (size_t s = 0; s < results.samples[i].size(); ++s) {
      const Trajectory& sample = results.samples[i][s];
      for (size_t t = 0; t < sample.turns.size(); ++t)
        rows.push_back({results.problems[i], sample, s, t, sample.turns[t], sample.turns[t].verdict});
    }
  }
  Table table;
  const auto add = [&]<typename Values>(std::string name, Values values, auto value) {
    for (const Row& row : rows) values.emplace_back(value(row));
    table.columns.push_back({std::move(name), std::move(values)});
  };
  const auto text = [](std::string_view view) { return std::string(view); };
  const auto nothing_where = [](bool absent, double value) { return absent ? std::nullopt : std::optional(value); };
  add("problem_id", Texts(), [](const Row& r) { return r.problem.id; });
  add("level", Integers(), [](const Row& r) { return r.problem.level; });
  add("number", Integers(), [](const Row& r) { return r.problem.problem_id; });
  add("name", Texts(), [](const Row& r) { return r.problem.name; });
  add("families", Texts(), [](const Row& r) { return fmt::format("{}", fmt::join(r.problem.families, ",")); });
  add("sample", Integers(), [](const Row& r) { return static_cast<int64_t>(r.sample_index); });
  add("turn", Integers(), [](const Row& r) { return static_cast<int64_t>(r.turn_index) + 1; });
  add("last_turn", Bools(), [](const Row& r) { return r.turn_index + 1 == r.sample.turns.size(); });
  add("status", Texts(), [&](const Row& r) { return text(name_of(r.turn.status)); });
  add("failure_of_ours", Bools(), [](const Row& r) { return r.failed(); });
  add("stage", Texts(), [&](const Row& r) { return text(name_of(r.verdict.stage)); });
  add("compiled", Bools(), [](const Row& r) { return r.failed() ? std::nullopt : std::optional(r.verdict.compiled); });
  add("correct", Bools(), [](const Row& r) { return r.failed() ? std::nullopt : std::optional(passed(r.verdict)); });
  add("cheated", Bools(), [](const Row& r) { return r.verdict.cheated(); });
  add("error_kind", Texts(), [&](const Row& r) { return text(name_of(r.verdict.fault)); });
  add("diagnostics", Texts(), [](const Row& r) { return r.verdict.diagnostics; });
  add("runtime_ms", Numbers(), [&](const Row& r) { return nothing_where(!r.timed(), r.verdict.runtime.median); });
  add("speedup", Numbers(), [&](const Row& r) { return nothing_where(!r.timed(), r.verdict.speedup); });
  const auto baseline = [&](const char* name, Timing Verdict::* runtime, double Verdict::* speedup) {
    const auto timed = [=](const Row& r) { return (r.verdict.*runtime).samples > 0; };
    add(fmt::format("{}_ms", name), Numbers(),
        [=](const Row& r) { return nothing_where(!timed(r), (r.verdict.*runtime).median); });
    add(fmt::format("{}_speedup", name), Numbers(),
        [=](const Row& r) { return nothing_where(!timed(r), r.verdict.*speedup); });
  };
  baseline("eager", &Verdict::eager_runtime, &Verdict::eager_speedup);
  baseline("torch_compile", &Verdict::torch_compile_runtime, &Verdict::torch_compile_speedup);
  add("own_share", Numbers(), [](const Row& r) { return r.verdict.own_share; });
  add("device", Texts(), [](const Row& r) { return r.verdict.device; });
  add("mode", Texts(), [&](const Row& r) { return text(name_of(r.verdict.mode)); });
  add("generate_s", Numbers(), [](const Row& r) { return r.turn.generate_s; });
  add("evaluate_s", Numbers(), [](const Row& r) { return r.turn.evaluate_s; });
  add("code", Texts(), [](const Row& r) { return r.turn.code; });
  add("response", Texts(), [](const Row& r) { return r.turn.text; });
  return table;
}

void write_results(const BenchResults& results, const fs::path& folder) {
  fs::create_directories(folder);
  const auto rows = figures_rows(results);
  write_file_atomic(folder / "figures.json", figures_json(results, rows).dump(1) + "\n");
  write_kernelbench(results, folder / "kernelbench");
  write_file_atomic(folder / "report.html", bench_report(results, rows));
  try {
    dataset::write_parquet(folder / "samples.parquet", samples_table(results));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMachine) throw;
    log::warn("{}", error.what());
  }
}

}  // namespace tritonforge::orchestrate
