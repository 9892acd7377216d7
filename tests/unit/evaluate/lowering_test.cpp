// What a compiler's process says, whatever that is, and what is kept of it.
#include "evaluate/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

class Compilers {
 public:
  explicit Compilers(const std::string& said) : children_("", reference_, said), pool_(children_) {}
  Lowered lower(const std::string& text, double seconds = 60) {
    return pool_.lower(language_of(Backend::kTriton), text, "sm_90", {}, Deadline::after(seconds));
  }
  size_t started() const { return children_.compilers(); }
  size_t hits() const { return pool_.hits(); }

 private:
  const ReferenceData reference_ = written_reference();
  WrittenChildren children_;
  LoweringPool pool_;
};

const std::string kDies, kNextCompiler = "=\n";
std::string says(const Json& answer) { return "0 " + answer.dump() + "\n"; }

TEST(LoweringPool, AnEqualTextIsCompiledOnce) {
  Compilers compilers("");
  EXPECT_TRUE(compilers.lower("a").ok);
  EXPECT_TRUE(compilers.lower("a").ok);
  EXPECT_EQ(compilers.started(), 1u);
  EXPECT_EQ(compilers.hits(), 1u);
  EXPECT_TRUE(compilers.lower("b").ok);
  EXPECT_EQ(compilers.started(), 2u);
}

TEST(LoweringPool, WhatEveryCompilerDiesOfIsAnErrorAndIsKept) {
  Compilers compilers(kDies + kNextCompiler + kDies + kNextCompiler + kDies);
  EXPECT_THAT(compilers.lower("a").error, HasSubstr("the compiler "));
  EXPECT_FALSE(compilers.lower("a").ok);
  EXPECT_EQ(compilers.started(), 3u);
}

TEST(LoweringPool, WhatHadNoTimeIsCompiledForWhoHasSome) {
  Compilers compilers(kDies + kNextCompiler + kDies + kNextCompiler + kDies);
  EXPECT_FALSE(compilers.lower("a", 0).ok);
  while (compilers.started() < 3) EXPECT_FALSE(compilers.lower(std::to_string(compilers.started()), 0).ok);
  EXPECT_TRUE(compilers.lower("a").ok);
  EXPECT_EQ(compilers.hits(), 0u);
}

TEST(LoweringPool, AnErrorIsNoLongerThanAReaderNeeds) {
  Compilers compilers(says({{"ok", false}, {"error", std::string(100'000, 'e')}}));
  for (int k = 0; k < 2; ++k) EXPECT_LE(compilers.lower("a").error.size(), 4100u);
}

TEST(LoweringPool, AKernelThatIsDescribedWithoutEndIsRefused) {
  Compilers compilers(says({{"ok", true}, {"resources", std::string(70'000, 'r')}}));
  for (int k = 0; k < 2; ++k) {
    const Lowered lowered = compilers.lower("a");
    EXPECT_FALSE(lowered.ok);
    EXPECT_THAT(lowered.error, HasSubstr("in more than 64 KiB"));
    EXPECT_LE(lowered.shape.dump().size(), 100u);
  }
}

TEST(LoweringPool, WhatIsNoAnswerIsAnError) {
  for (const Json& answer :
       {Json(1), Json::array({true}), Json({{"ok", "yes"}}), Json({{"ok", false}, {"error", 1}})}) {
    Compilers compilers(says(answer));
    EXPECT_FALSE(compilers.lower("a").ok) << answer;
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
