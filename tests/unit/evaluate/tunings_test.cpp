#include "evaluate/plan/tunings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Kernel 0 is launched by configurations 0 and 1 of the first tuning, 1 by 2 of it, 2 and 3 by those of the second, 4
// by all.
Plan tuned_plan() {
  Plan plan;
  for (const char* name : {"rows", "rows", "columns", "columns", "last"}) plan.kernels.push_back({.name = name});
  plan.tunings = {{.configurations = {"B 1", "B 2", "B 3"}}, {.configurations = {"C 1", "C 2"}, .left_out = 7}};
  plan.steps = {{.kernel = 0, .tuning = 0, .configuration = 0}, {.kernel = 0, .tuning = 0, .configuration = 1},
                {.kernel = 1, .tuning = 0, .configuration = 2}, {.kernel = 2, .tuning = 1, .configuration = 0},
                {.kernel = 3, .tuning = 1, .configuration = 1}, {.kernel = 4}};
  return plan;
}

// Of each kernel for each target; those of `too_large` take too much.
std::vector<Compiled> compiled(const std::vector<std::string>& targets, const std::set<size_t>& too_large) {
  std::vector<Compiled> out;
  for (size_t k = 0; k < 5 * targets.size(); ++k) {
    const bool fails = too_large.contains(k);
    out.push_back({.target = targets[k % targets.size()],
                   .error = fails ? "OutOfResources: shared memory" : "",
                   .tuner_skips = fails});
  }
  return out;
}

TEST(Tunings, EveryConfigurationIsInSomeChoice) {
  std::vector<Compiled> found = compiled({"sm_90"}, {});
  const Tunings tunings(tuned_plan(), {"sm_90"}, "cpu", found);
  EXPECT_THAT(tunings.choices(), ElementsAre(Choice{2, 1}, Choice{1, 0}, Choice{0, 0}));
  EXPECT_EQ(tunings.first(), (Choice{2, 1}));
  EXPECT_EQ(tunings.name(Choice{1, 0}), "rows (B 2), columns (C 1)");
  EXPECT_THAT(tunings.left_out(), HasSubstr("columns: 7 further configurations"));
}

TEST(Tunings, WhatTakesTooMuchIsPassedOver) {
  std::vector<Compiled> found = compiled({"sm_90"}, {1});
  const Tunings tunings(tuned_plan(), {"sm_90"}, "sm_90", found);
  EXPECT_EQ(found[1].error, "");
  EXPECT_THAT(tunings.usable()[0], ElementsAre(1, 0));
  EXPECT_THAT(tunings.left_out(), HasSubstr("rows (B 3) not for sm_90: OutOfResources"));
}

TEST(Tunings, ItsErrorStandsWhereNothingElseIsLeft) {
  std::vector<Compiled> all = compiled({"sm_90"}, {2, 3});
  const Tunings none(tuned_plan(), {"sm_90"}, "sm_90", all);
  EXPECT_NE(all[2].error, "");
  EXPECT_NE(all[3].error, "");
  EXPECT_THAT(none.usable()[1], ElementsAre(1));
  std::vector<Compiled> untuned = compiled({"sm_90"}, {4});
  const Tunings other(tuned_plan(), {"sm_90"}, "sm_90", untuned);
  EXPECT_NE(untuned[4].error, "");
}

TEST(Tunings, EachTargetHasATunerOfItsOwn) {
  const std::vector<std::string> targets{"sm_90", "gfx942"};
  // B 3 is too large for the second target, C 1 for the first.
  const std::set<size_t> too_large{1 * 2 + 1, 2 * 2};
  std::vector<Compiled> found = compiled(targets, too_large);
  const Tunings on_gpu(tuned_plan(), targets, "sm_90", found);
  EXPECT_TRUE(std::all_of(found.begin(), found.end(), [](const Compiled& one) { return one.error.empty(); }));
  EXPECT_THAT(on_gpu.usable(), ElementsAre(ElementsAre(2, 1, 0), ElementsAre(1)));
  found = compiled(targets, too_large);
  const Tunings on_cpu(tuned_plan(), targets, "cpu", found);
  EXPECT_THAT(on_cpu.usable(), ElementsAre(ElementsAre(2, 1, 0), ElementsAre(1, 0)));
}

TEST(Tunings, APlanWithoutHasOneChoice) {
  std::vector<Compiled> found;
  EXPECT_THAT(Tunings(Plan(), {"sm_90"}, "cpu", found).choices(), ElementsAre(Choice{}));
}

TEST(Tunings, AChoiceTakesItsStepsAndThoseOfNone) {
  const Plan plan = tuned_plan();
  const auto steps = chosen_steps(plan.steps, plan.tunings, {2, 0});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].kernel, 1);
  EXPECT_EQ(steps[1].kernel, 2);
  EXPECT_EQ(steps[2].kernel, 4);
  EXPECT_EQ(recorders_choice(plan), (Choice{2, 1}));
  EXPECT_ANY_THROW(chosen_steps(plan.steps, plan.tunings, {2}));
  EXPECT_ANY_THROW(chosen_steps(plan.steps, plan.tunings, {3, 0}));
  EXPECT_ANY_THROW(chosen_steps(plan.steps, plan.tunings, {0, -1}));
}

}  // namespace
}  // namespace tritonforge::evaluate
