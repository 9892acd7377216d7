#include "contract/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <set>

#include "base/filesystem.h"

namespace tritonforge {
namespace {

TEST(Verdict, EveryFieldSurvivesTheWire) {
  Verdict v;
  v.stage = Stage::kTimed;
  v.compiled = v.correct = true;
  v.trials = {
      {.seed = ~uint64_t{0}, .passed = true, .max_abs_error = 1e-6, .max_rel_error = 0.5, .mismatch = ""},
      {.seed = 2, .passed = false, .max_abs_error = std::numeric_limits<double>::infinity(), .mismatch = "output 0"}};
  v.runtime = {.mean = 1, .median = 2, .std = 3, .min = 4, .max = 5, .samples = 6};
  v.speedup = 1.5;
  v.claimed_speedup = 2.5;
  v.profile = Profile{.floor_ms = 0.5, .throttled = "thermal"};
  v.counters = {{.name = "add_kernel", .launches = 2}};
  v.speedup_low = 1.5;
  v.speedup_high = 1.9;
  v.eager_runtime = v.torch_compile_runtime = v.runtime;
  v.eager_speedup = 1.7;
  v.torch_compile_speedup = 1.2;
  v.fault = Fault::kMismatch;
  v.diagnostics = "line 3: \"é\"";
  v.flags = {{Cheat::kNoKernelLaunched, "0 launches"}, {Cheat::kDynamicCode, ""}};
  v.compile_targets = {{"sm_90", "ok"}};
  v.kernels = {"add_kernel"};
  v.device = "cpu";
  v.mode = EvaluationMode::kInterpret;
  v.notes = {{"sandbox", "landlock"}};
  v.seed = 42;
  v.wall_s = 0.25;
  v.seconds = {{"queue", 0.05}, {"recording", 0.2}};
  const Json json = to_json(v);
  EXPECT_EQ(to_json(verdict_from_json(parse_json(json.dump(), "test"))), json);
  EXPECT_TRUE(std::isinf(verdict_from_json(json).trials[1].max_abs_error));
  EXPECT_TRUE(v.cheated());
}

// A new field has to be put on one side.
TEST(Verdict, EveryFieldIsMeasuredOrClaimed) {
  std::set<std::string> measured{"cheated",     "claimed", "counters", "device", "mode",   "own_share", "profile",
                                 "ref_runtime", "seed",    "speedup",  "trials", "wall_s", "seconds"};
  measured.insert({"eager_runtime", "eager_speedup", "torch_compile_runtime", "torch_compile_speedup"});
  Verdict v;
  v.own_share = 1;
  v.profile = Profile();
  v.counters.emplace_back();
  v.seconds["queue"] = 1;
  v.eager_runtime.samples = v.torch_compile_runtime.samples = 1;
  std::set<std::string> fields, marked = measured;
  const Json json = to_json(v);  // a range over items() of a temporary would outlive it
  for (const auto& [name, value] : json.items()) fields.insert(name);
  for (const auto& name : claimed_fields(EvaluationMode::kLive)) {
    EXPECT_FALSE(measured.contains(name)) << name;
    marked.insert(name);
  }
  EXPECT_EQ(marked, fields);
  EXPECT_TRUE(claimed_fields(EvaluationMode::kPlan).empty());
}

TEST(Verdict, BeforeEagerHadItsOwnFiguresItWasTheBaselineUnlessAnotherWasTimed) {
  Verdict old;
  old.stage = Stage::kTimed;
  old.ref_runtime = {.mean = 3, .median = 3, .samples = 50};
  old.speedup = 1.5;
  Verdict read = verdict_from_json(to_json(old));
  EXPECT_EQ(read.eager_runtime.mean, 3);
  EXPECT_EQ(read.eager_speedup, 1.5);
  old.torch_compile_runtime.samples = 50;
  read = verdict_from_json(to_json(old));
  EXPECT_EQ(read.eager_runtime.samples, 0);
  EXPECT_EQ(read.eager_speedup, 0);
}

TEST(Verdict, KernelExecResultHoldsEachBaselineByItself) {
  Verdict v;
  v.stage = Stage::kTimed;
  v.runtime.mean = 1;
  v.ref_runtime = v.torch_compile_runtime = {.mean = 2, .samples = 50};
  v.speedup = v.torch_compile_speedup = 1.9;
  Json metadata = to_kernel_exec_result(v).at("metadata");
  EXPECT_EQ(metadata.at("torch_compile_runtime"), 2.0);
  EXPECT_FALSE(metadata.contains("eager_runtime"));
  v.eager_runtime = {.mean = 3, .samples = 50};
  v.eager_speedup = 2.9;
  metadata = to_kernel_exec_result(v).at("metadata");
  EXPECT_EQ(metadata.at("eager_runtime"), 3.0);
  EXPECT_EQ(metadata.at("eager_speedup"), 2.9);
  EXPECT_EQ(metadata.at("ref_runtime"), 2.0);
  EXPECT_EQ(metadata.at("speedup"), 1.9);
}

TEST(Verdict, UnknownStageNamesTheNearest) {
  try {
    parse_stage("compield");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("compiled"), std::string::npos) << error.what();
  }
}

TEST(Verdict, OnlyKnownWordsAreRead) {
  EXPECT_THROW(verdict_from_json(Json{{"error_kind", "mismtach"}}), Error);
  EXPECT_THROW(verdict_from_json(Json{{"flags", {{{"name", "input_mutatd"}}}}}), Error);
  EXPECT_EQ(verdict_from_json(Json{{"error_kind", "out_of_memory"}}).fault, Fault::kOutOfMemory);
}

TEST(Verdict, ADoubtIsNoCheat) {
  const Json doubt = {{"flags", {{{"name", "excessive_speedup"}, {"cheat", true}}}}};
  EXPECT_FALSE(verdict_from_json(doubt).cheated());  // what is a cheat follows from its name, whoever sends it
  for (const Cheat kind :
       {Cheat::kForbiddenAccess, Cheat::kDynamicCode, Cheat::kTrivialReference, Cheat::kExcessiveSpeedup})
    EXPECT_TRUE(is_doubt(kind)) << name_of(kind);
  EXPECT_FALSE(is_doubt(Cheat::kTimedOutputWrong));
}

TEST(Verdict, WhatDependsOnTheMachineIsNotLasting) {
  for (const Fault fault : {Fault::kTimeout, Fault::kOutOfMemory, Fault::kCrashed, Fault::kProblemError})
    EXPECT_FALSE(lasting(fault)) << name_of(fault);
  for (const Fault fault : {Fault::kNone, Fault::kMismatch, Fault::kForbidden, Fault::kCompileError})
    EXPECT_TRUE(lasting(fault)) << name_of(fault);
}

// The words that a worker's Python file writes where `pattern` finds them.
std::set<std::string> words_of(const std::string& file, const std::string& pattern) {
  const std::string text = read_file(fs::path(TF_SOURCE_DIR) / "worker/tritonforge_worker" / file);
  const std::regex regex(pattern);
  std::set<std::string> words;
  for (std::sregex_iterator found(text.begin(), text.end(), regex), end; found != end; ++found) {
    for (size_t i = 1; i < found->size(); ++i) {
      if ((*found)[i].matched) words.insert((*found)[i]);
    }
  }
  return words;
}

TEST(Verdict, TheWorkersWordsAreKnown) {
  const auto faults = words_of("errors.py", R"re(return "(\w+)"(?: if stage == "import" else "(\w+)")?)re");
  EXPECT_EQ(faults,
            (std::set<std::string>{"compile_error", "import_error", "out_of_memory", "runtime_error", "syntax_error"}));
  for (const auto& word : faults) EXPECT_NO_THROW(from_name<Fault>(word, "fault")) << word;
  const auto flags = words_of("screen.py", R"re(add\("(\w+)")re");
  EXPECT_EQ(flags, (std::set<std::string>{"dynamic_code", "forbidden_access"}));
  for (const auto& word : flags) EXPECT_TRUE(is_doubt(from_name<Cheat>(word, "flag"))) << word;
}

TEST(Verdict, WrongFieldTypeIsNamed) {
  EXPECT_THROW(verdict_from_json(Json{{"compiled", "yes"}}), Error);
  EXPECT_THROW(verdict_from_json(Json{{"trials", {1}}}), Error);
  EXPECT_THROW(verdict_from_json(Json::array()), Error);
}

TEST(KernelExecResult, IsAViewOfTheVerdict) {
  Verdict v;
  v.compiled = v.correct = true;
  v.stage = Stage::kTimed;
  v.runtime = {.mean = 0.123456, .samples = 100};
  EXPECT_DOUBLE_EQ(to_kernel_exec_result(v)["runtime"].get<double>(), 0.123);
  v.flags.push_back({Cheat::kInputMutated, "input 0"});
  EXPECT_FALSE(to_kernel_exec_result(v)["correctness"].get<bool>());
  v = {};
  v.fault = Fault::kCompileError;
  v.diagnostics = "at 3:4";
  const Json failed = to_kernel_exec_result(v);
  EXPECT_EQ(failed["runtime"], -1);
  EXPECT_EQ(failed["metadata"]["compilation_error"], "at 3:4");
}

}  // namespace
}  // namespace tritonforge
