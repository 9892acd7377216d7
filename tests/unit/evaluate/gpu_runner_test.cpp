// Plan mode on a GPU over conversations that were written down: what becomes of a plan whose trials passed.
#include "evaluate/plan/gpu_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

const std::string kOpen =
    R"(0 {"device":{"name":"written","uuid":"written-gpu","target":"sm_90","multiprocessors":1,"l2":1,"memory":1e11,)"
    R"("bytes_per_s":1,"clock_hz":1}})"
    "\n";
const std::string kLoadedPlan = "0 {\"loaded\":true}\n";
const std::string kRight = R"(160 {"findings":[],"own":[0,0],"copied":[false],)" + kWrittenTensors + "}\n";
const std::string kWrong = R"(120 {"findings":[],"own":[0,0],"copied":[false],"inputs":1,"aliases":[-1],"tensors":[)"
                           R"({"dtype":"float32","shape":[20],"order":[0],"bytes":80},)"
                           R"({"dtype":"float32","shape":[10],"order":[0],"bytes":40}]})"
                           "\n";
const std::string kReady = "0 {\"ready\":true}\n";
const std::string kChosen = "0 {\"chosen\":true}\n";
const std::string kNothingWritten = "0 {\"failed\":{\"kind\":\"fault\",\"text\":\"nothing was written\"}}\n";

// A launch, of one kernel or of that of each of three configurations.
std::string recording(bool tuned) {
  const std::string launch = R"("grid":[1,1,1],"args":[{"t":0},{"t":1},{"i":20}])";
  std::string kernels, steps;
  for (int k = 0; k < (tuned ? 3 : 1); ++k) {
    kernels += fmt::format(R"({}{{"name":"k","options":{{"num_warps":{}}},"ir":{{"sm_90":0}},"errors":{{}}}})",
                           k > 0 ? "," : "", k + 1);
    steps += fmt::format(R"(,{{"launch":{},{}{}}})", k, launch, tuned ? fmt::format(R"(,"of":[0,{}])", k) : "");
  }
  const std::string tunings = tuned ? R"("tunings":[{"configurations":["B 1","B 2","B 3"],"left_out":0}],)" : "";
  return kWrittenLoad +
         R"(16 {"plan":{"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},{"dtype":"float32",)"
         R"("shape":[20],"stride":[1]}],"kernels":[)" +
         kernels + "]," + tunings +
         R"("steps":[{"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[1]})" + steps +
         R"(],"outputs":{"tensor":1},"inputs":1,"texts":[16],"constants":[],"own_weights":[]}})" + "\n";
}

// Calls of a tuner: `ms` each.
std::string calls(double ms) {
  std::string made;
  for (int k = 0; k < 10; ++k) made += fmt::format("{}[{},true,0]", k > 0 ? "," : "", ms);
  return "0 {\"calls\":[" + made + "]}\n";
}

struct Setting {
  bool tuned = false;
  double limit_s = 30;                        // of the candidate's own time
  std::string* heard = nullptr;               // all that its processes were sent
  std::function<void()> while_compiled = {};  // where it is timed: torch.compile's version, of which there is none
};

// What the process P says that tries the plan, after it was handed it, then the one after it.
Verdict judge_on_gpu(const std::string& first, const std::string& second = "", const Setting& setting = {}) {
  const ReferenceData reference = written_reference();
  WrittenChildren children(
      kOpen + "=\n" + recording(setting.tuned) + "=\n" + kOpen + kLoadedPlan + first + "=\n" + kOpen + second,
      reference);
  LoweringPool lowering(children);
  EvaluatorOptions options;
  options.torch_compile = static_cast<bool>(setting.while_compiled);
  options.candidate_timeout_s = 30;
  GpuReplayers device(children, options, "");
  EvaluationRequest request;
  request.measure_performance = static_cast<bool>(setting.while_compiled);
  RunContext context = written_context(children, lowering, options, request, reference, device);
  context.limit_s = setting.limit_s;
  const auto with_reference = [&](const std::function<bool(Child&)>&) {
    setting.while_compiled();
    throw TimingFault{Fault::kTimeout, "torch.compile did not end"};
  };
  const GpuProblem gpu{device, with_reference, {}};
  Verdict verdict;
  verdict.mode = EvaluationMode::kPlan;
  verdict.stage = Stage::kExtracted;
  const auto why = judge_as_plan(context, verdict, &gpu);
  if (setting.heard) *setting.heard = children.heard();
  verdict.notes["mode_reason"] = why ? why->reason : "";
  return verdict;
}

std::string failed(const std::string& kind, const std::string& text) {
  return fmt::format("0 {{\"failed\":{{\"kind\":\"{}\",\"text\":\"{}\"}}}}\n", kind, text);
}

TEST(GpuRunner, WhatIsRightAndCannotBeTimedIsCorrect) {
  for (const std::string& failure :
       {failed("internal", "CUDA out of memory"), failed("plan", "timing: late"),
        failed("internal", "CUDA error: out of memory"), failed("fault", "kernel k: its launch: out of memory"),
        kReady + "0 {\"of\":\"another kind\"}\n"}) {
    const Verdict verdict = judge_on_gpu(kRight + failure, kLoadedPlan + kNothingWritten);
    EXPECT_TRUE(verdict.correct) << verdict.diagnostics;
    EXPECT_EQ(verdict.notes.at("mode_reason"), "");
    EXPECT_EQ(verdict.stage, Stage::kCorrect);
    EXPECT_EQ(verdict.speedup, 0);
    EXPECT_EQ(verdict.own_share, 1.0);
    EXPECT_THAT(verdict.notes.at("timing"), HasSubstr("none: "));
  }
}

