#include "orchestrate/bench_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "orchestrate/bench_report.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Turn turn(const std::string& code, bool compiled, bool correct) {
  Turn turn;
  turn.status = TurnStatus::kCompleted;
  turn.code = turn.text = code;
  turn.verdict.compiled = compiled;
  turn.verdict.correct = correct;
  turn.verdict.stage = correct ? Stage::kCorrect : compiled ? Stage::kLaunched : Stage::kParsed;
  turn.verdict.mode = EvaluationMode::kPlan;
  turn.verdict.device = "cpu";
  if (!correct) turn.verdict.fault = compiled ? Fault::kMismatch : Fault::kCompileError;
  return turn;
}

// `eager_ms` and `compile_ms` are the reference's times.
Turn timed(const std::string& code, double ms, double eager_ms, double compile_ms) {
  Turn timed = turn(code, true, true);
  Verdict& verdict = timed.verdict;
  verdict.stage = Stage::kTimed;
  verdict.mode = EvaluationMode::kLive;
  verdict.device = "NVIDIA H200";
  verdict.runtime = {.mean = ms, .median = ms, .samples = 100};
  verdict.eager_runtime = {.mean = eager_ms, .median = eager_ms, .samples = 100};
  verdict.torch_compile_runtime = {.mean = compile_ms, .median = compile_ms, .samples = 100};
  verdict.ref_runtime = compile_ms < eager_ms ? verdict.torch_compile_runtime : verdict.eager_runtime;
  verdict.eager_speedup = eager_ms / ms;
  verdict.torch_compile_speedup = compile_ms / ms;
  verdict.speedup = std::min(verdict.eager_speedup, verdict.torch_compile_speedup);
  return timed;
}

Turn failed_turn() {
  Turn turn;
  turn.status = TurnStatus::kFailed;
  turn.verdict.fault = Fault::kEvaluatorFailed;
  turn.verdict.diagnostics = "answered 400";
  return turn;
}

Trajectory sample(std::vector<Turn> turns) {
  Trajectory sample;
  sample.turns = std::move(turns);
  return sample;
}

Problem problem(int level, int number, const std::string& name, const std::string& family) {
  Problem problem;
  problem.id = fmt::format("level{}_{}_{}", level, number, name);
  problem.level = level;
  problem.problem_id = number;
  problem.name = name;
  problem.families = {family};
  problem.source = "class Model: ...";
  return problem;
}

// Two turns on a GPU. Out of KernelBench's order, as a limited set is.
BenchResults on_a_gpu() {
  BenchResults results;
  results.stage = "base";
  results.label = "tiny & co";
  results.problems = {problem(1, 19, "relu", "activation"), problem(1, 2, "matmul", "matmul"),
                      problem(2, 1, "conv", "convolution")};
  Turn cheat = turn("cheat", true, true);
  cheat.verdict.flags = {{Cheat::kNoKernelLaunched, "0 launches"}};
  const std::string hostile = "</pre><script src=\"http://x\">alert(1)</script>";
  results.samples = {{sample({turn(hostile, false, false), timed("fast", 1, 3, 2)}), sample({timed("slow", 2, 1, 1)})},
                     {sample({turn("a", true, false), turn("b", false, false)}), sample({cheat})},
                     {sample({failed_turn()}), sample({timed("ok", 4, 4, 2), turn("worse", true, false)})}};
  results.budgets = {1, 2};
  results.request.max_turns = 2;
  results.request.evaluate.mode = EvaluationMode::kLive;
  results.samples_per_problem = 2;
  return results;
}

BenchResults on_a_cpu() {
  BenchResults results;
  results.stage = results.label = "base";
  results.problems = {problem(1, 1, "relu", "activation")};
  results.samples = {{sample({turn("right", true, true)}), sample({turn("wrong", true, false)})}};
  results.budgets = {1};
  results.request.max_turns = 1;
  results.request.evaluate.mode = EvaluationMode::kPlan;
  results.request.evaluate.measure_performance = false;
  results.samples_per_problem = 2;
  return results;
}

