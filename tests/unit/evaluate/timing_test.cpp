#include "evaluate/timing.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "base/rng.h"
#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

TEST(Timing, Summary) {
  const Timing timing = summarise({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(timing.mean, 2.5);
  EXPECT_DOUBLE_EQ(timing.median, 2.5);
  EXPECT_DOUBLE_EQ(timing.min, 1);
  EXPECT_DOUBLE_EQ(timing.max, 4);
  EXPECT_EQ(timing.samples, 4);
  EXPECT_EQ(summarise({}).samples, 0);
}

std::vector<double> samples(double scale, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> out(60);
  for (auto& value : out) value = scale * (1 + 0.05 * rng.uniform());
  return out;
}

TEST(Bootstrap, TheIntervalHoldsTheTrueRatio) {
  const auto interval = bootstrap_ratio(samples(2, 1), samples(1, 2), 3);
  EXPECT_LT(interval.low, 2.0);
  EXPECT_GT(interval.high, 2.0);
  EXPECT_LT(interval.high - interval.low, 0.1);
}

// A problem of one output, 1 2 3 4.
ReferenceData problem() {
  ReferenceData data;
  data.trials.push_back(std::make_unique<ReferenceTrial>());
  ReferenceTrial& trial = *data.trials.back();
  const std::vector<float> output = {1, 2, 3, 4};
  const auto bytes = std::as_bytes(std::span(output));
  trial.payload.assign(bytes.begin(), bytes.end());
  trial.inputs = trial.input_tensors = Json::array();
  trial.outputs = {{Dtype::kFloat32, {4}, {0}, trial.payload}};
  return data;
}

// Answers as a child does; each call takes a microsecond by its clock. `fails_at` its n-th answer to `op` it does what
// `how` says instead.
class FakeProcess : public TimedProcess {
 public:
  FakeProcess(std::string op = "", int fails_at = 0, std::function<Frame()> how = {})
      : op_(std::move(op)), fails_at_(fails_at), how_(std::move(how)) {}
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>&, double limit_s) override {
    const std::string op = request.at("op");
    limits[op].push_back(limit_s);
    if (op == op_ && ++seen_ == fails_at_) return how_();
    Frame frame;
    frame.header = Json::object();
    if (op == "time") {
      frame.header = {{"nonce", request.at("nonce")},
                      {"times", std::vector<double>(request.at("order").size(), milliseconds)}};
    } else if (op == "fetch") {
      frame.header = {{"tensors", {{{"dtype", "float32"}, {"shape", {4}}, {"order", {0}}, {"bytes", 16}}}}};
      const auto bytes = std::as_bytes(std::span(output));
      frame.payload.assign(bytes.begin(), bytes.end());
    } else if (op == "device") {
      frame.header = {{"device", "fake"}, {"uuid", "timing-test"}};
    }
    return frame;
  }
  Frame answer(double) override {
    if (never_answers) throw TimingFault{Fault::kTimeout, "it never did"};
    return {};
  }
  bool never_answers = false;
  double milliseconds = 1e-6;
  std::vector<float> output = {1, 2, 3, 4};
  std::map<std::string, std::vector<double>> limits;  // of the answers to each operation

 private:
  std::string op_;
  int fails_at_, seen_ = 0;
  std::function<Frame()> how_;
};

struct Measured {
  Verdict verdict;
  bool reference_is_fit;
};

Measured measured_by(FakeProcess& reference, FakeProcess& candidate, double call_s = 0,
                     double most_hold_s = kMostHoldSeconds) {
  const ReferenceData data = problem();
  const EvaluatorOptions options;
  Measured result;
  result.verdict.stage = Stage::kCorrect;
  result.verdict.compiled = result.verdict.correct = true;
  result.reference_is_fit = measure({.reference = reference,
                                     .candidate = candidate,
                                     .data = data,
                                     .options = options,
                                     .sandbox_library = "",
                                     .max_samples = 40,
                                     .seed = 7,
                                     .call_s = call_s,
                                     .most_hold_s = most_hold_s},
                                    result.verdict);
  return result;
}
Measured measured(FakeProcess reference, FakeProcess candidate) { return measured_by(reference, candidate, 0.01); }

TEST(Measure, WhatAnswersIsTimed) {
  FakeProcess reference, candidate;
  reference.milliseconds = 2e-6;
  const auto [verdict, fit] = measured(reference, candidate);
  EXPECT_TRUE(fit);
  EXPECT_EQ(verdict.stage, Stage::kTimed);
  EXPECT_TRUE(verdict.correct);
  EXPECT_DOUBLE_EQ(verdict.claimed_speedup, 2);
  EXPECT_EQ(verdict.runtime.samples, 30);  // the interval has no width: the least that is asked for
  EXPECT_EQ(verdict.fault, Fault::kNone);
}

TEST(Measure, WhoeverDiesOrHangsWhileBeingTimedIsNotCorrect) {
  for (const Fault fault : {Fault::kRuntimeError, Fault::kTimeout, Fault::kCrashed, Fault::kOutOfMemory}) {
    for (const auto& [op, nth] : {std::pair{"time", 1}, {"time", 3}, {"pool", 1}, {"run_phase", 1}, {"fetch", 2}}) {
      const auto [verdict, fit] = measured({}, {op, nth, [&]() -> Frame { throw TimingFault{fault, "it failed"}; }});
      EXPECT_TRUE(fit);
      EXPECT_FALSE(verdict.correct) << op << nth;
      EXPECT_EQ(verdict.stage, Stage::kLaunched);
      EXPECT_EQ(verdict.fault, fault);
      EXPECT_EQ(verdict.speedup, 0);
      EXPECT_FALSE(verdict.cheated());
      EXPECT_NE(verdict.diagnostics.find("it failed"), std::string::npos);
    }
  }
}

// Through the same words as elsewhere; a line of its source is none of them.
TEST(Measure, AProcessThatSaysThatMemoryRanOutIsToldSo) {
  const auto told = [](const std::string& text) {
    const ReferenceData data = written_reference();
    WrittenChildren children(
        fmt::format("0 {}\n", Json{{"failed", {{"kind", "runtime_error"}, {"text", text}}}}.dump()), data);
    const auto child = children.spawn("candidate", {}, Deadline::after(60));
    try {
      TimedChild(*child).ask({{"op", "time"}}, {}, 60);
    } catch (const TimingFault& fault) {
      return fault.fault;
    }
    return Fault::kNone;
  };
  EXPECT_EQ(told("OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 GiB."), Fault::kOutOfMemory);
  EXPECT_EQ(told("RuntimeError: Triton Error [CUDA]: out of memory\n  line 3, in forward: ..."), Fault::kOutOfMemory);
  EXPECT_EQ(told("RuntimeError: no\n  line 3, in forward: x = f()  # out of memory"), Fault::kRuntimeError);
}

TEST(Measure, AnAnswerIsNoLargerThanWhatIsFetched) {
  const ReferenceData data = written_reference();
  WrittenChildren children("101 {}\n=\n100 {}\n", data);
  const auto large = children.spawn("candidate", {}, Deadline::after(60));
  EXPECT_THROW(TimedChild(*large, 100).ask({{"op", "fetch"}}, {}, 60), TimingFault);
  const auto fits = children.spawn("candidate", {}, Deadline::after(60));
  EXPECT_EQ(TimedChild(*fits, 100).ask({{"op", "fetch"}}, {}, 60).payload.size(), 100u);
}

TEST(Measure, AnAnswerThatIsNoneIsAForgery) {
  const auto nothing = [] { return Frame{Json::object(), {}}; };
  const auto list = [] { return Frame{Json::array({1}), {}}; };
  const auto garbage = [] { return Frame{{{"tensors", {{{"dtype", "float33"}}}}}, {}}; };
  for (const auto& candidate : {FakeProcess("time", 2, nothing), FakeProcess("time", 3, list),
                                FakeProcess("fetch", 1, nothing), FakeProcess("fetch", 1, garbage)}) {
    const auto [verdict, fit] = measured({}, candidate);
    EXPECT_TRUE(fit);
    EXPECT_FALSE(verdict.correct);
    EXPECT_EQ(verdict.stage, Stage::kLaunched);
    EXPECT_TRUE(verdict.cheated());
  }
}

TEST(Measure, AReferenceThatCannotBeTimedIsOurFaultAndNobodysSpeed) {
  for (const auto& [op, nth] : {std::pair{"time", 1}, {"time", 2}, {"pool", 1}, {"device", 1}}) {
    const auto [verdict, fit] = measured({op, nth, []() -> Frame { throw TimingFault{Fault::kCrashed, "it died"}; }},
                                         {});
    EXPECT_FALSE(fit);
    EXPECT_EQ(verdict.fault, Fault::kProblemError) << op << nth;
    EXPECT_EQ(verdict.stage, Stage::kCorrect);
    EXPECT_TRUE(verdict.correct);
    EXPECT_EQ(verdict.speedup, 0);
  }
}

Frame hang() { throw TimingFault{Fault::kTimeout, "it did not finish"}; }

TEST(Measure, WhileTheDeviceIsHeldACandidateHasTwiceWhatItsTrialsTook) {
  FakeProcess reference, candidate;
  measured_by(reference, candidate, 0.01);
  for (const double limit : candidate.limits.at("time")) EXPECT_LE(limit, 2 * 10 * 0.01 + 2);
  for (const double limit : candidate.limits.at("fetch")) EXPECT_LE(limit, 2);
  for (const double limit : reference.limits.at("time")) EXPECT_LE(limit, kMostHoldSeconds);
  EXPECT_EQ(candidate.limits.at("pool").front(), 120);  // the device is nobody's yet
  FakeProcess hangs("time", 2, hang);
  const auto [verdict, fit] = measured_by(reference, hangs, 0.01);
  EXPECT_TRUE(fit);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.fault, Fault::kTimeout);
}

