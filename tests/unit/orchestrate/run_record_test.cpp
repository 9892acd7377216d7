#include "orchestrate/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "orchestrate/stages.h"
#include "orchestrate/terminal_view.h"

namespace tritonforge::orchestrate {
namespace {

Turn turn(bool compiled, bool correct, double speedup = 0) {
  Turn turn;
  turn.status = TurnStatus::kCompleted;
  turn.verdict.compiled = compiled;
  turn.verdict.correct = correct;
  turn.verdict.speedup = turn.verdict.eager_speedup = speedup;
  turn.verdict.eager_runtime.samples = speedup > 0 ? 50 : 0;
  turn.verdict.stage = speedup > 0 ? Stage::kTimed : correct ? Stage::kCorrect : Stage::kParsed;
  return turn;
}

Trajectory trajectory(std::vector<Turn> turns) {
  Trajectory result;
  result.turns = std::move(turns);
  return result;
}

std::vector<BenchRow> bench_rows(const std::string& stage, const std::vector<std::vector<Trajectory>>& samples,
                                 const std::vector<int64_t>& budgets) {
  BenchResults results;
  results.stage = results.label = stage;
  results.samples = samples;
  results.problems.resize(samples.size());
  results.samples_per_problem = static_cast<int64_t>(samples.front().size());
  results.budgets = budgets;
  results.request.evaluate.measure_performance = false;
  return orchestrate::bench_rows(results);
}

StepResult trained(int64_t step) {
  StepResult result;
  result.metrics.step = step;
  return result;
}

TEST(BenchRows, SingleTurnIsThePrefixOfMultiTurn) {
  const std::vector<std::vector<Trajectory>> data = {
      {trajectory({turn(true, true)}), trajectory({turn(false, false), turn(true, true)})},
      {trajectory({turn(true, false), turn(true, false), turn(true, true)}), trajectory({turn(false, false)})}};
  const auto rows = bench_rows("sft", data, {1, 3});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].turns, 1);
  EXPECT_DOUBLE_EQ(rows[0].pass_at_1, 0.25);
  EXPECT_DOUBLE_EQ(rows[0].compile_rate, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].pass_at_1, 0.75);
  EXPECT_DOUBLE_EQ(rows[1].compile_rate, 0.75);
  EXPECT_LE(rows[1].ci_low, 0.75);
  EXPECT_GE(rows[1].ci_high, 0.75);
  EXPECT_TRUE(rows[0].eager.fast.empty());  // nothing was timed: no speed is claimed
}

TEST(BenchRows, SpeedIsOfCorrectSamplesOverAll) {
  const auto rows = bench_rows("rl",
                               {{trajectory({turn(true, true, 2.0)}), trajectory({turn(true, true, 0.5)}),
                                 trajectory({turn(true, false)}), trajectory({})}},
                               {1});
  EXPECT_DOUBLE_EQ(rows[0].eager.fast.at("1.0"), 0.25);
  EXPECT_DOUBLE_EQ(rows[0].eager.fast.at("0.0"), 0.5);
  EXPECT_NEAR(rows[0].eager.geo_mean, 1.0, 1e-12);
  EXPECT_TRUE(rows[0].torch_compile.fast.empty());
  EXPECT_THAT(format_table(rows), testing::Not(testing::HasSubstr("torch.compile")));
}

TEST(BenchRows, SpeedIsOverEachBaselineByItself) {
  Turn both = turn(true, true, 3);
  both.verdict.torch_compile_runtime = both.verdict.eager_runtime;
  both.verdict.torch_compile_speedup = 0.5;
  const auto rows = bench_rows("rl", {{trajectory({both})}}, {1});
  const BenchRow read = bench_row_from_json(to_json(rows[0]));
  EXPECT_EQ(read.eager.fast.at("1.0"), 1);
  EXPECT_EQ(read.eager.median, 3);
  EXPECT_EQ(read.torch_compile.fast.at("1.0"), 0);
  EXPECT_EQ(read.torch_compile.geo_mean, 0.5);
  const std::string table = format_table(rows);
  EXPECT_THAT(table, testing::HasSubstr("eager fast_1  geomean   median  torch.compile fast_1  geomean   median"));
  EXPECT_THAT(table, testing::HasSubstr("100.0%    3.00x    3.00x                  0.0%    0.50x    0.50x"));
}

