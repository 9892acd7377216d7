#include "evaluate/reference_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/error.h"
#include "evaluate/zygote.h"
#include "unit/evaluate/sample_problem.h"

namespace tritonforge::evaluate {
namespace {

ReferenceSpec spec_of(const std::string& source = kProblem) {
  return {.source = source, .init_seed = 1, .trials = {{2, 3}, {4, 5}}, .timed = true};
}
Deadline soon() { return Deadline::after(60); }

class ReferenceCacheTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { zygote = std::make_unique<Zygote>(ZygoteOptions{}); }
  static void TearDownTestSuite() { zygote.reset(); }
  // The folder names the process.
  static fs::path process_of(ReferenceCache& cache, const std::string& key, bool fit = true) {
    fs::path folder;
    cache.with_process(key, spec_of(), {}, soon(), [&](Child& process) {
      folder = process.folder();
      return fit;
    });
    return folder;
  }
  static std::unique_ptr<Zygote> zygote;
};
std::unique_ptr<Zygote> ReferenceCacheTest::zygote;

TEST_F(ReferenceCacheTest, DataIsMadeOnceForAllThatAsk) {
  ReferenceCache cache(*zygote, 1 << 20, 0);
  std::vector<std::future<std::shared_ptr<const ReferenceData>>> asked;
  for (int i = 0; i < 4; ++i)
    asked.push_back(std::async(std::launch::async, [&] { return cache.data("a", spec_of(), {}, soon()); }));
  const auto first = asked[0].get();
  for (size_t i = 1; i < asked.size(); ++i) EXPECT_EQ(asked[i].get(), first);
  EXPECT_EQ(first->trials.size(), 2u);
  EXPECT_EQ(cache.processes(), 0u);
}

TEST_F(ReferenceCacheTest, AProcessIsKeptUntilItFailsOrOthersAreLater) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  cache.data("a", spec_of(), {}, soon());
  EXPECT_EQ(cache.processes(), 1u);
  const auto first = process_of(cache, "a");
  EXPECT_EQ(process_of(cache, "a", false), first);
  const auto second = process_of(cache, "a");
  EXPECT_NE(second, first);
  process_of(cache, "b");
  EXPECT_EQ(process_of(cache, "a"), second);
  process_of(cache, "c");
  EXPECT_EQ(cache.processes(), 2u);
  EXPECT_EQ(process_of(cache, "a"), second);
  process_of(cache, "b");  // pushes out c
  process_of(cache, "c");  // and a
  EXPECT_NE(process_of(cache, "a"), second);
}

TEST_F(ReferenceCacheTest, AProcessThatDiedIsReplaced) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  const auto first = process_of(cache, "a");
  cache.with_process("a", spec_of(), {}, soon(), [&](Child& process) {
    process.kill();
    process.ending(soon());
    return true;  // it died later than its last answer
  });
  EXPECT_NE(process_of(cache, "a"), first);
}

TEST_F(ReferenceCacheTest, AProcessThatFailedWhileItStartedOrWasUsedIsNotUsedAgain) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  const auto never = [](Child&) -> bool { throw std::logic_error("used"); };
  EXPECT_THROW(cache.with_process("a", spec_of("raise ValueError(3)"), {}, soon(), never), ProblemFault);
  const auto first = process_of(cache, "a");
  EXPECT_THROW(cache.with_process("a", spec_of(), {}, soon(), never), std::logic_error);
  EXPECT_NE(process_of(cache, "a"), first);
}

TEST_F(ReferenceCacheTest, ABaselineIsMeasuredOnceForAllThatAsk) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  std::atomic<int> measured = 0;
  const auto ask = [&] {
    return cache.compiled("a", spec_of(), {}, soon(), [&](Child& process) {
      EXPECT_TRUE(process.alive());
      ++measured;
      return CompiledBaseline{.eager_over_it = {2, 3}, .pairs = 20};
    });
  };
  EXPECT_THROW(
      cache.compiled("a", spec_of(), {}, soon(), [](Child&) -> CompiledBaseline { throw std::logic_error("x"); }),
      std::logic_error);
  std::vector<std::future<CompiledBaseline>> asked;
  for (int i = 0; i < 4; ++i) asked.push_back(std::async(std::launch::async, [&] { return ask(); }));
  for (auto& one : asked) EXPECT_EQ(one.get().pairs, 20u);
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(cache.processes(), 0u);
  EXPECT_EQ(cache.compiled("b", spec_of(), {}, soon(), [](Child&) { return CompiledBaseline{.unavailable = "no"}; })
                .unavailable,
            "no");
  EXPECT_EQ(cache.compiled("b", spec_of(), {}, soon(), [](Child&) -> CompiledBaseline { throw std::logic_error("x"); })
                .unavailable,
            "no");
}

TEST_F(ReferenceCacheTest, WhatIsCompiledAheadIsThereForTheFirstMeasurement) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  const auto ahead = [&](const std::string& key) {
    fs::path process;
    cache.compile_ahead(key, spec_of(), {}, soon(), [&](Child& child) { process = child.folder(); });
    return process;
  };
  const fs::path compiling = ahead("a");
  EXPECT_FALSE(compiling.empty());
  EXPECT_EQ(ahead("a"), "") << "it is compiled already";
  cache.compiled("a", spec_of(), {}, soon(), [&](Child& process) {
    EXPECT_EQ(process.folder(), compiling);
    return CompiledBaseline{};
  });
  EXPECT_EQ(ahead("a"), "") << "its time is known";
  EXPECT_THROW(cache.compile_ahead("b", spec_of(), {}, soon(), [](Child&) { throw TimingFault{Fault::kTimeout, "x"}; }),
               TimingFault);
  EXPECT_FALSE(ahead("b").empty()) << "one that failed is not kept";
  EXPECT_EQ(cache.processes(), 2u);
}

TEST_F(ReferenceCacheTest, ABaselineThatFailsIsNotMeasuredAgainByEveryCandidate) {
  ReferenceCache cache(*zygote, 1 << 20, 2);
  int measured = 0;
  for (int i = 0; i < 3; ++i) {
    const CompiledBaseline found = cache.compiled("a", spec_of(), {}, soon(), [&](Child&) -> CompiledBaseline {
      ++measured;
      throw TimingFault{Fault::kTimeout, "it did not finish"};
    });
    EXPECT_EQ(found.unavailable, "it did not finish");
    EXPECT_TRUE(found.may_pass);
  }
  EXPECT_EQ(measured, 1);
}

TEST_F(ReferenceCacheTest, WaitingEndsAtTheDeadline) {
  ReferenceCache cache(*zygote, 1 << 20, 1);
  cache.with_process("a", spec_of(), {}, soon(), [&](Child&) {
    std::async(std::launch::async, [&] {
      try {
        cache.data("a", spec_of(), {}, Deadline::after(0.05));
        ADD_FAILURE() << "it did not wait";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      }
    }).get();
    return true;
  });
}

TEST_F(ReferenceCacheTest, AProblemsOwnErrorIsNotRemembered) {
  ReferenceCache cache(*zygote, 1 << 20, 1);
  EXPECT_THROW(cache.data("a", spec_of("raise ValueError(3)"), {}, soon()), ProblemFault);
  EXPECT_EQ(cache.processes(), 0u);
  EXPECT_EQ(cache.data("a", spec_of(), {}, soon())->trials.size(), 2u);
}

}  // namespace
}  // namespace tritonforge::evaluate
