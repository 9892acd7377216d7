#pragma once
// The stages of a run, in the order in which `run` goes through them.
#include "orchestrate/bench_results.h"
#include "orchestrate/run_context.h"

namespace tritonforge::orchestrate {

void verify_pairs(RunContext& run);  // data: evaluates some pairs again; a wrong one fails the run
void run_sft(RunContext& run);       // trains, writes models/sft, installs it on the engines
void run_rl(RunContext& run);        // generate -> collect -> step -> publish
// Measures the weights that the engines serve now on the held-out problems; `stage` names the rows. The leases of what
// it measured are the caller's to commit, once the rows are kept: until then a run that goes on asks for them again.
struct BenchEnd {
  std::vector<BenchRow> rows;
  std::vector<std::string> leases;
};
BenchEnd run_bench(RunContext& run, const std::string& stage);

// The version under which the engines serve what a stage ("base" | "sft" | "rl") left behind. One version is one set of
// weights: RL begins with SFT's 1 and publishes 1 + s after step s, and what it leaves may be the best, not the last.
int64_t weights_version(const RecipeConfig& config, const std::string& stage);

// How the table calls the weights of a stage: what was done to them, or the model's name where nothing was.
std::string label_of(const RecipeConfig& config, const std::string& stage);
// The table's rows: each turn budget with its best turns. Throws kUnavailable where nothing was judged.
std::vector<BenchRow> bench_rows(const BenchResults& results);

}  // namespace tritonforge::orchestrate