TEST(Measure, WhoIsTooSlowForTheHoldIsNotTimedAndStaysCorrect) {
  for (const bool candidate_hangs : {true, false}) {
    FakeProcess hangs("time", 2, hang), other;
    const auto [verdict, fit] = candidate_hangs ? measured_by(other, hangs, 5, 3) : measured_by(hangs, other, 5, 3);
    EXPECT_EQ(fit, candidate_hangs);  // the reference that did not answer is not asked again
    EXPECT_TRUE(verdict.correct);
    EXPECT_EQ(verdict.stage, Stage::kCorrect);
    EXPECT_EQ(verdict.fault, Fault::kNone);
    EXPECT_EQ(verdict.claimed_speedup, 0);
    EXPECT_NE(verdict.notes.at("timing").find("3 s that a measurement has the device"), std::string::npos);
  }
}

TEST(Measure, WhoNeverAnswersIsNoMereSlowness) {
  FakeProcess reference, hangs("time", 2, hang);
  hangs.never_answers = true;
  const auto [verdict, fit] = measured_by(reference, hangs, 5, 3);
  EXPECT_TRUE(fit);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.fault, Fault::kTimeout);
}

TEST(Measure, AWrongOutputOfATimedCallTakesTheVerdictBack) {
  FakeProcess candidate;
  candidate.output[2] = 0;
  const auto [verdict, fit] = measured({}, candidate);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.stage, Stage::kLaunched);
  ASSERT_TRUE(verdict.cheated());
  EXPECT_EQ(verdict.flags[0].kind, Cheat::kTimedOutputWrong);
}

TEST(Measure, MoreTimeThanPassedIsAFalseClock) {
  FakeProcess candidate;
  candidate.milliseconds = 1e9;
  const auto [verdict, fit] = measured({}, candidate);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.flags.at(0).kind, Cheat::kClockMismatch);
}

TEST(Bootstrap, TheSameAgainstItselfIsNotFaster) {
  const auto interval = bootstrap_ratio(samples(1, 4), samples(1, 5), 6);
  EXPECT_LE(interval.low, 1.0 + 0.01);
  EXPECT_EQ(bootstrap_ratio({}, {1.0}, 1).low, 0);
}

}  // namespace
}  // namespace tritonforge::evaluate
