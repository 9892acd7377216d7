#include "router/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "router/options.h"

namespace tritonforge::router {
namespace {

using ::testing::HasSubstr;

WorkerPtr worker(const std::string& name) { return std::make_shared<Worker>("http://" + name, BreakerOptions{}); }

std::vector<WorkerPtr> workers(int n) {
  std::vector<WorkerPtr> out;
  for (int i = 0; i < n; ++i) out.push_back(worker(std::to_string(i)));
  return out;
}

// A prompt whose blocks are all of this text.
std::string prompt(const std::string& text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out.substr(0, bytes);
}

TEST(Policy, UnknownNameNamesTheNearest) {
  try {
    make_policy("least_load");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'least_loaded'?"));
  }
}

TEST(Policy, TokensBreakTies) {
  const auto a = worker("a"), b = worker("b");
  a->begin(1000);
  b->begin(10);
  const auto policy = make_least_loaded();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(policy->pick({a, b}, {}), b);
}

TEST(Policy, ForgottenSessionsDoNotGrowWithoutEnd) {
  const auto a = worker("a"), b = worker("b");
  const auto policy = make_session_sticky(make_round_robin(), 2);
  const auto first = policy->pick({a, b}, {.session = "1"});
  policy->pick({a, b}, {.session = "2"});
  EXPECT_EQ(policy->pick({a, b}, {.session = "1"}), first);  // now the younger one
  policy->pick({a, b}, {.session = "3"});                    // "2" is forgotten
  EXPECT_EQ(policy->pick({a, b}, {.session = "1"}), first);
  policy->pick({a, b}, {});  // the next turn is a's
  EXPECT_EQ(policy->pick({a, b}, {.session = "2"}), a);
}

TEST(Policy, LeastTokensWeighsTokensBeforeRequests) {
  const auto all = workers(2);
  all[0]->begin(5000);
  for (int i = 0; i < 3; ++i) all[1]->begin(100);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(make_least_tokens()->pick(all, {}), all[1]);
  EXPECT_EQ(make_least_loaded()->pick(all, {}), all[0]);
}

TEST(Policy, PowerOfTwoSpreadsAndSparesASlowWorker) {
  const auto all = workers(8);
  const auto policy = make_power_of_two();
  for (int i = 0; i < 8000; ++i) policy->pick(all, {})->begin(1);
  // Of two drawn at random the shorter queue: all are within a few of the mean, where one draw spreads by +-30.
  for (const auto& one : all) EXPECT_NEAR(static_cast<double>(one->load()), 1000, 10) << one->url();
  for (int i = 0; i < 100; ++i) all[3]->begin(1);
  for (int i = 0; i < 400; ++i) EXPECT_NE(policy->pick(all, {}), all[3]);
}

TEST(Policy, ConsistentHashSpreadsAndMovesOnlyTheShareOfWhoLeft) {
  const auto all = workers(10);
  const auto policy = make_consistent_hash(), other_router = make_consistent_hash();
  std::map<WorkerPtr, int> shares;
  std::vector<WorkerPtr> fewer(all.begin(), all.end() - 1);
  for (int i = 0; i < 10000; ++i) {
    const std::string session = "session-" + std::to_string(i);
    const auto home = policy->pick(all, {.session = session});
    ++shares[home];
    // Another router, whose list is in another order, agrees.
    EXPECT_EQ(other_router->pick({all.rbegin(), all.rend()}, {.session = session}), home);
    const auto without = policy->pick(fewer, {.session = session});
    EXPECT_TRUE(home == all.back() || without == home) << session;
  }
  // Binomial: 1,000 +- 30, five sigma.
  for (const auto& one : all) EXPECT_NEAR(shares[one], 1000, 150) << one->url();
}

TEST(Policy, ConsistentHashOfPromptsWithoutASession) {
  const auto all = workers(4);
  const auto policy = make_consistent_hash();
  std::set<WorkerPtr> used;
  for (int i = 0; i < 64; ++i) {
    const std::string text = prompt("problem " + std::to_string(i) + " ", 1024);
    const auto home = policy->pick(all, {.prompt = text});
    EXPECT_EQ(policy->pick(all, {.prompt = text + "and its next turn"}), home);
    used.insert(home);
  }
  EXPECT_EQ(used.size(), 4u);
}

TEST(Policy, CacheAwareReturnsToThePrefixAndSpreadsWhatIsNew) {
  const auto all = workers(4);
  const auto policy = make_cache_aware();
  std::map<int, WorkerPtr> home;
  for (int problem = 0; problem < 40; ++problem) {
    home[problem] = policy->pick(all, {.tokens = 100, .prompt = prompt("problem " + std::to_string(problem), 4096)});
    home[problem]->begin(100);
  }
  for (const auto& one : all) EXPECT_EQ(one->load(), 10) << one->url();
  for (int problem = 0; problem < 40; ++problem) {
    const std::string next_turn = prompt("problem " + std::to_string(problem), 4096) + prompt("answer", 2048);
    EXPECT_EQ(policy->pick(all, {.tokens = 100, .prompt = next_turn}), home[problem]);
  }
  // Without its worker a prefix finds a new one, and stays there.
  const std::vector<WorkerPtr> fewer(all.begin() + 1, all.end());
  for (int problem = 0; problem < 40; ++problem) {
    const std::string text = prompt("problem " + std::to_string(problem), 4096);
    const auto now = policy->pick(fewer, {.tokens = 100, .prompt = text});
    EXPECT_TRUE(home[problem] == all[0] || now == home[problem]) << problem;
    EXPECT_EQ(policy->pick(fewer, {.tokens = 100, .prompt = text}), now);
  }
}

TEST(Policy, CacheAwareSpillsAPopularPrefixAtTheBound) {
  const auto all = workers(2);
  const auto policy = make_cache_aware();
  const std::string text = prompt("the same for all ", 4096);
  const auto home = policy->pick(all, {.tokens = 100, .prompt = text});
  const auto other = home == all[0] ? all[1] : all[0];
  // Outstanding h against the bound 1.5 * h / 2 + 100: home while h <= 400, then the other.
  for (int i = 0; i < 4; ++i) {
    home->begin(100);
    EXPECT_EQ(policy->pick(all, {.tokens = 100, .prompt = text}), home) << i;
  }
  home->begin(100);
  EXPECT_EQ(policy->pick(all, {.tokens = 100, .prompt = text}), other);
}

TEST(Policy, CacheAwareIgnoresABeginningThatIsLessThanHalf) {
  const auto all = workers(2);
  const auto policy = make_cache_aware();
  const std::string system = prompt("You write kernels. ", 1024);
  const auto first = policy->pick(all, {.tokens = 10, .prompt = system + prompt("a", 1280)});
  first->begin(10);
  EXPECT_NE(policy->pick(all, {.tokens = 10, .prompt = system + prompt("b", 1280)}), first);
}

TEST(Policy, CacheAwareForgetsTheOldest) {
  const auto all = workers(2);
  const auto policy = make_cache_aware(/*capacity=*/8);
  const std::string old = prompt("old", 1024);
  const auto home = policy->pick(all, {.tokens = 10, .prompt = old});
  policy->pick(all, {.tokens = 10, .prompt = prompt("one", 1024)});
  EXPECT_EQ(policy->pick(all, {.tokens = 10, .prompt = old}), home);
  policy->pick(all, {.tokens = 10, .prompt = prompt("two", 1024)});
  policy->pick(all, {.tokens = 10, .prompt = prompt("three", 1024)});
  home->begin(1);  // the bound alone would still let it in
  EXPECT_NE(policy->pick(all, {.tokens = 10, .prompt = old}), home);
}

TEST(Policy, CacheAwareKnowsTheLastSixteenWorkersOfAPrefix) {
  const auto all = workers(17);
  const auto policy = make_cache_aware();
  const std::string text = prompt("the same for all ", 1024);
  for (const auto& one : all) policy->pick({one}, {.tokens = 10, .prompt = text});
  const auto fresh = worker("fresh");
  for (const auto& one : all) one->begin(1);  // the bound would let them in
  EXPECT_EQ(policy->pick({all[1], fresh}, {.tokens = 10, .prompt = text}), all[1]);
  EXPECT_EQ(policy->pick({all[0], fresh}, {.tokens = 10, .prompt = text}), fresh);
}

TEST(Policy, EveryNamedOneKeepsASessionTogether) {
  for (const auto& name : policy_names()) {
    const auto policy = make_policy(name);
    const auto all = workers(3);
    const auto home = policy->pick(all, {.session = "s"});
    home->begin(10);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(policy->pick(all, {.session = "s"}), home) << name;
  }
}

}  // namespace
}  // namespace tritonforge::router