Turn failed_turn() {
  Turn turn;
  turn.status = TurnStatus::kFailed;
  turn.verdict.fault = Fault::kEvaluatorFailed;
  turn.verdict.diagnostics = "answered 400";
  return turn;
}

TEST(BenchRows, FailuresOfOursAreCountedApartAndInNoRate) {
  // The third sample is judged in its first turn only; the fourth in none.
  const auto judged = [](bool correct) { return turn(true, correct); };
  const std::vector<std::vector<Trajectory>> data = {
      {trajectory({judged(true)}), trajectory({judged(false), judged(false)}),
       trajectory({judged(false), failed_turn()}), trajectory({failed_turn()})}};
  const auto rows = bench_rows("sft", data, {1, 2});
  EXPECT_EQ(rows[0].samples, 3);
  EXPECT_EQ(rows[0].failed, 1);
  EXPECT_DOUBLE_EQ(rows[0].pass_at_1, 1.0 / 3);
  EXPECT_EQ(rows[1].samples, 2);
  EXPECT_EQ(rows[1].failed, 2);
  EXPECT_DOUBLE_EQ(rows[1].pass_at_1, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].compile_rate, 1);
  const BenchRow read = bench_row_from_json(to_json(rows[1]));
  EXPECT_EQ(read.failed, 2);
  EXPECT_EQ(read.single_turn_pass_at_k, rows[1].single_turn_pass_at_k);
  EXPECT_THAT(format_table(rows), testing::HasSubstr("failed"));
  EXPECT_EQ(format_table({}), "");
}

TEST(BenchRows, ABenchOfWhichNothingWasJudgedFailsWithTheReason) {
  try {
    bench_rows("rl", {{trajectory({failed_turn()})}}, {1});
    FAIL() << "0 % would be charged to the model";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("evaluator_failed: answered 400"));
  }
}

