#include "evaluate/judgement.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

class JudgementTest : public testing::Test {
 protected:
  static Judgement begin(EvaluationMode mode, const ReferenceData& reference) {
    Verdict begun;
    begun.mode = mode;
    return {reference, 0.1, begun};
  }
  Judgement begin(EvaluationMode mode) const { return begin(mode, reference_); }
  // A call that gives `offset` more than its input; the reference gives 1 more.
  Call call(float offset) const {
    const TensorView input = reference_.trials[0]->after[0];
    Call made;
    made.frame.payload.assign(input.bytes.begin(), input.bytes.end());
    auto* values = reinterpret_cast<float*>(made.frame.payload.data());
    for (int i = 0; i < 20; ++i) values[i] += offset;
    TensorView output = input;
    output.bytes = made.frame.payload;
    made.result = CallResult{.outputs = {{"tensor", 0}},
                             .tensors = {input, output},
                             .inputs = 1,
                             .aliases = {-1},
                             .repeats = {},
                             .by_row = {},
                             .shared = {}};
    return made;
  }
  Call replayed(float offset) const {
    Call made = call(offset);
    made.own = Work{.computing = 100};
    return made;
  }
  Call reported(float offset, Report report) const {
    Call made = call(offset);
    made.compiled = {{"sm_90", ""}};
    made.report = std::move(report);
    return made;
  }
  static Loaded recorded(size_t launches = 1, double aten = 0) {
    Loaded loaded{.stage = Stage::kImported};
    loaded.compiled = {{"sm_90", ""}};
    loaded.recorded = Loaded::Recorded{.launches = launches, .steps = 2, .kernels = {"k"}, .aten = {.computing = aten}};
    return loaded;
  }
  static Measured measured(double own) {
    Measured made{.own = {.computing = own}};
    made.times = Measured::Times{.runtime = {.median = 1},
                                 .ref_runtime = {.median = 3},
                                 .speedup = 2.9,
                                 .low = 2.9,
                                 .high = 3.1,
                                 .eager = {.median = 3, .samples = 10},
                                 .torch_compile = {.median = 3.5, .samples = 20},
                                 .eager_speedup = 2.95,
                                 .torch_compile_speedup = 3.4,
                                 .profile = {.floor_ms = 0.5}};
    return made;
  }
  static Loaded imported() { return {.stage = Stage::kImported}; }
  // Of a plan with right outputs, which are shown as `show` says.
  bool is_lazy(const ReferenceData& reference, const std::function<void(CallResult&)>& show) const {
    Judgement judgement = begin(EvaluationMode::kPlan, reference);
    judgement.take(recorded());
    Call shown = replayed(1);
    show(*shown.result);
    return !judgement.take(shown, 0) && judgement.verdict().flags.at(0).kind == Cheat::kLazyOutput;
  }

  const ReferenceData reference_ = written_reference();
};

TEST_F(JudgementTest, AnOutputThatRepeatsMemoryIsNoneThatWasWritten) {
  EXPECT_TRUE(is_lazy(reference_, [](CallResult& shown) { shown.repeats = {true}; }));
}

TEST_F(JudgementTest, AnOutputInAnothersMemoryIsNoneThatWasWrittenUnlessTheReferencesIsToo) {
  for (const bool as_the_reference : {false, true}) {
    ReferenceData reference = written_reference();
    reference.trials[0]->shared = {as_the_reference};
    EXPECT_NE(is_lazy(reference, [](CallResult& shown) { shown.shared = {0}; }), as_the_reference);
  }
}

TEST_F(JudgementTest, OrderIsTheWorkOfAReferenceThatDoesNothingElse) {
  const auto flagged = [&](double computing, bool reference_by_row, bool by_row) {
    ReferenceData reference = written_reference();
    reference.work->work = {.computing = computing, .moving = 100};
    reference.trials[0]->by_row = {reference_by_row};
    return is_lazy(reference, [&](CallResult& shown) { shown.by_row = {by_row}; });
  };
  EXPECT_TRUE(flagged(0, true, false));
  EXPECT_FALSE(flagged(0, true, true));
  EXPECT_FALSE(flagged(0, false, false));
  EXPECT_FALSE(flagged(100, true, false));
}

