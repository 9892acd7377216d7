#pragma once
// What a bench measured, as files in RUN/bench-STAGE/:
//   figures.json     every figure with its interval: by turn budget, best and final turn, all, by level and by family;
//                    what was asked for, on which hardware, and the samples that failed through us
//   samples.parquet  a row a turn: problem, code, verdict, times
//   report.html      the figures, and the code and verdict of each sample, for a browser; it loads nothing
//   kernelbench/     what KernelBench's own scripts read when they are run there (benchmark_eval_analysis.py
//                    run_name=level1 level=1 hardware=... baseline=baseline_time_torch):
//     runs/level1/eval_results.json, pass_at_k_results.json, level_1_problem_19_sample_0_kernel.py   the best turns
//     runs/level1_final/...                                          the final turns, where there is more than one
//     results/timing/HARDWARE/baseline_time_torch[_compile_inductor_default].json   where anything was timed
//   A sample that failed through us has no entry there, as one that KernelBench's own evaluation could not end.
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "contract/problem.h"
#include "contract/rollout.h"
#include "contract/trajectory.h"
#include "dataset/parquet.h"
#include "orchestrate/statistics.h"

namespace tritonforge::orchestrate {

struct BenchResults {
  std::string stage, label, model;
  std::vector<Problem> problems;
  std::vector<std::vector<Trajectory>> samples;  // one list a problem
  std::vector<int64_t> budgets, ks;              // turn budgets; pass@k, empty: usual_ks
  RolloutOptions request;                        // what was asked for
  int64_t samples_per_problem = 0, seed = 0;
  int64_t response_tokens = 0;  // 0: the server does not say

  bool timing() const { return request.evaluate.measure_performance; }
};

SampleOutcome outcome_of(const Trajectory& trajectory);
Timed timed_of(const BenchResults& results);

// One line of the figures: a turn budget, best or final turn, and which problems.
struct FiguresRow {
  int64_t turns = 1;
  Answer answer = Answer::kBest;
  std::string group;  // "all", "level 1", "family matmul"
  Figures figures;
};
std::vector<FiguresRow> figures_rows(const BenchResults& results);
std::vector<FiguresRow> overall_rows(const BenchResults& results);  // those of all problems

// Why there is no speedup against that baseline; "" where there is.
std::string no_eager_reason(const BenchResults& results);
std::string no_torch_compile_reason(const BenchResults& results);
// The machine and the devices that the verdicts name.
Json hardware_of(const BenchResults& results);
// Samples that failed through us: {"problem_id", "sample", "turn", "error_kind", "reason"}.
Json failures_of(const BenchResults& results);

Json figures_json(const BenchResults& results, const std::vector<FiguresRow>& rows);
dataset::Table samples_table(const BenchResults& results);
// All of the above, into `folder`. Where this machine has no Arrow, samples.parquet is left out and the log says so.
void write_results(const BenchResults& results, const fs::path& folder);

}  // namespace tritonforge::orchestrate