OrderedJson read(const fs::path& file) { return parse_ordered_json(read_file(file), file.string()); }

std::vector<std::string> keys_of(const OrderedJson& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

class BenchResultsTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder{"bench"};
  const fs::path kernelbench = folder.path() / "kernelbench";
};
using BenchResultsFiles = BenchResultsTest;

const FiguresRow& row(const std::vector<FiguresRow>& rows, int64_t turns, Answer answer, const std::string& group) {
  for (const FiguresRow& each : rows) {
    if (each.turns == turns && each.answer == answer && each.group == group) return each;
  }
  throw std::out_of_range(group);
}

TEST(BenchResults, AreByBudgetByBestAndFinalTurnByLevelAndByFamily) {
  const auto rows = figures_rows(on_a_gpu());
  const Figures& first = row(rows, 1, Answer::kBest, "all").figures;
  EXPECT_EQ(first.samples, 5);
  EXPECT_EQ(first.failed, 1);
  EXPECT_DOUBLE_EQ(first.correct.value, 2.0 / 5);  // slow, ok; a cheat is not correct
  const Figures& best = row(rows, 2, Answer::kBest, "all").figures;
  EXPECT_DOUBLE_EQ(best.correct.value, 3.0 / 5);
  EXPECT_DOUBLE_EQ(row(rows, 2, Answer::kFinal, "all").figures.correct.value, 2.0 / 5);  // "ok" became "worse"
  EXPECT_DOUBLE_EQ(row(rows, 2, Answer::kBest, "level 1").figures.correct.value, 2.0 / 4);
  EXPECT_DOUBLE_EQ(row(rows, 2, Answer::kBest, "family matmul").figures.correct.value, 0);
  EXPECT_DOUBLE_EQ(best.eager->fast.at(1).value, 1.0 / 5);            // 3 x, 0.5 x, 1 x
  EXPECT_DOUBLE_EQ(best.torch_compile->fast.at(0.5).value, 1.0 / 5);  // 2 x, 0.5 x, 0.5 x
  EXPECT_NEAR(best.eager->geometric_mean->value, std::cbrt(3 * 0.5 * 1), 1e-12);
}

TEST_F(BenchResultsFiles, KernelBenchReadsTheBestTurnsInTheOrderOfItsProblems) {
  write_results(on_a_gpu(), folder.path());
  const OrderedJson results = read(kernelbench / "runs/level1/eval_results.json");
  EXPECT_THAT(keys_of(results), ElementsAre("2", "19"));
  for (const auto& [key, entries] : results.items()) {
    for (const auto& entry : entries) {
      EXPECT_THAT(keys_of(entry), ::testing::UnorderedElementsAre("sample_id", "compiled", "correctness", "metadata",
                                                                  "runtime", "runtime_stats"));
    }
  }
  EXPECT_EQ(results["19"][0]["runtime"], 1.0);
  EXPECT_EQ(results["19"][0]["runtime_stats"]["mean"], 1.0);
  EXPECT_EQ(results["2"][1]["correctness"], false);  // the cheat
  EXPECT_EQ(results["2"][0]["runtime"], -1.0);
  EXPECT_EQ(read_file(kernelbench / "runs/level1/level_1_problem_19_sample_0_kernel.py"), "fast");
  const OrderedJson failed = read(kernelbench / "runs/level2/eval_results.json");
  ASSERT_EQ(failed["1"].size(), 1);  // what failed through us is not there
  EXPECT_EQ(failed["1"][0]["sample_id"], 1);
  EXPECT_EQ(read(kernelbench / "runs/level2_final/eval_results.json")["1"][0]["correctness"], false);
  const OrderedJson passes = read(kernelbench / "runs/level1/pass_at_k_results.json");
  EXPECT_EQ(passes["averages"]["avg_pass@1"], 0.5);
  EXPECT_EQ(passes["problems"]["19"]["pass@2"], 1.0);
  EXPECT_EQ(passes["metadata"]["total_correct_samples"], 2);
}