// The reference makes `written` more of its input; the candidate leaves `left` more of it.
class WrittenInput : public JudgementTest {
 protected:
  Verdict judged(float written, float left, std::optional<bool> whole = std::nullopt) const {
    ReferenceData reference = written_reference();
    ReferenceTrial& trial = *reference.trials[0];
    auto* after = reinterpret_cast<float*>(trial.payload.data()) + 20;
    for (int i = 0; i < 20; ++i) after[i] += written;
    Verdict begun;
    begun.mode = EvaluationMode::kPlan;
    Judgement judgement(reference, 0.1, begun);
    judgement.take(recorded());
    Call made = replayed(1);
    std::vector<float> values(20);
    for (int i = 0; i < 20; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i) + left;
    made.result->tensors[0].bytes = std::as_bytes(std::span(values));
    if (whole) {
      made.whole = WholeCall{
          .inputs = {{.same = false, .compared = {.passed = *whole, .mismatch = "beyond the samples"}}},
          .outputs = {{.passed = true}}};
    }
    judgement.take(made, 0);
    return judgement.verdict();
  }
};

TEST_F(WrittenInput, IsAResultLikeAnOutput) {
  EXPECT_EQ(judged(1, 1.00001F).fault, Fault::kNone);
  EXPECT_FALSE(judged(1, 1.00001F).cheated());
  EXPECT_EQ(judged(1, 1.1F).fault, Fault::kMismatch);
  EXPECT_TRUE(judged(1, 1.1F).trials[0].mismatch.starts_with("input 0, after the call, at ["))
      << judged(1, 1.1F).trials[0].mismatch;
  EXPECT_FALSE(judged(1, 1.1F).cheated());
}

TEST_F(WrittenInput, LeftAsItWasOrChangedForNothingIsACheat) {
  EXPECT_EQ(judged(1, 0).flags.at(0).kind, Cheat::kInputMutated);
  EXPECT_EQ(judged(0, 0.00001F).flags.at(0).kind, Cheat::kInputMutated);
  EXPECT_FALSE(judged(0, 0).cheated());
}

TEST_F(WrittenInput, OfADrawnTrialAllElementsCount) {
  EXPECT_EQ(judged(1, 1.00001F, true).fault, Fault::kNone);
  EXPECT_EQ(judged(1, 1.00001F, false).fault, Fault::kMismatch);
  EXPECT_EQ(judged(0, 0, false).flags.at(0).kind, Cheat::kInputMutated);
}

TEST_F(JudgementTest, WhatAGpuMeasuredIsTheVerdictsTime) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded(1, 10)));
  EXPECT_TRUE(judgement.take(call(1), 0));  // its work is measured by time, later
  EXPECT_TRUE(judgement.take(measured(90)));
  EXPECT_TRUE(judgement.take_without_launches(call(0)));
  judgement.accept();
  EXPECT_EQ(judgement.verdict().stage, Stage::kTimed);
  EXPECT_EQ(judgement.verdict().speedup, 2.9);
  EXPECT_EQ(judgement.verdict().eager_speedup, 2.95);
  EXPECT_EQ(judgement.verdict().eager_runtime.samples, 10);
  EXPECT_EQ(judgement.verdict().torch_compile_speedup, 3.4);
  EXPECT_EQ(judgement.verdict().torch_compile_runtime.samples, 20);
  EXPECT_EQ(judgement.verdict().own_share, 0.9);
  EXPECT_EQ(judgement.verdict().profile->floor_ms, 0.5);
}

