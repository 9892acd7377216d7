#include "orchestrate/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::orchestrate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2) << error.what();
    return error.what();
  }
  return "no error";
}

class RecipeTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    write_file_atomic(folder_.path() / name, text);
    return folder_.path() / name;
  }
  TemporaryFolder folder_{"recipe"};
};

TEST_F(RecipeTest, EveryShippedRecipeLoadsAndSurvivesADump) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TF_SOURCE_DIR) / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    const RecipeConfig config = load_recipe(entry.path(), {});
    const auto copy = load_config<RecipeConfig>(parse_yaml(dump_config(config), "dump"), "dump");
    EXPECT_EQ(dump_config(copy), dump_config(config)) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST_F(RecipeTest, UnknownKeyNamesTheNearest) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p, sampels: 3}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {}); }),
              AllOf(HasSubstr("a.yaml"), HasSubstr("'bench.sampels'"), HasSubstr("'samples'")));
  const auto good = write("b.yaml", "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p}\n");
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.sample=3"}); }),
              AllOf(HasSubstr("'bench.sample'"), HasSubstr("'samples'")));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"evaluator.mode=intrepret"}); }), HasSubstr("'interpret'"));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.samples=many"}); }), HasSubstr("an integer"));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.samples"}); }), HasSubstr("path=value"));
}

TEST_F(RecipeTest, ExtendsMergesKeyByKeyAndOverridesWin) {
  write("base.yaml",
        "name: base\nmodel: {path: m, dtype: bfloat16}\nstages: [bench]\nbench: {problems: p, samples: 2}\n");
  const auto path = write("child.yaml", "extends: base.yaml\nname: child\nbench: {samples: 5}\n");
  const RecipeConfig config = load_recipe(path, {"seed=9"});
  EXPECT_EQ(config.name, "child");
  EXPECT_EQ(config.model.dtype, "bfloat16");
  EXPECT_EQ(config.bench.problems, "p");
  EXPECT_EQ(config.bench.samples, 5);
  EXPECT_EQ(config.seed, 9);
  const auto circle = write("circle.yaml", "extends: circle.yaml\n");
  EXPECT_THAT(error_of([&] { load_recipe(circle, {}); }), HasSubstr("circle"));
}

}  // namespace
}  // namespace tritonforge::orchestrate
