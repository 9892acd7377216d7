#include "cli/kernelbench_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct KernelBenchArguments : ::testing::Test {
  std::string apply(const std::string& argument) { return apply_kernelbench_argument(argument, {recipe, run, model}); }
  std::string refusal(const std::string& argument) {
    try {
      apply(argument);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "accepted";
  }
  orchestrate::RecipeConfig recipe;
  orchestrate::RunOptions run;
  std::string model;
};

TEST_F(KernelBenchArguments, SetWhatTheyNameInKernelBench) {
  for (const char* argument :
       {"level=2", "problem_ids=[1, 4]", "subset=(7,8)", "num_samples=5", "temperature=0.6", "max_tokens=300",
        "run_name=mine", "model_name=m", "num_correct_trials=4", "num_perf_trials=20", "timeout=30",
        "num_cpu_workers=3", "is_reasoning_model=False", "backend=cuda", "eval_mode=local", "num_gpu_devices=1"})
    EXPECT_EQ(apply(argument), "") << argument;
  EXPECT_THAT(recipe.bench.levels, ElementsAre(2));
  EXPECT_THAT(recipe.bench.problem_ids, ElementsAre("1", "4", "7", "8"));
  EXPECT_EQ(recipe.bench.samples, 5);
  EXPECT_EQ(recipe.bench.sampling.temperature, 0.6);
  EXPECT_EQ(recipe.bench.sampling.max_new_tokens, 300);
  EXPECT_EQ(run.output, "runs/mine");
  EXPECT_EQ(model, "m");
  EXPECT_EQ(recipe.evaluator.request.num_correct_trials, 4);
  EXPECT_EQ(recipe.evaluator.request.num_perf_trials, 20);
  EXPECT_EQ(recipe.evaluator.request.timeout_s, 30);
  EXPECT_EQ(recipe.evaluator.workers, 3);
  EXPECT_EQ(recipe.evaluator.request.backend, Backend::kCuda);
  EXPECT_FALSE(recipe.rollout.enable_thinking);
}

TEST_F(KernelBenchArguments, WithoutMeaningHereAreAcceptedAndSaid) {
  EXPECT_THAT(apply("verbose_logging=true"), HasSubstr("verbose_logging=true has no meaning here: "));
  EXPECT_THAT(apply("gpu_arch=['Hopper']"), HasSubstr("no meaning here"));
  EXPECT_THAT(apply("dataset_name=ScalingIntelligence/KernelBench"), HasSubstr("--problems"));
  EXPECT_EQ(recipe.bench.problems, "");
}

TEST_F(KernelBenchArguments, ThatAreWrongAreRefusedByName) {
  EXPECT_THAT(refusal("level"), HasSubstr("'level' is not key=value"));
  EXPECT_THAT(refusal("levle=1"), HasSubstr("unknown key 'levle' (did you mean 'level'?)"));
  EXPECT_THAT(refusal("num_samples=many"), HasSubstr("num_samples must be an integer, not 'many'"));
  EXPECT_THAT(refusal("subset=(3,1)"), HasSubstr("subset must be (FIRST, LAST)"));
  EXPECT_THAT(refusal("problem_ids=[1,]"), HasSubstr("a list of integers"));
  EXPECT_THAT(refusal("backend=cute"), HasSubstr("unknown backend 'cute'"));
  EXPECT_THAT(refusal("eval_mode=modal"), HasSubstr("no remote evaluation"));
}

}  // namespace
}  // namespace tritonforge::cli
