#include "evaluate/drawn_reference.h"

#include <gtest/gtest.h>

#include "evaluate/zygote.h"

namespace tritonforge::evaluate {
namespace {

constexpr const char* kAffine = R"(
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(300, 300)
    def forward(self, x):
        x += 1
        return self.layer(x)
def get_inputs():
    return [torch.randn(400, 300)]
def get_init_inputs():
    return []
)";

// Counts the processes by role.
class Counted : public Children {
 public:
  explicit Counted(Children& children) : children_(children) {}
  std::unique_ptr<Child> spawn(const std::string& role, const ChildLimits& limits, Deadline deadline) override {
    ++count[role];
    return children_.spawn(role, limits, deadline);
  }
  std::map<std::string, int> count;

 private:
  Children& children_;
};

class DrawnReference : public testing::Test {
 protected:
  static void SetUpTestSuite() { zygote = std::make_unique<Zygote>(ZygoteOptions{}); }
  static void TearDownTestSuite() { zygote.reset(); }
  ReferenceSpec spec_of(const std::string& source, uint64_t seed) {
    return {.problem_id = "p",
            .source = source,
            .init_seed = seed,
            .weight_seed = seed + 1,
            .trials = {{seed + 2, seed + 3}, {seed + 4, seed + 5}},
            .weigh = true,
            .draws_on = &device,
            .fractions_seed = seed + 6};
  }
  std::shared_ptr<const ReferenceData> draw(ReferenceSpec& spec) {
    std::unique_ptr<Child> witness;
    return draw_reference(children, spec, {}, witness, Deadline::after(60));
  }
  static std::unique_ptr<Zygote> zygote;
  Counted children{*zygote};
  CpuDevice device{children, ChildLimits{}};
};
std::unique_ptr<Zygote> DrawnReference::zygote;

using Processes = std::map<std::string, int>;

TEST_F(DrawnReference, OfAProblemThatIsKnownTheModuleIsNotAskedAndTheTrialsAreTheSame) {
  ReferenceSpec first = spec_of(kAffine, 10), known = spec_of(kAffine, 20), unknown = known;
  const auto asked = draw(first);
  ASSERT_TRUE(asked && asked->drawn);
  EXPECT_EQ(children.count, (Processes{{"reference", 2}, {"replay", 1}}));  // it bears witness, and is recorded

  known.forms = asked->drawn->forms;
  known.admission = first.admission;
  const auto again = draw(known);
  EXPECT_EQ(children.count, (Processes{{"reference", 3}, {"replay", 1}}));

  const auto witnessed = draw(unknown);
  EXPECT_EQ(children.count, (Processes{{"reference", 5}, {"replay", 1}}));
  ASSERT_TRUE(again && witnessed);
  for (size_t k = 0; k < 2; ++k) {
    const ReferenceTrial &a = *again->trials[k], &b = *witnessed->trials[k], &other = *asked->trials[k];
    EXPECT_EQ(a.payload, b.payload);
    EXPECT_NE(a.payload, other.payload);
    EXPECT_EQ(a.output_tree, b.output_tree);
    EXPECT_EQ(std::tie(a.aliases, a.by_row, a.shared), std::tie(b.aliases, b.by_row, b.shared));
    EXPECT_EQ(std::pair(a.input_bytes, a.output_bytes), std::pair(size_t{480000}, size_t{480000}));
    EXPECT_FALSE(identical(a.before[0], a.after[0]));  // forward adds to its input
  }
}

TEST_F(DrawnReference, WhereThePlanIsAnotherOneTheModuleIsAskedAgain) {
  ReferenceSpec spec = spec_of(kAffine, 10);
  const auto first = draw(spec);
  ASSERT_TRUE(first && first->drawn);
  for (const auto part : {&DrawnForms::inputs, &DrawnForms::forward}) {
    DrawnForms forms = *first->drawn->forms;
    forms.*part = "another one";
    ReferenceSpec later = spec_of(kAffine, 10);
    later.admission = spec.admission;
    later.forms = std::make_shared<const DrawnForms>(forms);
    children.count.clear();
    const auto made = draw(later);
    EXPECT_EQ(children.count["reference"], 3);  // recorded, asked, recorded
    ASSERT_TRUE(made && made->drawn);
    EXPECT_EQ((*made->drawn->forms).*part, (*first->drawn->forms).*part);
  }
}

TEST_F(DrawnReference, AModuleThatDoesSomethingElseThanItsPlanCannotBeDrawn) {
  ReferenceSpec spec = spec_of(R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 if type(x) is torch.Tensor else x * 3
def get_inputs():
    return [torch.randn(400, 300)]
)",
                               10);
  EXPECT_EQ(draw(spec), nullptr);
}

TEST_F(DrawnReference, AModuleThatLeavesItsInputOtherwiseThanItsPlanCannotBeDrawn) {
  ReferenceSpec spec = spec_of(R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        x += 1 if type(x) is torch.Tensor else 2
        return y
def get_inputs():
    return [torch.randn(400, 300)]
)",
                               10);
  EXPECT_EQ(draw(spec), nullptr);
}

TEST_F(DrawnReference, WhatNoPlanDrawsIsLeftToItsOwnProcess) {
  ReferenceSpec spec = spec_of(R"(
import numpy
import torch
class Model(torch.nn.Module):
    def forward(self, x, scratch):
        scratch.zero_()
        return x * 2
def get_inputs():
    return [torch.randn(400, 300), torch.from_numpy(numpy.random.rand(400, 300))]
)",
                               10);
  std::unique_ptr<Child> witness;
  EXPECT_EQ(draw_reference(children, spec, {}, witness, Deadline::after(60)), nullptr);
  EXPECT_TRUE(witness);
  EXPECT_TRUE(spec.admission);
}

}  // namespace
}  // namespace tritonforge::evaluate