TEST_F(JudgementTest, AWrongTimedOutputAndALittleShareAreCheats) {
  Judgement wrong = begin(EvaluationMode::kPlan);
  wrong.take(recorded());
  wrong.take(call(1), 0);
  Measured made = measured(100);
  made.flags = {{Cheat::kTimedOutputWrong, "an output"}};
  EXPECT_FALSE(wrong.take(made));
  EXPECT_EQ(wrong.verdict().stage, Stage::kLaunched);
  EXPECT_EQ(wrong.verdict().speedup, 0);
  Judgement little = begin(EvaluationMode::kPlan);
  little.take(recorded(1, 100));
  little.take(call(1), 0);
  EXPECT_FALSE(little.take(measured(1)));
  EXPECT_TRUE(little.verdict().cheated());
}

TEST_F(JudgementTest, RightOutputsOfAPlanAreCorrectAndNothingOfItIsAClaim) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  EXPECT_TRUE(judgement.take(replayed(1), 0));
  EXPECT_TRUE(judgement.take_without_launches(call(0)));
  judgement.accept();
  EXPECT_TRUE(judgement.verdict().correct);
  EXPECT_EQ(judgement.verdict().own_share, 1.0);
  EXPECT_TRUE(judgement.verdict().claimed.empty());
}

TEST_F(JudgementTest, AWrongOutputEndsIt) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  EXPECT_FALSE(judgement.take(replayed(1.5), 0));
  EXPECT_EQ(judgement.verdict().fault, Fault::kMismatch);
}

TEST_F(JudgementTest, AnotherStructureIsSaidInWords) {
  const auto told = [&](const Json& outputs) {
    Judgement judgement = begin(EvaluationMode::kPlan);
    judgement.take(recorded());
    Call made = replayed(1);
    made.result->outputs = outputs;
    judgement.take(made, 0);
    return judgement.verdict().diagnostics;
  };
  const Json tensor = {{"tensor", 0}}, none = {{"v", nullptr}}, half = {{"float", "0.5"}};
  EXPECT_EQ(told({{"tuple", {tensor, {{"v", 16}}}}}),
            "trial 0: forward returned a tuple (a tensor, 16), where Model returns a tensor");
  EXPECT_EQ(told({{"list", {half}}}), "trial 0: forward returned a list [0.5], where Model returns a tensor");
  EXPECT_EQ(told({{"dict", {{{{"v", "y"}}, tensor}}}}),
            "trial 0: forward returned a dict {\"y\": a tensor}, where Model returns a tensor");
  EXPECT_EQ(told(none), "trial 0: forward returned None, where Model returns a tensor");
  EXPECT_NE(told({{"float", 3}, {"tuple", 4}}).find("forward returned {"), std::string::npos);  // a forgery
}

TEST_F(JudgementTest, OfNanItIsSaidWhereElseItComesFrom) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  judgement.take(recorded());
  judgement.take(replayed(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_NE(judgement.verdict().diagnostics.find("memory that no kernel wrote to is nan"), std::string::npos);
}

TEST_F(JudgementTest, AMismatchThatTf32MayHaveMadeSaysHowToKeepFloat32) {
  const auto told = [&](std::vector<std::string> in_tf32, float offset) {
    Judgement judgement = begin(EvaluationMode::kPlan);
    Loaded loaded = recorded();
    loaded.recorded->in_tf32 = std::move(in_tf32);
    judgement.take(loaded);
    judgement.take(replayed(offset), 0);
    return judgement.verdict().diagnostics.find("tl.dot in k cuts its float32 operands") != std::string::npos;
  };
  EXPECT_TRUE(told({"k"}, 1.01F));
  EXPECT_FALSE(told({"k"}, 5));  // far more than that
  EXPECT_FALSE(told({"k"}, 1));
  EXPECT_FALSE(told({}, 1.01F));
}

TEST_F(JudgementTest, WorkThatIsLeftToTorchEndsItAndItIsSaidWhichThatIs) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  Loaded loaded = recorded(1, 5000);
  loaded.recorded->heaviest = "linear";
  EXPECT_TRUE(judgement.take(loaded));
  EXPECT_FALSE(judgement.take(replayed(1), 0));
  EXPECT_TRUE(judgement.verdict().cheated());
  EXPECT_NE(judgement.verdict().diagnostics.find("torch the rest, most of it in linear;"), std::string::npos);
  EXPECT_LT(*judgement.verdict().own_share, 0.1);
}

