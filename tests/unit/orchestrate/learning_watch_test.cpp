#include "orchestrate/learning_watch.h"

#include <gtest/gtest.h>

namespace tritonforge::orchestrate {
namespace {

int warnings(LearningWatch& watch, std::initializer_list<std::pair<double, double>> steps) {
  int count = 0;
  for (const auto& [pass, compiled] : steps) count += !watch.step(pass, compiled).empty();
  return count;
}

TEST(LearningWatch, WarnsOnceWhereCorrectnessIsLostAndCompilingIsNot) {
  LearningWatch watch;  // the run of docs/results.md, from its first step
  EXPECT_EQ(warnings(watch, {{.23, .63},
                             {.44, .67},
                             {.22, .59},
                             {.39, .69},
                             {0, .34},
                             {.05, .55},
                             {0, .23},
                             {.31, .58},
                             {.03, .42},
                             {.17, .42},
                             {.13, .52}}),
            0);
  EXPECT_EQ(warnings(watch, {{0, .70}, {0, .94}, {0, .84}}), 0);
  EXPECT_EQ(warnings(watch, {{0, .91}}), 1);
  EXPECT_EQ(warnings(watch, {{0, .75}, {0, .88}}), 0);
  EXPECT_EQ(warnings(watch, {{.4, .8}, {.4, .8}, {.4, .8}, {.4, .8}, {0, .9}, {0, .9}, {0, .9}, {0, .9}}), 1)
      << "it had recovered";
}

TEST(LearningWatch, IsSilentAboutAPolicyThatNeverPassedOrFailsAltogether) {
  LearningWatch never;
  EXPECT_EQ(warnings(never, {{0, .9}, {0, .9}, {.02, .9}, {0, .9}, {0, .9}, {0, .9}}), 0);
  LearningWatch broken;
  EXPECT_EQ(warnings(broken, {{.4, .8}, {.4, .8}, {.4, .8}, {.4, .8}, {0, .1}, {0, .1}, {0, .1}, {0, .1}}), 0);
}

}  // namespace
}  // namespace tritonforge::orchestrate
