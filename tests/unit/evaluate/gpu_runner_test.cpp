// Plan mode on a GPU over conversations that were written down: what becomes of a plan whose trials passed.
#include "evaluate/plan/gpu_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "evaluate/pairs.h"
#include "unit/evaluate/written_gpu.h"

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  const std::string tuning = kChosen + ten_calls(3) + kChosen + ten_calls(1) + kChosen + ten_calls(2) + kChosen;
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

TEST(GpuRunner, WhatIsDrawnBesideItIsTimedOnThat) {
  const GpuSetting setting{.pairs = 1, .bytes_per_s = 1e12, .drawn = true};
  const std::string timed = kDrawnRight + kDrawnReady + profiled(1, "0,1") + one_pair(2, 4, 0) + kNothingWritten;
  const Verdict verdict = judge_on_gpu(timed, "", setting);
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics << verdict.notes.at("mode_reason");
  EXPECT_EQ(verdict.speedup, 2);
}

// Kernels are left out one at a time: of the first one's absence the output tells.
TEST(GpuRunner, AKernelWithoutEffectDoesNoWork) {
  const GpuSetting setting{.recorded = recorded_with_others(1), .reference_work = 1e6};
  const std::string timed = kRight + kReady + profiled(2, "0,1,0,1,8");
  const Verdict needed = judge_on_gpu(timed + kWrong + kWrong + kNothingWritten, "", setting);
  EXPECT_TRUE(needed.correct) << needed.diagnostics << needed.notes.at("mode_reason");
  EXPECT_FALSE(needed.notes.contains("idle_kernels"));
  EXPECT_NEAR(needed.own_share.value(), 0.9, 1e-3);
  const Verdict idle = judge_on_gpu(timed + kWrong + kRight + kNothingWritten, "", setting);
  EXPECT_TRUE(idle.correct) << idle.diagnostics << idle.notes.at("mode_reason");
  EXPECT_EQ(idle.notes.at("idle_kernels"), "other1");
  EXPECT_NEAR(idle.own_share.value(), 0.5, 1e-3);
  EXPECT_FALSE(idle.notes.contains("idle_kernels_not_tried"));
}

TEST(GpuRunner, KernelsThatAreNotLeftOutAreTold) {
  std::string ms = "0,1,0,1";
  for (int k = 0; k < 16; ++k) ms += ",1";
  const Verdict many = judge_on_gpu(kRight + kReady + profiled(17, ms) + kNothingWritten, "",
                                    {.recorded = recorded_with_others(16), .reference_work = 1e6});
  EXPECT_TRUE(many.correct) << many.diagnostics << many.notes.at("mode_reason");
  EXPECT_EQ(many.notes.at("idle_kernels_not_tried"), "17 kernels, of more than 16 none is left out");
  const std::string faults = failed("fault", "kernel other1: an illegal memory access");
  const Verdict fails = judge_on_gpu(kRight + kReady + profiled(2, "0,1,0,1,8") + faults + kNothingWritten, "",
                                     {.recorded = recorded_with_others(1), .reference_work = 1e6});
  EXPECT_TRUE(fails.correct) << fails.diagnostics << fails.notes.at("mode_reason");
  EXPECT_EQ(fails.notes.at("idle_kernels_not_tried"), "those after k, without which it fails");
}

// 80 bytes are read at one byte a second.
TEST(GpuRunner, WhatIsFasterThanPhysicsIsDoubtedAndEarnsNoSpeedup) {
  const GpuSetting setting{.pairs = 1, .against_itself = true};
  const std::string timed = kRight + kReady + profiled(1, "0,1") + one_pair(1, 1, 0) + kNothingWritten;
  const Verdict verdict = judge_on_gpu(timed, "", setting);
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics << verdict.notes.at("mode_reason");
  ASSERT_EQ(verdict.flags.size(), 1u);
  EXPECT_EQ(verdict.flags[0].kind, Cheat::kExcessiveSpeedup);
  EXPECT_THAT(verdict.flags[0].evidence, HasSubstr("1 ms, and what the problem reads, writes and multiplies takes"));
  EXPECT_EQ(verdict.runtime.median, 1);
  EXPECT_EQ(verdict.speedup, 0);
  GpuSetting possible = setting;
  possible.bytes_per_s = 1e12;
  const Verdict fast = judge_on_gpu(timed, "", possible);
  EXPECT_TRUE(fast.flags.empty());
  EXPECT_EQ(fast.speedup, 1);
}

std::string timed_on(const std::string& before, double candidate_ms, double eager_ms, uint64_t seed) {
  return before + kReady + profiled(1, "0,1") + one_pair(candidate_ms, eager_ms, seed);
}
const GpuSetting kTimedOnce{.pairs = 1, .bytes_per_s = 1e12};