// Kernels without effect are found all the same, by another process P.
TEST(GpuRunner, WhatCannotBeTimedMustMatter) {
  const Verdict verdict = judge_on_gpu(kRight + failed("plan", "timing: late"), kLoadedPlan + kRight);
  EXPECT_FALSE(verdict.correct);
  ASSERT_EQ(verdict.flags.size(), 1u);
  EXPECT_EQ(verdict.flags[0].kind, Cheat::kNoKernelEffect);
}

TEST(GpuRunner, ALaunchThatFailsWhileItIsTimedIsTheCandidates) {
  for (const std::string& failure :
       {failed("fault", "kernel k: an illegal memory access"), failed("fault", "it did not end in time"),
        failed("internal", "CUDA error: an illegal memory access was encountered")}) {
    const Verdict verdict = judge_on_gpu(kRight + failure);
    EXPECT_FALSE(verdict.correct);
    EXPECT_EQ(verdict.fault, Fault::kRuntimeError);
    EXPECT_THAT(verdict.diagnostics, HasSubstr("while it was timed: "));
    EXPECT_EQ(verdict.notes.at("mode_reason"), "");
  }
}

// Whoever runs out of it: torch's allocator, its context, or the driver at a launch.
TEST(GpuRunner, ATrialWithoutEnoughMemoryIsThat) {
  for (const char* text : {"CUDA out of memory. Tried to allocate 80.00 GiB", "CUDA error: out of memory",
                           "kernel k: its launch: out of memory"}) {
    for (const char* kind : {"internal", "fault"}) {
      const Verdict verdict = judge_on_gpu(failed(kind, text));
      EXPECT_EQ(verdict.fault, Fault::kOutOfMemory) << kind << text;
      EXPECT_EQ(verdict.notes.at("mode_reason"), "");
    }
  }
}

TEST(GpuRunner, AProcessThatIsLostWhileItTimesIsTheDevicesUntilItWasProbed) {
  EXPECT_THROW(judge_on_gpu(kRight), DeviceFault);
}

// A kernel may hang only where it is timed, and holds the device alone there.
TEST(GpuRunner, EveryTimedCallHasALimit) {
  const double trials_s = 0.5;
  const CallLimits limits{.candidate = 2 * trials_s + kBeyondTrials, .reference = kReferenceSeconds};
  EXPECT_EQ(limits.candidate, 3);
  const double none = limits.of(Json::array());
  EXPECT_EQ(limits.of({{"candidate", 0, true}, {"reference", 0, false}, {"candidate", 1, true}}) - none, 26);
  std::string heard;
  const auto begun = Clock::now();
  judge_on_gpu(kRight + kReady + failed("plan", "timing: late"), kLoadedPlan + kNothingWritten, {.heard = &heard});
  const std::string said = R"({"limit_s":)";
  ASSERT_THAT(heard, HasSubstr(said));
  const double limit = std::stod(heard.substr(heard.find(said) + said.size()));
  EXPECT_GE(limit, kBeyondTrials);
  EXPECT_LE(limit, kBeyondTrials + 2 * seconds_since(begun));  // by the trials, not by its whole time
  EXPECT_THAT(heard, HasSubstr(R"(,"profile":5})"));
}

// Its last call is made in what is left of its own time, however long it waited to be timed.
TEST(GpuRunner, WhileItWaitsForTorchCompileItsOwnTimeStands) {
  constexpr double kLimit = 5;
  const auto past_its_limit = [] { std::this_thread::sleep_until(Deadline::after(kLimit).at()); };
  const std::string profile = R"(0 {"kernels":[{"registers":9,"spilled_bytes":0,"shared":0,"warps":1,"occupancy":1}],)"
                              R"("candidate":[0,1.0]})"
                              "\n";
  const Verdict verdict = judge_on_gpu(kRight + kReady + profile + kNothingWritten, "",
                                       {.limit_s = kLimit, .while_compiled = past_its_limit});
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics << verdict.notes.at("mode_reason");
  EXPECT_THAT(verdict.notes.at("torch_compile"), HasSubstr("torch.compile did not end"));
}

// Each configuration is replayed and timed; what follows is of the fastest.
TEST(GpuRunner, TheFastestConfigurationIsTheOneThatIsTimed) {
  const std::string others = kChosen + kRight + kChosen + kChosen + kRight + kChosen;
  const std::string tuning = kChosen + calls(3) + kChosen + calls(1) + kChosen + calls(2) + kChosen;
  const std::string rest =
      R"(0 {"kernels":[null,{"registers":9,"spilled_bytes":0,"shared":0,"warps":2,"occupancy":1},null],)"
      R"("candidate":[0,1.0]})"
      "\n" +
      kNothingWritten;
  const Verdict verdict = judge_on_gpu(kRight + others + kReady + tuning + rest, "", {.tuned = true});
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics << verdict.notes.at("mode_reason");
  EXPECT_EQ(verdict.notes.at("configuration"), "k (B 2)");
  EXPECT_EQ(verdict.own_share, 1.0);
}

TEST(GpuRunner, AWrongConfigurationIsWrongHoweverFast) {
  const Verdict verdict = judge_on_gpu(kRight + kChosen + kWrong + kChosen, "", {.tuned = true});
  EXPECT_FALSE(verdict.correct);
  EXPECT_THAT(verdict.diagnostics, HasSubstr("a configuration that the autotuner may choose, k (B 2): "));
}

}  // namespace
}  // namespace tritonforge::evaluate