TEST_F(JudgementTest, TimesThatAreClaimedGiveNoSpeedup) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  EXPECT_TRUE(judgement.take(replayed(1), 0));
  Measured measured{.own = {.computing = 100}};
  measured.claimed = Measured::Claimed{.runtime = {.median = 1}, .ref_runtime = {.median = 3}, .low = 2.9, .high = 3.1};
  EXPECT_TRUE(judgement.take(measured));
  judgement.accept();
  const Verdict& verdict = judgement.verdict();
  EXPECT_EQ(verdict.speedup, 0);
  EXPECT_EQ(verdict.claimed_speedup, 2.9);
  EXPECT_EQ(verdict.stage, Stage::kCorrect);
  EXPECT_EQ(verdict.claimed.size(), 5u);
}

TEST_F(JudgementTest, WhoeverEndsWhileBeingTimedIsNotCorrect) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  EXPECT_TRUE(judgement.take(replayed(1), 0));
  EXPECT_FALSE(judgement.take(Measured{.ended = Ended{.fault = Fault::kCrashed, .text = "it died"}}));
  EXPECT_EQ(judgement.verdict().fault, Fault::kCrashed);
  EXPECT_FALSE(judgement.verdict().correct);
}

TEST_F(JudgementTest, WhatNoDeviceHereRunsIsCompiledAndNotCorrect) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  Loaded loaded = recorded();
  loaded.compiled = {{"sm_90", "", "k: 12 registers"}};
  loaded.recorded->not_run = "compiled for sm_90, not run here";
  EXPECT_FALSE(judgement.take(loaded));
  const Verdict& verdict = judgement.verdict();
  EXPECT_TRUE(verdict.compiled);
  EXPECT_FALSE(verdict.correct || verdict.cheated());
  EXPECT_EQ(verdict.stage, Stage::kCompiled);
  EXPECT_EQ(verdict.fault, Fault::kNotRun);
  EXPECT_EQ(verdict.diagnostics, "compiled for sm_90, not run here");
  EXPECT_EQ(verdict.notes.at("resources.sm_90"), "k: 12 registers");
  EXPECT_FALSE(verdict.own_share);
}

TEST_F(JudgementTest, WhatIsNotRunMayLeaveTooMuchToTorchAllTheSame) {
  ReferenceData reference = written_reference();
  reference.work = ReferenceWork{.work = {.computing = 100}, .calls = {}, .products = {}};
  Judgement judgement(reference, 0.1, {});
  Loaded loaded = recorded(1, 99);
  loaded.recorded->not_run = "compiled for sm_90, not run here";
  judgement.take(loaded);
  EXPECT_EQ(judgement.verdict().flags.size(), 1u);
  EXPECT_EQ(judgement.verdict().flags.front().kind, Cheat::kTorchDoesTheWork);
}

TEST_F(JudgementTest, ARaceEndsIt) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  Call racing = replayed(1);
  racing.findings = {{"race", "programs 0 and 1 write to y[0]"}};
  EXPECT_FALSE(judgement.take(racing, 0));
  EXPECT_EQ(judgement.verdict().diagnostics, "race: programs 0 and 1 write to y[0]");
}