TEST(GpuRunner, ASpeedupBeyondTenIsMeasuredAgainAndDoubted) {
  const uint64_t other = Rng::derive(0, "again");
  const Verdict verdict = judge_on_gpu(timed_on(kRight, 1, 20, 0),
                                       timed_on(kLoadedPlan, 1, 15, other) + kNothingWritten, kTimedOnce);
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics << verdict.notes.at("mode_reason");
  ASSERT_EQ(verdict.flags.size(), 1u);
  EXPECT_EQ(verdict.flags[0].kind, Cheat::kExcessiveSpeedup);
  EXPECT_EQ(verdict.flags[0].evidence, "20.0x eager, and 15.0x by another process");
  EXPECT_EQ(verdict.eager_speedup, 15);
  const Verdict usual = judge_on_gpu(timed_on(kRight, 2, 20, 0) + kNothingWritten, "", kTimedOnce);
  EXPECT_TRUE(usual.correct) << usual.diagnostics << usual.notes.at("mode_reason");
  EXPECT_EQ(usual.speedup, kBeyondEager);
  EXPECT_TRUE(usual.flags.empty());
}

TEST(GpuRunner, OfTwoMeasurementsTheLessCounts) {
  const uint64_t other = Rng::derive(0, "again");
  const Verdict less = judge_on_gpu(timed_on(kRight, 1, 20, 0), timed_on(kLoadedPlan, 2, 6, other) + kNothingWritten,
                                    kTimedOnce);
  EXPECT_EQ(less.speedup, 3) << less.diagnostics << less.notes.at("mode_reason");
  EXPECT_EQ(less.runtime.median, 2);
  EXPECT_TRUE(less.flags.empty());
  EXPECT_EQ(less.notes.at("measured_again"), "20.0x eager, and 3.0x by another process");
  const Verdict first = judge_on_gpu(timed_on(kRight, 1, 20, 0), timed_on(kLoadedPlan, 1, 30, other) + kNothingWritten,
                                     kTimedOnce);
  EXPECT_EQ(first.speedup, 20) << first.diagnostics << first.notes.at("mode_reason");
}

TEST(GpuRunner, WhatFailsWhenItIsMeasuredAgainIsTheCandidates) {
  const Verdict verdict = judge_on_gpu(timed_on(kRight, 1, 20, 0),
                                       kLoadedPlan + kReady + failed("fault", "kernel k: an illegal memory access"),
                                       kTimedOnce);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.fault, Fault::kRuntimeError);
  EXPECT_EQ(verdict.speedup, 0);
}

TEST(GpuRunner, AClockThatIsHeldDownIsTold) {
  GpuSetting setting = kTimedOnce;
  setting.states = {{.clock_mhz = 1980, .throttled = ""}, {.clock_mhz = 1650, .throttled = "power cap"}};
  const std::string timed = timed_on(kRight, 2, 4, 0) + kNothingWritten;
  const Verdict held = judge_on_gpu(timed, "", setting);
  EXPECT_EQ(held.notes.at("throttled"), "1980 MHz before the pairs, 1650 MHz (power cap) after") << held.diagnostics;
  EXPECT_EQ(held.profile->throttled, "power cap");
  EXPECT_THAT(describe(*held.profile), HasSubstr("held its clock down when it was timed (power cap): 1650 MHz"));
  setting.states[1].throttled = "";
  const Verdict free = judge_on_gpu(timed, "", setting);
  EXPECT_FALSE(free.notes.contains("throttled"));
  EXPECT_EQ(free.profile->clock_mhz, 1650);
  EXPECT_THAT(describe(*free.profile), Not(HasSubstr("clock")));
}

TEST(GpuRunner, ATrialWhoseAnswerLacksAFieldIsNone) {
  const Verdict verdict = judge_on_gpu("160 {\"findings\":[],\"own\":[0,0]," + kWrittenTensors + "}\n");
  EXPECT_FALSE(verdict.correct);
  EXPECT_THAT(verdict.notes.at("mode_reason"), HasSubstr("lacks a field"));
}

// The first process P says what the device is: without that no evaluator begins.
TEST(GpuRunner, AReplayerThatDoesNotSayWhatTheDeviceIsIsNone) {
  for (const char* said : {"0 {\"device\":{\"name\":\"written\"}}\n", "0 {\"failed\":1}\n", "0 {}\n", "0 [1]\n"}) {
    try {
      judge_written_on_gpu(said, {});
      ADD_FAILURE() << said;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMachine) << said;
    }
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
