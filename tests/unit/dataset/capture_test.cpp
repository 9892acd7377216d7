#include "dataset/capture.h"

#include <gtest/gtest.h>

#include "dataset/generate.h"

namespace tritonforge::dataset {
namespace {

const ConversationTexts kTexts{
    .first = [](const Problem& problem) -> std::vector<tokenizer::Message> { return {{"user", problem.source}}; },
    .feedback = [](const Verdict&) { return tokenizer::Message{"user", "no"}; },
    .answer = [](const std::string& code) { return tokenizer::Message{"assistant", code}; }};

std::vector<Pair> modules(int count) {
  std::vector<Pair> out;
  for (int i = 0; i < count; ++i) {
    Pair& pair = out.emplace_back();
    pair.id = fmt::format("captured_{}", i);
    pair.problem = std::to_string(i);
  }
  return out;
}

Result<Capture> solve(const std::string& problem) {
  if (problem == "3") return Error(ErrorKind::kUnsupported, "forward draws random numbers: aten.rand");
  return Capture{problem + " made smaller", "solution of " + problem};
}

Result<Verdict> judge(const std::string& problem, const std::string& candidate) {
  Verdict verdict;
  verdict.correct = !problem.starts_with("5");
  verdict.fault = verdict.correct ? Fault::kNone : Fault::kMismatch;
  verdict.diagnostics = "output 0: differs";
  if (problem.starts_with("6")) verdict.flags.push_back({.kind = Cheat::kNoKernelLaunched});
  return verdict;
}

TEST(CapturePairs, WhatTheEvaluatorAcceptsComesInTheProblemsOrderWithAnyWorkers) {
  for (const int workers : {1, 7}) {
    std::vector<std::string> order;
    const auto report = capture_pairs(modules(20), workers, solve, judge, kTexts, [&](const Pair* pair) {
      order.push_back(pair ? pair->id : "none");
      if (pair) {
        EXPECT_TRUE(pair->verified);
        EXPECT_TRUE(pair->problem.ends_with(" made smaller"));
        EXPECT_EQ(pair->messages.back().content, pair->solution);
      }
    });
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(order.at(static_cast<size_t>(i)), i == 3 || i == 5 || i == 6 ? "none" : fmt::format("captured_{}", i));
    EXPECT_EQ(report.problems, 20);
    EXPECT_EQ(report.captured, 19);
    EXPECT_EQ(report.written, 17);
    EXPECT_EQ(report.refused.size(), 3);
    EXPECT_EQ(report.refused_by.at("forward draws random numbers"), 1);
  }
}

TEST(CapturePairs, AnEvaluatorThatGivesNoVerdictEndsIt) {
  const auto gone = [](const std::string&, const std::string&) -> Result<Verdict> {
    return Error(ErrorKind::kUnavailable, "nobody answers");
  };
  EXPECT_THROW(capture_pairs(modules(3), 2, solve, gone, kTexts, [](const Pair*) {}), Error);
}

TEST(CapturePairs, WithoutAnEvaluatorPairsAreMarkedAsNotVerified) {
  capture_pairs(modules(1), 1, solve, {}, kTexts, [](const Pair* pair) { EXPECT_FALSE(pair->verified); });
}

}  // namespace
}  // namespace tritonforge::dataset