TEST_F(JudgementTest, AnotherConfigurationIsJudgedAsTheFirst) {
  const auto begun = [&] {
    Judgement judgement = begin(EvaluationMode::kPlan);
    EXPECT_TRUE(judgement.take(recorded()));
    EXPECT_TRUE(judgement.take(replayed(1), 0));
    return judgement;
  };
  Judgement right = begun();
  EXPECT_TRUE(right.take(ConfigurationCall{"k (B 16)", 0, replayed(1)}));
  EXPECT_TRUE(right.take(ConfigurationCall{"k (B 8)", 0, std::nullopt}));
  right.accept();
  EXPECT_EQ(right.verdict().trials.size(), 1u);
  EXPECT_EQ(right.verdict().notes.at("autotune"), "k (B 8) was not run");

  Judgement wrong = begun();
  EXPECT_FALSE(wrong.take(ConfigurationCall{"k (B 16)", 0, replayed(2)}));
  EXPECT_EQ(wrong.verdict().fault, Fault::kMismatch);
  ASSERT_EQ(wrong.verdict().trials.size(), 1u);
  EXPECT_FALSE(wrong.verdict().trials[0].passed);
  EXPECT_TRUE(
      wrong.verdict().diagnostics.starts_with("with a configuration that the autotuner may choose, k (B 16): "));

  Judgement racing = begun();
  Call race = replayed(1);
  race.findings = {{"race", "programs 0 and 1"}};
  EXPECT_FALSE(racing.take(ConfigurationCall{"k (B 16)", 0, race}));
  EXPECT_EQ(racing.verdict().fault, Fault::kRuntimeError);
  EXPECT_TRUE(racing.verdict().trials[0].passed);

  // What torch does in a configuration's own steps is weighed with it.
  Judgement lazy = begun();
  Call torch = replayed(1);
  torch.aten = Work{.computing = 1e6};
  EXPECT_FALSE(lazy.take(ConfigurationCall{"k (B 16)", 0, torch}));
  EXPECT_TRUE(lazy.verdict().cheated());
}

TEST_F(JudgementTest, TheSameOutputWithoutLaunchesIsACheat) {
  Judgement judgement = begin(EvaluationMode::kPlan);
  EXPECT_TRUE(judgement.take(recorded()));
  EXPECT_TRUE(judgement.take(replayed(1), 0));
  EXPECT_FALSE(judgement.take_without_launches(call(1)));
  EXPECT_THROW(judgement.accept(), std::exception);
}

TEST_F(JudgementTest, AKernelThatDoesNotCompileAtTheProblemsOwnSizeEndsIt) {
  for (const FullSize& full : {FullSize{.where = "at its size", .failed = {"kernel k: too large"}},
                               FullSize{.where = "at its size", .compiled = {{"sm_90", "kernel k: too large"}}}}) {
    Judgement judgement = begin(EvaluationMode::kPlan);
    EXPECT_TRUE(judgement.take(recorded()));
    EXPECT_TRUE(judgement.take(replayed(1), 0));
    EXPECT_FALSE(judgement.take(full));
    EXPECT_EQ(judgement.verdict().fault, Fault::kCompileError);
    EXPECT_TRUE(judgement.verdict().diagnostics.starts_with("at its size")) << judgement.verdict().diagnostics;
  }
}

TEST_F(JudgementTest, WithoutALaunchAtTheProblemsOwnSizeItIsACheat) {
  const auto judged = [&](const FullSize& full) {
    Judgement judgement = begin(EvaluationMode::kPlan);
    EXPECT_TRUE(judgement.take(recorded()));
    EXPECT_TRUE(judgement.take(replayed(1), 0));
    const bool goes_on = judgement.take(full);
    EXPECT_NE(goes_on, judgement.verdict().cheated());
    return judgement.verdict().cheated();
  };
  EXPECT_TRUE(judged({.where = "at its size"}));
  EXPECT_FALSE(judged({.where = "at its size", .compiled = {{"sm_90", ""}}, .launches = 1}));
  EXPECT_FALSE(judged({.where = "at its size", .note = "not compiled: a number of the inputs is asked for"}));
}