TEST(BenchRows, SeveralTurnsAreShownBesideAsManySingleOnes) {
  // First turns: 1 of 3 and 0 of 3 correct. pass@2 by hand: 1 - C(2,2)/C(3,2) = 2/3 and 0.
  const Trajectory first = trajectory({turn(true, true)}), second = trajectory({turn(true, false), turn(true, true)}),
                   never = trajectory({turn(true, false), turn(true, false)});
  const auto rows = bench_rows("sft", {{first, second, never}, {never, never, second}}, {1, 2, 4});
  EXPECT_FALSE(rows[0].single_turn_pass_at_k.has_value());
  EXPECT_NEAR(rows[1].single_turn_pass_at_k.value(), 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(rows[1].pass_at_1, 0.5);
  EXPECT_FALSE(rows[2].single_turn_pass_at_k.has_value());  // three samples say nothing of pass@4
}

TEST(RunRecord, ResumeKeepsWhatWasFinishedAndWritesNoStepTwice) {
  TemporaryFolder folder("record");
  {
    RunRecord record(folder.path(), /*resume=*/false);
    record.begin_stage("sft");
    record.begin_stage("sft");
    record.finish_stage("sft", 12.5, bench_rows("base", {{trajectory({turn(true, false)})}}, {1}),
                        {"lease-a", "lease-b"});
    record.add_sft_step(trained(1));
    record.add_sft_step(trained(2));
  }
  EXPECT_THROW(RunRecord(folder.path(), /*resume=*/false), Error);
  RunRecord record(folder.path(), /*resume=*/true);
  EXPECT_THROW(RunRecord(folder.path(), /*resume=*/true), Error);  // it is in use
  EXPECT_TRUE(record.stage_done("sft"));
  EXPECT_FALSE(record.stage_done("rl"));
  ASSERT_EQ(record.rows().size(), 1u);
  EXPECT_THAT(record.begun_stages(), testing::ElementsAre("sft"));
  EXPECT_THAT(record.leases_to_commit(), testing::ElementsAre("lease-a", "lease-b"));  // of a run stopped before
  record.leases_are_committed();
  EXPECT_THAT(parse_json(read_file(folder.path() / "state.json"), "state").at("leases_to_commit"), testing::IsEmpty());
  EXPECT_EQ(record.last_step("sft"), 2);
  EXPECT_EQ(record.last_step("rl"), 0);
  EXPECT_EQ(record.first_step("sft", 3), 3);
  EXPECT_EQ(record.first_step("sft", 2), 2);  // the trainer went back
  EXPECT_EQ(record.first_step("sft", 4), 3);  // trained and not recorded
  EXPECT_EQ(record.first_step("rl", 1), 1);
  record.add_sft_step(trained(2));  // again, after a crash
  record.add_sft_step(trained(3));
  const std::string steps = read_file(folder.path() / "steps.jsonl");
  EXPECT_EQ(std::count(steps.begin(), steps.end(), '\n'), 3);
  record.finish_stage("bench-base", 3);
  record.finish_stage("bench-sft", 4);
  record.write_result(7);
  const Json result = parse_json(read_file(folder.path() / "result.json"), "result");
  EXPECT_EQ(result.at("seed"), 7);
  EXPECT_DOUBLE_EQ(result.at("wall_s").at("bench").get<double>(), 7.0);
  EXPECT_EQ(result.at("stages").at(0).at("name"), "base");
  EXPECT_EQ(result.at("stages").at(0).at("ci95").size(), 2u);
}

TEST(RunRecord, WhatAKilledRunHadNotWrittenToItsEndIsRemoved) {
  TemporaryFolder folder("record-test");
  { RunRecord begun(folder.path(), /*resume=*/false); }
  const std::vector<std::string> stay = {"report.html.tmp-a1B2c3", "notes.json.backup", "x.json.tmp-", "y.tmp-abcdef"};
  for (const std::string& name : stay) write_file_atomic(folder.path() / name, "somebody's");
  const std::vector<std::string> gone = {"status.json.tmp-a1B2c3", "recipe.yaml.tmp-ZZZZZZ"};
  for (const std::string& name : gone) write_file_atomic(folder.path() / name, "{");
  RunRecord resumed(folder.path(), /*resume=*/true);
  for (const std::string& name : stay) EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
  for (const std::string& name : gone) EXPECT_FALSE(fs::exists(folder.path() / name)) << name;
}

TEST(RunRecord, NewStepsAreTakenOnce) {
  TemporaryFolder folder("record");
  RunRecord record(folder.path(), /*resume=*/false);
  record.add_sft_step(trained(1));
  record.add_sft_step(trained(2));
  EXPECT_EQ(record.take_new_steps().size(), 2u);
  EXPECT_EQ(record.take_new_steps().size(), 0u);
  record.add_sft_step(trained(3));
  const auto steps = record.take_new_steps();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].at("step"), 3);
}

