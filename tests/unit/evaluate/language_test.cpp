#include "evaluate/languages/language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Language, EveryBackendHasItsOwn) {
  for (const auto name : names_of(Backend{})) EXPECT_EQ(language_of(from_name<Backend>(name, "backend")).name(), name);
}

TEST(Language, SaysWhatItIsCompiledForAndWhereThatRuns) {
  const std::vector<Target> asked{Target::kGfx942};
  EXPECT_THAT(language_of(Backend::kTriton).targets(asked, "cpu"), ElementsAre("gfx942"));
  EXPECT_THAT(language_of(Backend::kTriton).targets(asked, "sm_90"), ElementsAre("gfx942", "sm_90"));
  EXPECT_THAT(language_of(Backend::kCuda).targets(asked, "cpu"), ElementsAre("sm_90"));
  EXPECT_THAT(language_of(Backend::kCuda).targets(asked, "sm_80"), ElementsAre("sm_80"));
  EXPECT_THAT(language_of(Backend::kHip).targets(asked, "sm_90"), ElementsAre("gfx942"));
  EXPECT_THAT(language_of(Backend::kOpencl).targets(asked, "sm_90"), ElementsAre("cpu"));
  EXPECT_EQ(language_of(Backend::kTriton).runs("cpu"), Runs::kInterpreted);
  EXPECT_EQ(language_of(Backend::kTriton).runs("sm_90"), Runs::kOnGpu);
  EXPECT_EQ(language_of(Backend::kCuda).runs("cpu"), Runs::kNowhere);
  EXPECT_EQ(language_of(Backend::kCuda).runs("sm_90"), Runs::kOnGpu);
  EXPECT_EQ(language_of(Backend::kHip).runs("sm_90"), Runs::kNowhere);
  EXPECT_EQ(language_of(Backend::kOpencl).runs("cpu"), Runs::kNatively);
  EXPECT_EQ(language_of(Backend::kOpencl).runs("sm_90"), Runs::kNowhere);
}

TEST(Language, OfAnotherModeThanPlanIsTritonAlone) {
  for (const EvaluationMode mode : {EvaluationMode::kInterpret, EvaluationMode::kLive}) {
    EXPECT_EQ(usable_language(Backend::kTriton, mode, {}).backend(), Backend::kTriton);
    for (const Backend backend : {Backend::kCuda, Backend::kHip, Backend::kOpencl}) {
      try {
        usable_language(backend, mode, {});
        ADD_FAILURE() << name_of(backend);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
        EXPECT_THAT(error.what(), HasSubstr("judged in mode plan alone"));
      }
    }
  }
  EXPECT_EQ(usable_language(Backend::kCuda, EvaluationMode::kPlan, {}).backend(), Backend::kCuda);
}

TEST(Refusals, NameInOneLineWhatIsMissingAndTheCommandThatMendsIt) {
  const Refusals refusals(Json::array({{{"what", "backend hip"}, {"why", "no clang"}, {"mend", "install it"}}}));
  EXPECT_EQ(usable_language(Backend::kCuda, EvaluationMode::kPlan, refusals).backend(), Backend::kCuda);
  EXPECT_THAT(usable_languages(refusals), ElementsAre("triton", "cuda", "opencl"));
  try {
    compiled_language(Backend::kHip, refusals);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_STREQ(error.what(), "evaluator: backend hip is refused: no clang; mend it with: install it");
  }
  EXPECT_TRUE(refusals.without("backend hip").all().empty());
  EXPECT_EQ(refusals.json().at(0).at("mend"), "install it");
}

}  // namespace
}  // namespace tritonforge::evaluate
