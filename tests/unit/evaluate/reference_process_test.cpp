// A problem's own process, which may say anything.
#include "evaluate/reference_process.h"

#include <gtest/gtest.h>

#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// How it ends where its answer has so many bytes.
Silence answered(uint64_t bytes, const Budget& budget, const std::function<void(ReferenceProcess&)>& ask) {
  const ReferenceData data = written_reference();
  WrittenChildren children(fmt::format("{} {{}}\n", bytes), data);
  const auto child = children.spawn("reference", {}, Deadline::after(60));
  ReferenceSpec spec;
  spec.budget = budget;
  ReferenceProcess process(*child, spec, Deadline::after(60));
  try {
    ask(process);
  } catch (const ProblemFault& fault) {
    return fault.silence;
  }
  return Silence::kNone;
}

// One whose payload is awaited ends where its process does.
TEST(ReferenceProcess, AnswersAreNoLargerThanWhatWasAskedFor) {
  const auto trial = [](ReferenceProcess& process) { process.trial({1, 2}, Draw::kAsGiven); };
  EXPECT_EQ(answered(kGiB + 1, kSmall, trial), Silence::kGarbled);
  EXPECT_EQ(answered(1 << 20, kSmall, trial), Silence::kClosed);
  EXPECT_EQ(answered(8 * kGiB + 1, {}, trial), Silence::kGarbled);
  const auto sample = [](ReferenceProcess& process) { process.sample({1, 2}, Draw::kAsGiven, {0}); };
  const auto inputs = [](ReferenceProcess& process) { process.inputs(Draw::kAsGiven); };
  const auto calls = [](ReferenceProcess& process) { process.calls(1, Draw::kAsGiven); };
  for (const std::function<void(ReferenceProcess&)>& ask : {std::function(sample), {inputs}, {calls}}) {
    EXPECT_EQ(answered(kMaxPlanBytes + 1, {}, ask), Silence::kGarbled);
    EXPECT_EQ(answered(1 << 20, {}, ask), Silence::kClosed);
  }
  const auto load = [](ReferenceProcess& process) {
    ReferenceData data;
    process.load(data);
  };
  EXPECT_EQ(answered(2 * kGiB, {}, load), Silence::kGarbled);
}

}  // namespace
}  // namespace tritonforge::evaluate