TEST(RunRecord, WhatIsMissingOrDamagedEndsAResumeInOneLine) {
  TemporaryFolder folder("record");
  {
    RunRecord record(folder.path(), /*resume=*/false);
    RlStep step;
    step.trained = trained(1);
    record.add_rl_step(step);
    record.add_sft_step(trained(1));
  }
  const auto refusal = [&]() -> std::string {
    try {
      RunRecord(folder.path(), /*resume=*/true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(), testing::HasSubstr("buffer.sqlite is gone"));
  write_file_atomic(folder.path() / "buffer.sqlite", "");
  EXPECT_EQ(refusal(), "");
  append_line_durable(folder.path() / "steps.jsonl", "{\"stage\": \"rl\", \"st");
  EXPECT_THAT(refusal(), testing::HasSubstr("steps.jsonl:3: not valid JSON"));
}

TEST(RunRecord, AnRlStepIsOneLineWithItsRatesAndTimes) {
  TemporaryFolder folder("record");
  RunRecord record(folder.path(), /*resume=*/false);
  RlStep step;
  step.trained = trained(3);
  step.trained.metrics.kind = StepKind::kRl;
  step.trained.metrics.loss = 0.5;
  step.trained.checkpoint = "/c/step-00000003";
  step.rollout.add(trajectory({turn(true, false), turn(true, true)}));
  step.rollout.add(trajectory({turn(false, false)}));
  step.dropped = 1;
  step.collect_s = 2;
  step.replayed = 3;
  step.idle = {.actor = 0.25, .rollout = 0.5, .eval = std::nullopt};
  record.add_rl_step(step);
  const Json line = parse_json(read_file(folder.path() / "steps.jsonl"), "steps.jsonl");
  EXPECT_EQ(line.at("stage"), "rl");
  EXPECT_EQ(line.at("step"), 3);
  EXPECT_EQ(line.at("loss"), 0.5);
  EXPECT_EQ(line.at("checkpoint"), "/c/step-00000003");
  EXPECT_EQ(line.at("pass_rate"), 0.5);
  EXPECT_EQ(line.at("pass_rate_first_turn"), 0);
  EXPECT_EQ(line.at("compile_rate"), 0.5);
  EXPECT_EQ(line.at("turns_mean"), 1.5);
  EXPECT_EQ(line.at("trajectories"), 2);
  EXPECT_EQ(line.at("dropped"), 1);
  EXPECT_EQ(line.at("collect_s"), 2);
  EXPECT_EQ(line.at("replayed"), 3);
  EXPECT_EQ(line.at("idle_actor"), 0.25);
  EXPECT_EQ(line.at("idle_rollout"), 0.5);
  EXPECT_FALSE(line.contains("idle_eval"));
  EXPECT_FALSE(line.contains("warning"));
  record.add_transcripts({trajectory({turn(true, true)})}, 3);
  const Json shown = parse_json(read_file(folder.path() / "trajectories.jsonl"), "trajectories.jsonl");
  EXPECT_EQ(shown.at("step"), 3);
  EXPECT_FALSE(shown.at("turns").at(0).contains("response_tokens"));
}

TEST(RunRecord, ItsStatusSaysHowTheRunEnded) {
  TemporaryFolder folder("record");
  RunRecord record(folder.path(), /*resume=*/false);
  const auto status = [&] {
    record.write_status({}, "small");
    return parse_json(read_file(folder.path() / "status.json"), "status.json");
  };
  record.set_plan({"data", "sft", "bench-sft"});
  record.finish_stage("data", 1);
  EXPECT_EQ(status().at("done"), Json({"data"}));
  EXPECT_EQ(status().at("left"), Json({"sft", "bench-sft"}));
  EXPECT_EQ(status().at("state"), "running");
  EXPECT_EQ(status().at("pid"), ::getpid());
  record.set_end("failed", "engine-0 keeps failing");
  EXPECT_EQ(status().at("state"), "failed");
  EXPECT_EQ(status().at("reason"), "engine-0 keeps failing");
}

TEST(RunRecord, TheTimeLeftIsOfTheStageAndOfTheRun) {
  TemporaryFolder folder("record");
  double started = 0;
  {
    RunRecord record(folder.path(), /*resume=*/false);
    started = record.started();
    EXPECT_GT(started, 1.7e9);
    record.set_plan({"data", "bench-base", "sft", "bench-sft"});
    record.finish_stage("data", 1);
    record.set_progress("bench base", 0, 4);
    EXPECT_EQ(record.progress().eta_s, 0);  // nothing to go by
    EXPECT_TRUE(record.progress().run_eta_is_least);
    record.finish_stage("bench-base", 70);
    record.set_progress("sft", 0, 4);
    record.set_progress("sft", 1, 4);
    const auto sft = record.progress();
    EXPECT_GT(sft.eta_s, 0);
    EXPECT_DOUBLE_EQ(sft.run_eta_s, sft.eta_s + 70);  // as the bench before it
    EXPECT_FALSE(sft.run_eta_is_least);
    record.write_status({}, "small");
    const Json status = parse_json(read_file(folder.path() / "status.json"), "status.json");
    EXPECT_GE(status.at("run_eta_s").get<double>(), 70);
    EXPECT_EQ(status.at("started"), started);
  }
  RunRecord resumed(folder.path(), /*resume=*/true);
  EXPECT_EQ(resumed.started(), started);
  resumed.set_plan({"sft", "rl", "bench-sft"});
  resumed.set_progress("sft", 3, 4);
  EXPECT_DOUBLE_EQ(resumed.progress().run_eta_s, 70);  // of the stages to come, one is unknown
  EXPECT_TRUE(resumed.progress().run_eta_is_least);
}

TEST(Table, ARowIsNamedAfterWhatWasDoneToTheModel) {
  RecipeConfig config;
  config.model.path = "models/tiny-base/";
  config.stages = {"sft", "rl", "bench"};
  EXPECT_EQ(label_of(config, "base"), "base");
  EXPECT_EQ(label_of(config, "sft"), "SFT");
  EXPECT_EQ(label_of(config, "rl"), "SFT+RL");
  config.stages = {"rl", "bench"};
  EXPECT_EQ(label_of(config, "rl"), "RL");  // of a model that somebody else had trained
  config.stages = {"bench"};
  EXPECT_EQ(label_of(config, "base"), "tiny-base");
  BenchRow row;
  row.stage = "base";
  row.label = "Qwen2.5-Coder-0.5B-Instruct";
  EXPECT_EQ(bench_row_from_json(to_json(row)).label, row.label);
  const std::string table = format_table({row});
  EXPECT_THAT(table, testing::HasSubstr("\nQwen2.5-Coder-0.5B-Instruct "));
  const size_t second_line = table.find('\n') + 1;
  EXPECT_EQ(table.find("turns") + 5, table.find("single") + 6 - second_line);  // the columns stay aligned
}

TEST(TerminalView, AStepIsALineOfEightyColumnsAndSftSaysSomeOfThem) {
  const Json rl = {{"stage", "rl"},        {"step", 9999},        {"reward_mean", -0.987654},
                   {"pass_rate", 1.0},     {"compile_rate", 1.0}, {"train_rollout_logprob_abs_diff", 1.23e-7},
                   {"seconds", 1234.5678}, {"loss", -123.4567},   {"turns_mean", 12.34},
                   {"collect_s", 1000.0},  {"train_s", 100.0},    {"sync_s", 100.0}};
  EXPECT_LE(format_step(rl).size(), 80u) << format_step(rl);
  EXPECT_THAT(format_step(rl), testing::HasSubstr("pass 100.0%"));
  const Json sft = {{"stage", "sft"}, {"step", 9999},        {"loss", 10.1234},
                    {"lr", 1.5e-5},   {"grad_norm", 99.999}, {"tokens_per_s", 123456}};
  EXPECT_LE(format_step(sft).size(), 80u) << format_step(sft);
  EXPECT_TRUE(is_shown(rl, 260));
  int shown = 0;
  for (int step = 1; step <= 260; ++step) shown += is_shown({{"stage", "sft"}, {"step", step}}, 260);
  EXPECT_EQ(shown, 21);  // every thirteenth, the last among them, and the first
  EXPECT_TRUE(is_shown({{"stage", "sft"}, {"step", 260}}, 260));
  EXPECT_TRUE(is_shown({{"stage", "sft"}, {"step", 2}}, 3));
}

TEST(RunRecord, TranscriptsOfAStepWithoutItsLineAreCut) {
  TemporaryFolder folder("tf-transcripts");
  Trajectory transcript;
  transcript.id = "a";
  {
    RunRecord record(folder.path() / "run", /*resume=*/false);
    record.add_transcripts({transcript, transcript}, 1);
    RlStep step;
    step.trained.metrics.step = 1;
    record.add_rl_step(step);
    write_file_atomic(record.folder() / "buffer.sqlite", "");
  }
  const std::string finished = read_file(folder.path() / "run/trajectories.jsonl");
  RunRecord(folder.path() / "run", /*resume=*/true).add_transcripts({transcript}, 2);  // killed before its line
  const RunRecord record(folder.path() / "run", /*resume=*/true);
  EXPECT_EQ(read_file(folder.path() / "run/trajectories.jsonl"), finished);
}

TEST(RunRecord, AStatusOfAnyBytesIsWritten) {
  TemporaryFolder folder("tf-status");
  RunRecord record(folder.path() / "run", /*resume=*/false);
  RoleStatus role;
  role.detail = "exited with 1: \xff\xfe";
  record.write_status({role}, "a");
  EXPECT_TRUE(fs::exists(folder.path() / "run/status.json"));
}

}  // namespace
}  // namespace tritonforge::orchestrate
