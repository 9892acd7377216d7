#include "evaluate/plan/on_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evaluate/timing.h"
#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

const std::string kRace = R"([["race","kernel k, line 3: programs 0 and 1"]])";

std::string replayed(const std::string& findings) {
  return "160 {\"findings\":" + findings + ",\"own\":[100,0]," + kWrittenTensors + "}\n";
}
// The same with half of the output.
std::string wrong(const std::string& findings) {
  return "120 {\"findings\":" + findings +
         R"(,"own":[100,0],"inputs":1,"aliases":[-1],"shared":[-1],"tensors":[)"
         R"({"dtype":"float32","shape":[20],"order":[0],"bytes":80},)"
         R"({"dtype":"float32","shape":[10],"order":[0],"bytes":40}]})"
         "\n";
}
std::string recorded() {
  const std::string all = honest_plan();
  return all.substr(0, all.find("=\n") + 2) + "0 {\"loaded\":true}\n";
}

struct Setting {
  bool reduced = false;  // the problem's sizes are
  int64_t max_elements = 20;
};

SeenOnCpu look(const std::string& text, const Setting& setting) {
  ReferenceData reference = written_reference();
  if (setting.reduced) reference.sizes = {{"N", {4096, 64}}};
  WrittenChildren children(text, reference);
  LoweringPool lowering(children);
  CpuDevice device(children, {});
  EvaluatorOptions options;
  options.max_elements = setting.max_elements;
  const EvaluationRequest request;
  return look_on_cpu(written_context(children, lowering, options, request, reference, device));
}

TEST(LookOnCpu, ARaceIsRefusedAtAnySizes) {
  for (const bool reduced : {false, true}) {
    const SeenOnCpu seen = look(recorded() + replayed(kRace), {.reduced = reduced});
    EXPECT_THAT(seen.refusal, HasSubstr("race: kernel k, line 3"));
    EXPECT_THAT(seen.refusal, HasSubstr(reduced ? "at reduced sizes" : "at the problem's own sizes"));
  }
}

// Whether a race is lost is chance: one that a CPU loses and a GPU wins is a race.
TEST(LookOnCpu, ARaceThatIsLostIsOne) {
  EXPECT_THAT(look(recorded() + wrong(kRace), {}).refusal, HasSubstr("wrong outputs, with a race: kernel k, line 3"));
  // In the order in which devices begin programs, or where none waits for another, it is won.
  for (const std::string& others : {replayed(kRace), wrong(kRace) + replayed(kRace)}) {
    EXPECT_THAT(look(recorded() + wrong(kRace) + others, {.reduced = true}).refusal,
                HasSubstr("on a CPU at reduced sizes, wrong outputs, with a race: kernel k, line 3"));
  }
}

// A kernel may be written for the problem's own sizes alone, and races at others.
TEST(LookOnCpu, WhatIsWrongAtReducedSizesInAnyOrderIsNotRefused) {
  const std::string fails = "0 {\"failed\":{\"kind\":\"fault\",\"text\":\"kernel k: out of bounds\"}}\n";
  for (const std::string& last : {wrong(kRace), fails}) {
    const SeenOnCpu seen = look(recorded() + wrong(kRace) + wrong(kRace) + last, {.reduced = true});
    EXPECT_EQ(seen.refusal, "");
    EXPECT_THAT(seen.note, HasSubstr("at reduced sizes it gives wrong outputs in any order, with a race: kernel k"));
  }
}

TEST(LookOnCpu, WhatIsSoundIsSaidToBe) {
  const SeenOnCpu seen = look(recorded() + replayed("[]"), {.reduced = true});
  EXPECT_EQ(seen.refusal, "");
  EXPECT_EQ(seen.note, "none, on a CPU at reduced sizes");
}

// A kernel may be written for the problem's own sizes alone.
TEST(LookOnCpu, AFailureCountsAtTheProblemsOwnSizesAlone) {
  const std::string text = recorded() + "0 {\"failed\":{\"kind\":\"fault\",\"text\":\"kernel k: out of bounds\"}}\n";
  EXPECT_THAT(look(text, {}).refusal, HasSubstr("kernel k: out of bounds"));
  const SeenOnCpu reduced = look(text, {.reduced = true});
  EXPECT_EQ(reduced.refusal, "");
  EXPECT_THAT(reduced.note, HasSubstr("not looked for: at reduced sizes it fails: kernel k: out of bounds"));
}

TEST(LookOnCpu, WhatCannotBeEvaluatedIsNotRefused) {
  const SeenOnCpu unknown = look(
      recorded() + "0 {\"failed\":{\"kind\":\"unsupported\",\"text\":\"kernel k: tt.inline_asm\"}}\n", {});
  EXPECT_EQ(unknown.refusal, "");
  EXPECT_THAT(unknown.note, HasSubstr("not looked for: kernel k: tt.inline_asm"));
  const SeenOnCpu large = look(recorded() + replayed(kRace), {.max_elements = 19});
  EXPECT_EQ(large.refusal, "");
  EXPECT_THAT(large.note, HasSubstr("cannot be reduced to 19 elements a tensor"));
  const SeenOnCpu lost = look(recorded(), {});
  EXPECT_EQ(lost.refusal, "");
  EXPECT_THAT(lost.note, HasSubstr("not looked for: "));
  const SeenOnCpu unloaded = look("0 {\"failed\":{\"kind\":\"import_error\",\"text\":\"no module\"}}\n", {});
  EXPECT_EQ(unloaded.refusal, "");
  EXPECT_THAT(unloaded.note, HasSubstr("not looked for: "));
}

Verdict timed_on_gpu() {
  Verdict verdict;
  verdict.stage = Stage::kTimed;
  verdict.correct = true;
  for (Timing* timing :
       {&verdict.runtime, &verdict.ref_runtime, &verdict.eager_runtime, &verdict.torch_compile_runtime})
    *timing = summarise({1, 2, 3});
  for (double* speedup : {&verdict.speedup, &verdict.speedup_low, &verdict.speedup_high, &verdict.eager_speedup,
                          &verdict.torch_compile_speedup})
    *speedup = 2;
  verdict.profile.emplace();
  verdict.notes = {{"timing", "by the evaluator's clock"}, {"torch_compile", "timed once"}, {"trials", "drawn"}};
  return verdict;
}

TEST(LookOnCpu, WhatIsRefusedHasNoFigureOfItsTime) {
  Verdict verdict = timed_on_gpu();
  take({.refusal = "race: kernel k", .note = ""}, verdict);
  Verdict untimed;
  untimed.stage = Stage::kLaunched;
  untimed.fault = Fault::kRuntimeError;
  untimed.diagnostics = "race: kernel k";
  untimed.notes = {{"races", "found"}, {"trials", "drawn"}};
  EXPECT_EQ(to_json(verdict), to_json(untimed));
}

TEST(LookOnCpu, WhatIsSoundKeepsItsFigures) {
  Verdict verdict = timed_on_gpu(), same = verdict;
  take({.refusal = "", .note = "none, on a CPU"}, verdict);
  same.notes["races"] = "none, on a CPU";
  EXPECT_EQ(to_json(verdict), to_json(same));
}

}  // namespace
}  // namespace tritonforge::evaluate
