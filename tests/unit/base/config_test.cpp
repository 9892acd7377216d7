#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TrainConfig {
  double lr = 1e-5;
  int64_t steps = 10;
  bool resume = false;
  std::vector<std::string> families = {"softmax"};
  template <typename Visitor>
  void describe(Visitor& v) {
    v("lr", lr, "");
    v("steps", steps, "");
    v("resume", resume, "");
    v("families", families, "");
  }
  void validate() const {
    if (lr <= 0) fail(ErrorKind::kUsage, "'train.lr' must be above 0");
  }
};
struct Recipe {
  std::string name = "x";
  TrainConfig train;
  template <typename Visitor>
  void describe(Visitor& v) {
    v("name", name, "");
    v("train", train, "");
  }
};

Recipe load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  YAML::Node root = parse_yaml(text, "r.yaml");
  for (const auto& one : overrides) apply_override(root, one);
  return load_config<Recipe>(root, "r.yaml");
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Config, AbsentKeysKeepTheirDefaults) {
  const Recipe recipe = load("train: {steps: 3}");
  EXPECT_EQ(recipe.name, "x");
  EXPECT_EQ(recipe.train.steps, 3);
  EXPECT_EQ(recipe.train.lr, 1e-5);
  EXPECT_THAT(recipe.train.families, ElementsAre("softmax"));
}

TEST(Config, AnUnknownKeyNamesItsPathAndTheNearestKey) {
  EXPECT_EQ(error_of("train: {step: 3}"), "r.yaml: unknown key 'train.step' (did you mean 'steps'?)");
  EXPECT_THAT(error_of("? [a, b]\n: 1"), HasSubstr("unknown key '[a, b]'"));
}

TEST(Config, AKeyThatIsGivenTwiceIsRefused) {
  EXPECT_EQ(error_of("train:\n  steps: 3\n  steps: 4"), "r.yaml:3: 'steps' is given twice");
}

TEST(Config, AWrongShapeNamesItsPathAndWhatIsThere) {
  EXPECT_EQ(error_of("train: {steps: many}"), "r.yaml: 'train.steps' must be an integer, not 'many'");
  EXPECT_THAT(error_of("train: [1]"), HasSubstr("'train' must be a mapping, not '[1]'"));
  EXPECT_THAT(error_of("train: {families: a}"), HasSubstr("'train.families' must be a list"));
  EXPECT_THAT(error_of("train: {steps: 1.5}"), HasSubstr("an integer, not '1.5'"));
  EXPECT_THAT(error_of("train: {lr: -1}"), HasSubstr("'train.lr' must be above 0"));
  EXPECT_THAT(error_of("a: [1\nb: 2"), HasSubstr("r.yaml:2: not valid YAML"));
}

TEST(Config, OverridesSetByPath) {
  const Recipe recipe = load("train: {lr: 1}", {"train.lr=1e-6", "train.families=[a, b]", "name=y"});
  EXPECT_EQ(recipe.train.lr, 1e-6);
  EXPECT_THAT(recipe.train.families, ElementsAre("a", "b"));
  EXPECT_EQ(recipe.name, "y");
  EXPECT_THAT(error_of("", {"train.lr"}), HasSubstr("expected path=value"));
  EXPECT_THAT(error_of("name: z", {"name.lr=1"}), HasSubstr("'name' is not a mapping"));
  EXPECT_THAT(error_of("", {"train.stepz=1"}), HasSubstr("did you mean 'steps'?"));
}

TEST(Config, WhatIsDumpedLoadsAsTheSame) {
  const Recipe recipe = load("train: {lr: 0.1, resume: true, families: []}\nname: 'yes: no'");
  const std::string text = dump_config(recipe);
  EXPECT_EQ(dump_config(load(text)), text);
  EXPECT_EQ(load(text).name, "yes: no");
  EXPECT_THAT(text, HasSubstr("lr: 0.1\n")) << "and no 0.10000000000000001";
  for (const double lr : {1e-6, 0.05, 1.0, 12345678901234567.0}) {
    Recipe given;
    given.train.lr = lr;
    EXPECT_EQ(load(dump_config(given)).train.lr, lr);
  }
}

}  // namespace
}  // namespace tritonforge