// Whoever wrote the problems named them: no such name is a way out of the folder.
TEST_F(BenchResultsFiles, AProblemsIdIsPartOfAFilesNameWhateverItHolds) {
  BenchResults results = on_a_gpu();
  results.problems[0].problem_id = 0;
  results.problems[0].id = "../../set/r elu";
  write_results(results, folder.path());
  std::vector<std::string> kernels;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.path().filename().string().find("elu_sample_0") != std::string::npos)
      kernels.push_back(entry.path().lexically_relative(folder.path()));
  }
  const std::string file = "level_1_problem_..%2F..%2Fset%2Fr%20elu_sample_0_kernel.py";
  EXPECT_THAT(kernels, ::testing::UnorderedElementsAre("kernelbench/runs/level1/" + file,
                                                       "kernelbench/runs/level1_final/" + file));
}

// As a file's name it may have 255 bytes, and escaped thrice as many.
TEST_F(BenchResultsFiles, AProblemsIdMayBeAsLongAsAFilesName) {
  BenchResults results = on_a_gpu();
  for (Problem& problem : results.problems) {
    problem.problem_id = 0;
    for (int i = 0; i < 80; ++i) problem.id += "核";
  }
  ASSERT_NE(results.problems[0].id, results.problems[1].id);
  write_results(results, folder.path());
  size_t kernels = 0;
  for (const auto& entry : fs::directory_iterator(kernelbench / "runs/level1"))
    kernels += entry.path().filename().string().ends_with("_kernel.py");
  EXPECT_EQ(kernels, 4u);
}

TEST_F(BenchResultsFiles, KernelBenchFindsTheBaselinesThatWereTimed) {
  write_results(on_a_gpu(), folder.path());
  const fs::path timing = kernelbench / "results/timing/NVIDIA_H200";
  EXPECT_EQ(read(timing / "baseline_time_torch.json")["level1"]["19_relu.py"]["mean"], 3.0);
  EXPECT_EQ(read(timing / "baseline_time_torch.json")["level2"]["1_conv.py"]["mean"], 4.0);
  EXPECT_EQ(read(timing / "baseline_time_torch_compile_inductor_default.json")["level1"]["19_relu.py"]["mean"], 2.0);
}

// What KernelBench's benchmark_eval_analysis.py reads of a level and computes of it, written anew from its text:
// sample 0 of each problem of its data set ({number, file}) that both files know, runtime against the baseline's mean.
struct Analysis {
  int64_t compiled = 0, correct = 0, aligned = 0;
  double geometric_mean = 0;
  std::map<double, double> fast;
};
Analysis kernelbenchs_analysis(const fs::path& folder, const std::string& level,
                               const std::vector<std::pair<std::string, std::string>>& data_set,
                               const std::string& hardware, const std::string& baseline) {
  const OrderedJson results = read(folder / "runs" / level / "eval_results.json");
  const OrderedJson times = read(folder / "results/timing" / hardware / (baseline + ".json")).at(level);
  Analysis found;
  std::vector<double> ratios;
  for (const auto& [number, file] : data_set) {
    OrderedJson entry = {{"compiled", false}, {"correctness", false}, {"runtime", -1.0}};
    for (const auto& each : results.value(number, OrderedJson::array())) {
      if (each.at("sample_id") == 0) entry = each;
    }
    found.compiled += entry.at("compiled").get<bool>();
    found.correct += entry.at("correctness").get<bool>();
    if (!times.contains(file)) continue;
    ++found.aligned;
    if (entry.at("correctness").get<bool>())
      ratios.push_back(times.at(file).at("mean").get<double>() / entry.at("runtime").get<double>());
  }
  double product = 1;
  for (const double ratio : ratios) product *= ratio;
  found.geometric_mean = ratios.empty() ? 0 : std::pow(product, 1.0 / static_cast<double>(ratios.size()));
  for (const double p : {0.0, 0.5, 0.8, 1.0, 1.5, 2.0}) {
    const auto faster = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) { return ratio > p; });
    found.fast[p] = static_cast<double>(faster) / static_cast<double>(std::max<int64_t>(1, found.aligned));
  }
  return found;
}