TEST_F(JudgementTest, WhatItDoesOtherwiseAtTheProblemsOwnSizeEndsIt) {
  const auto judged = [&](FullSize full) {
    full.where = "at its size";
    full.launches = 1;
    Judgement judgement = begin(EvaluationMode::kPlan);
    EXPECT_TRUE(judgement.take(recorded()));
    EXPECT_TRUE(judgement.take(replayed(1), 0));
    EXPECT_FALSE(judgement.take(full));
    EXPECT_FALSE(judgement.verdict().correct);
    EXPECT_THROW(judgement.accept(), std::exception);
    return judgement.verdict();
  };
  const Verdict other = judged({.mismatch = "output 0 has shape [1]"});
  EXPECT_EQ(other.fault, Fault::kMismatch);
  EXPECT_EQ(other.diagnostics, "at its size: output 0 has shape [1]");
  const Verdict wrapper = judged({.more_by_torch = {"aten::relu"}});
  ASSERT_EQ(wrapper.flags.size(), 1u);
  EXPECT_EQ(wrapper.flags[0].kind, Cheat::kTorchDoesTheWork);
  EXPECT_NE(wrapper.flags[0].evidence.find("aten::relu"), std::string::npos);
}

// Whatever the candidate's process claims beside its outputs: the best that it can say is that it launched kernels and
// that nothing is amiss, and all else ends the judgement. Of wrong outputs no claim makes right ones.
TEST_F(JudgementTest, AClaimMayOnlyLower) {
  const Report best{.launched = true, .kernels = {"k"}};
  for (const Report& worse :
       {Report{.launched = false}, Report{.launched = true, .swallowed = {"out of memory"}},
        Report{.launched = true, .tampered = {"torch.empty"}}, Report{.launched = true, .subclass = "Lazy"}}) {
    Judgement judgement = begin(EvaluationMode::kInterpret);
    EXPECT_TRUE(judgement.take(imported()));
    EXPECT_FALSE(judgement.take(reported(1, worse), 0));
    EXPECT_TRUE(judgement.verdict().cheated());
  }
  for (const float offset : {1.0f, 2.0f}) {
    Judgement judgement = begin(EvaluationMode::kInterpret);
    EXPECT_TRUE(judgement.take(imported()));
    EXPECT_EQ(judgement.take(reported(offset, best), 0), offset == 1.0f);
    EXPECT_FALSE(judgement.verdict().claimed.empty());
  }
}

TEST_F(JudgementTest, LaunchesThatAreClaimedAndHandedOverToNobodyAreNone) {
  Judgement judgement = begin(EvaluationMode::kInterpret);
  EXPECT_TRUE(judgement.take(imported()));
  Call made = reported(1, {.launched = true, .kernels = {"k"}});
  made.compiled.clear();
  EXPECT_FALSE(judgement.take(made, 0));
  EXPECT_FALSE(judgement.verdict().compiled);
  ASSERT_EQ(judgement.verdict().flags.size(), 1u);
  EXPECT_EQ(judgement.verdict().flags[0].kind, Cheat::kNoKernelLaunched);
}

class SlowParent : public WrittenChildren {
 public:
  using WrittenChildren::WrittenChildren;
  static constexpr double kTakes = 2;
  std::unique_ptr<Child> spawn(const std::string& role, const ChildLimits& limits, Deadline deadline) override {
    const Deadline until = Deadline::after(kTakes);
    while (role == "record" && !until.expired()) std::this_thread::yield();
    return WrittenChildren::spawn(role, limits, deadline);
  }
};