TEST_F(BenchResultsFiles, KernelBenchsAnalysisComputesTheSameSpeeds) {
  BenchResults results = on_a_gpu();
  results.samples[1][0].turns.push_back(timed("matmul", 2, 1, 4));  // slower than eager, faster than torch.compile
  results.request.max_turns = 3;
  results.budgets = {3};
  write_results(results, folder.path());
  const std::vector<std::pair<std::string, std::string>> level1 = {{"2", "2_matmul.py"}, {"19", "19_relu.py"}};
  const auto analysis = [&](const std::string& baseline) {
    return kernelbenchs_analysis(kernelbench, "level1", level1, "NVIDIA_H200", baseline);
  };
  const Analysis eager = analysis("baseline_time_torch");
  EXPECT_EQ(eager.compiled, 2);
  EXPECT_EQ(eager.correct, 2);
  EXPECT_EQ(eager.aligned, 2);
  EXPECT_NEAR(eager.geometric_mean, std::sqrt(3 * 0.5), 1e-12);
  EXPECT_EQ(eager.fast, (std::map<double, double>{{0, 1}, {0.5, 0.5}, {0.8, 0.5}, {1, 0.5}, {1.5, 0.5}, {2, 0.5}}));
  const Analysis compiled = analysis("baseline_time_torch_compile_inductor_default");
  EXPECT_NEAR(compiled.geometric_mean, 2, 1e-12);
  EXPECT_EQ(compiled.fast, (std::map<double, double>{{0, 1}, {0.5, 1}, {0.8, 1}, {1, 1}, {1.5, 1}, {2, 0}}));
}

TEST_F(BenchResultsFiles, OnACpuThereIsNoSpeedupAnywhere) {
  write_results(on_a_cpu(), folder.path());
  EXPECT_FALSE(fs::exists(kernelbench / "results"));
  const OrderedJson results = read(kernelbench / "runs/level1/eval_results.json");
  EXPECT_EQ(results["1"][0]["correctness"], true);
  EXPECT_EQ(results["1"][0]["runtime"], -1.0);  // KernelBench's "not measured"
  const OrderedJson figures = read(folder.path() / "figures.json");
  EXPECT_TRUE(figures["rows"][0]["eager"].is_null());
  EXPECT_TRUE(figures["rows"][0]["torch_compile"].is_null());
  EXPECT_THAT(figures["eager"]["why_not"].get<std::string>(), HasSubstr("plan mode judges on the CPU"));
  const std::string report = read_file(folder.path() / "report.html");
  EXPECT_THAT(report, HasSubstr("not measured: plan mode judges on the CPU"));
  EXPECT_THAT(report, Not(HasSubstr("0.00 x")));
  EXPECT_THAT(report, HasSubstr("correct, not timed"));
  dataset::ParquetReader reader(folder.path() / "samples.parquet", {{"speedup", dataset::ColumnKind::kNumber},
                                                                    {"eager_ms", dataset::ColumnKind::kNumber}});
  EXPECT_EQ(std::get<dataset::Numbers>(reader.read_all().columns[0].values), dataset::Numbers(2));
}

TEST_F(BenchResultsFiles, ParquetHoldsARowATurn) {
  write_results(on_a_gpu(), folder.path());
  const dataset::Table table = dataset::ParquetReader(folder.path() / "samples.parquet",
                                                      {{"problem_id", dataset::ColumnKind::kText},
                                                       {"sample", dataset::ColumnKind::kInteger},
                                                       {"turn", dataset::ColumnKind::kInteger},
                                                       {"correct", dataset::ColumnKind::kBool},
                                                       {"failure_of_ours", dataset::ColumnKind::kBool},
                                                       {"speedup", dataset::ColumnKind::kNumber},
                                                       {"eager_ms", dataset::ColumnKind::kNumber},
                                                       {"eager_speedup", dataset::ColumnKind::kNumber},
                                                       {"torch_compile_speedup", dataset::ColumnKind::kNumber},
                                                       {"code", dataset::ColumnKind::kText}})
                                   .read_all();
  ASSERT_EQ(table.rows(), 9);
  EXPECT_EQ(std::get<dataset::Texts>(table.columns[0].values)[1], "level1_19_relu");
  EXPECT_EQ(std::get<dataset::Integers>(table.columns[2].values)[1], 2);
  EXPECT_EQ(std::get<dataset::Bools>(table.columns[3].values)[5], false);         // the cheat
  EXPECT_EQ(std::get<dataset::Bools>(table.columns[3].values)[6], std::nullopt);  // ours: neither right nor wrong
  EXPECT_EQ(std::get<dataset::Bools>(table.columns[4].values)[6], true);
  EXPECT_EQ(std::get<dataset::Numbers>(table.columns[5].values)[1], 2.0);  // over the faster of both
  EXPECT_EQ(std::get<dataset::Numbers>(table.columns[6].values)[1], 3.0);
  EXPECT_EQ(std::get<dataset::Numbers>(table.columns[7].values)[1], 3.0);
  EXPECT_EQ(std::get<dataset::Numbers>(table.columns[8].values)[1], 2.0);
  EXPECT_EQ(std::get<dataset::Texts>(table.columns[9].values)[2], "slow");
}

TEST(BenchReport, WhatAModelWroteIsTextAndNothingIsLoaded) {
  const BenchResults results = on_a_gpu();
  const std::string html = bench_report(results, figures_rows(results));
  EXPECT_THAT(html, HasSubstr("&lt;/pre&gt;&lt;script src=&quot;http://x&quot;&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src=\"")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("tiny &amp; co"));
  EXPECT_THAT(html, HasSubstr("rejected as a cheat"));
  EXPECT_THAT(html, HasSubstr("failed through us: evaluator_failed"));
  EXPECT_THAT(html, HasSubstr("correct, 3.00 x eager, 2.00 x torch.compile"));
  EXPECT_THAT(html, HasSubstr("1 ms, eager 3 ms, torch.compile 2 ms (100 calls each)"));
}

// Where torch.compile alone was timed, the faster baseline is no eager.
TEST_F(BenchResultsFiles, AFigureAgainstEagerIsOfEagersOwnTimes) {
  BenchResults results = on_a_gpu();
  for (auto& samples : results.samples) {
    for (Trajectory& trajectory : samples) {
      for (Turn& turn : trajectory.turns) {
        turn.verdict.eager_runtime = {};
        turn.verdict.eager_speedup = 0;
      }
    }
  }
  for (const FiguresRow& row : overall_rows(results)) {
    EXPECT_FALSE(row.figures.eager);
    EXPECT_TRUE(row.figures.torch_compile);
  }
  EXPECT_THAT(no_eager_reason(results), HasSubstr("no verdict holds a time of eager PyTorch"));
  EXPECT_THAT(bench_report(results, figures_rows(results)), HasSubstr("correct, 2.00 x torch.compile"));
  write_results(results, folder.path());
  const fs::path timing = kernelbench / "results/timing/NVIDIA_H200";
  EXPECT_FALSE(fs::exists(timing / "baseline_time_torch.json"));
  EXPECT_TRUE(fs::exists(timing / "baseline_time_torch_compile_inductor_default.json"));
}

TEST(BenchResults, ATimeThatACandidateClaimsIsNoSpeed) {
  BenchResults results = on_a_gpu();
  for (auto& samples : results.samples) {
    for (Trajectory& trajectory : samples) {
      for (Turn& turn : trajectory.turns) {
        turn.verdict.claimed_speedup = std::exchange(turn.verdict.speedup, 0);
        turn.verdict.eager_speedup = turn.verdict.torch_compile_speedup = 0;
      }
    }
  }
  EXPECT_FALSE(timed_of(results).eager);
  EXPECT_FALSE(timed_of(results).torch_compile);
  EXPECT_THAT(no_eager_reason(results), HasSubstr("claims"));
  for (const FiguresRow& row : overall_rows(results)) EXPECT_FALSE(row.figures.eager);
}

}  // namespace
}  // namespace tritonforge::orchestrate