// One that was killed is started again meanwhile: a soak once had 'timeout' for what no candidate took.
TEST(WrittenConversation, WhatThePythonParentTakesToStartItIsNotTheCandidatesTime) {
  const ReferenceData reference = written_reference();
  SlowParent children(honest_plan(), reference);
  LoweringPool lowering(children);
  CpuDevice device(children, {});
  const EvaluatorOptions options;
  const EvaluationRequest request;
  RunContext context = written_context(children, lowering, options, request, reference, device);
  context.limit_s = SlowParent::kTakes / 2;
  Verdict verdict;
  verdict.mode = EvaluationMode::kPlan;
  EXPECT_FALSE(judge_as_plan(context, verdict));
  EXPECT_TRUE(verdict.correct) << verdict.diagnostics;
}

TEST(WrittenConversation, OfAnHonestCandidateIsCorrectInEveryMode) {
  for (const auto mode : {EvaluationMode::kInterpret, EvaluationMode::kPlan, EvaluationMode::kLive}) {
    const Verdict verdict = judge_written(mode == EvaluationMode::kPlan ? honest_plan() : honest_process(), mode);
    EXPECT_TRUE(verdict.correct) << name_of(mode) << ": " << to_json(verdict).dump(1);
    EXPECT_EQ(verdict.claimed, claimed_fields(mode));
  }
}

// A call without launches may cost a process its device, so it comes last.
TEST(WrittenConversation, OfALiveCandidateIsTimedBeforeItsLaunchesAreLeftOut) {
  const std::string process = honest_process();
  const std::string last = "0 {\"failed\":";
  const size_t without = process.find(last);
  std::vector<std::string> heard;
  const auto timed = [&](const std::string& text, Fault fault) {
    const auto time = [&](Child& child, Verdict& right) {
      Frame frame;
      std::string detail;
      EXPECT_TRUE(right.correct);
      EXPECT_EQ(child.channel().receive(frame, Deadline::after(5), detail), Silence::kNone);
      heard.push_back(frame.header.dump());
      right.stage = Stage::kTimed;
      right.fault = fault;
      right.correct = fault == Fault::kNone;
    };
    return judge_written(text, EvaluationMode::kLive, Claims::kRefuse, time);
  };
  const std::string times = "0 {\"times\":[1.5]}\n";
  const std::string text = process.substr(0, without) + times + process.substr(without);
  const Verdict verdict = timed(text, Fault::kNone);
  EXPECT_EQ(heard, std::vector<std::string>{"{\"times\":[1.5]}"});
  EXPECT_TRUE(verdict.correct);
  EXPECT_EQ(verdict.stage, Stage::kTimed);
  EXPECT_EQ(timed(text, Fault::kCrashed).fault, Fault::kCrashed);
}

// What is asked for must be there: a recording that leaves a target's kernels out compiles for nothing.
TEST(WrittenConversation, OfAPlanWithoutARequiredTargetsKernelsIsNoPlan) {
  std::string text = honest_plan();
  const std::string sm_90 = R"("ir":{"sm_90":0})";
  text.replace(text.find(sm_90), sm_90.size(), R"("ir":{"gfx942":0})");
  const Verdict verdict = judge_written(text, EvaluationMode::kPlan);
  EXPECT_FALSE(verdict.correct);
  EXPECT_EQ(verdict.notes.at("mode_reason"), "kernel k was not recorded for sm_90");
}

TEST(WrittenConversation, ThatBreaksOffSaysWhere) {
  const std::string whole = honest_process();
  const Verdict verdict = judge_written(whole.substr(0, whole.find("0 {\"stage\":\"built")),
                                        EvaluationMode::kInterpret);
  EXPECT_EQ(verdict.fault, Fault::kCrashed);
  EXPECT_EQ(verdict.stage, Stage::kImported);
  EXPECT_EQ(verdict.diagnostics, "the candidate's process ended while ModelNew was constructed");
}

TEST(WrittenConversation, WithAnotherTrialsNonceIsAForgery) {
  std::string text = honest_process();
  text.replace(text.find(nonce_of(0)), 16, nonce_of(1));
  EXPECT_EQ(judge_written(text, EvaluationMode::kInterpret).fault, Fault::kForbidden);
}

}  // namespace
}  // namespace tritonforge::evaluate
