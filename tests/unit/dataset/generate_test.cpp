#include "dataset/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "dataset/corpus.h"
#include "dataset/special.h"

namespace tritonforge::dataset {
namespace {

using ::testing::HasSubstr;

const ConversationTexts kTexts{
    .first =
        [](const Problem& problem) {
          return std::vector<tokenizer::Message>{{.role = "user", .content = problem.source}};
        },
    .feedback =
        [](const Verdict& verdict) {
          return tokenizer::Message{.role = "user", .content = fmt::format("feedback: {}", name_of(verdict.fault))};
        },
    .answer = [](const std::string& code) { return tokenizer::Message{.role = "assistant", .content = code}; }};

std::vector<Pair> generate(const GenerateOptions& options, const EvaluatePair& evaluate = {}) {
  std::vector<Pair> pairs;
  generate_pairs(options, evaluate, kTexts, [&](const Pair& pair) { pairs.push_back(pair); });
  return pairs;
}

std::string error_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Verdict verdict(bool correct, Fault fault = Fault::kNone) {
  Verdict made;
  made.correct = correct;
  made.fault = fault;
  return made;
}

TEST(Operators, TableIsSound) {
  std::set<std::string_view> names;
  for (const auto& op : all_operators()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(op.value == nullptr, op.tail != Tail::kNone) << op.name;
    EXPECT_EQ(op.operand != Operand::kNone, op.torch.find("{y}") != std::string_view::npos) << op.name;
    EXPECT_FALSE(op.triton.empty()) << op.name;
    for (const auto line : op.triton) EXPECT_TRUE(line.starts_with("{x} = ")) << op.name;
    EXPECT_EQ(op.has_c(), op.c.low < op.c.high) << op.name;
  }
  for (const auto& special : all_specials()) EXPECT_TRUE(names.insert(special.name).second) << special.name;
}

TEST(Operators, ImageFollowsTheFunction) {
  const auto exp = image_of(find_operator("exp"), {0, 1}, {}, 0, 0);
  EXPECT_NEAR(exp.range.low, 1, 1e-9);
  EXPECT_NEAR(exp.range.high, std::exp(1), 1e-9);
  EXPECT_FALSE(image_of(find_operator("relu"), {0.5, 2}, {}, 0, 0).changes);  // the identity there
  EXPECT_FALSE(image_of(find_operator("relu"), {-2, -1}, {}, 0, 0).changes);  // a constant there
  EXPECT_THAT(error_of([] { find_operator("sofmax"); }, ErrorKind::kUsage), HasSubstr("did you mean 'softmax'"));
}

TEST(Generate, DependsOnSeedAloneAndNotOnWorkers) {
  GenerateOptions options{.count = 120, .seed = 5, .workers = 1};
  const auto one = generate(options);
  options.workers = 4;
  std::atomic<int> calls{0};
  // An evaluator that answers out of order and refuses now and then.
  const EvaluatePair jagged = [&](const std::string&, const std::string&) -> Result<Verdict> {
    if (calls++ % 3 == 0) std::this_thread::yield();
    return verdict(true);
  };
  options.refinements = 0;
  const auto four = generate(options, jagged);
  ASSERT_EQ(one.size(), 120u);
  ASSERT_EQ(four.size(), 120u);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].id, four[i].id);
    EXPECT_EQ(one[i].solution, four[i].solution);
    EXPECT_FALSE(one[i].verified);
    EXPECT_TRUE(four[i].verified);
  }
  EXPECT_NE(generate({.count = 120, .seed = 6})[60].problem, one[60].problem);
}

TEST(Generate, SplitsKeepCombinationsApart) {
  const auto pairs = generate({.count = 1500, .seed = 3});
  const auto stats = stats_of(pairs);
  EXPECT_EQ(stats.leaked, 0u);
  EXPECT_EQ(stats.duplicates, 0u);
  EXPECT_GT(stats.by_split.at("holdout"), 100u);
  EXPECT_GT(stats.by_split.at("rl"), 60u);
  std::set<std::string> trained;
  for (const auto& pair : pairs) {
    if (pair.split == "train") trained.insert(pair.families.begin(), pair.families.end());
  }
  for (const auto* op : operators_of(FamilySet::kCompact))
    EXPECT_TRUE(trained.contains(std::string(op->name))) << op->name;
}

TEST(Generate, SplitDoesNotDependOnOrderOrSeed) {
  GenerateOptions options;
  EXPECT_EQ(split_of({"relu", "mul", "exp"}, options), split_of({"exp", "relu", "mul"}, options));
  EXPECT_EQ(split_of({"relu"}, options), "train");
  options.holdout = {"tanh", "mul+relu"};
  EXPECT_EQ(split_of({"tanh"}, options), "holdout");
  EXPECT_EQ(split_of({"exp", "tanh"}, options), "holdout");
  EXPECT_EQ(split_of({"relu", "mul"}, options), "holdout");
}

// A row may be wider than any block that a compiler ends with.
TEST(Generate, ABlockHoldsAWholeRowOnlyWhereAnOperationNeedsOne) {
  std::vector<const Operator*> families;
  for (const Operator& op : all_operators()) families.push_back(&op);
  Rng rng(7);
  int whole = 0, blocks = 0, flat = 0;
  for (int draw = 0; draw < 400; ++draw) {
    const auto made = draw_composition(PairStyle::kWide, families, rng);
    if (!made) continue;
    const std::string solution = solution_source(*made);
    const bool takes_a_row = solution.find("next_power_of_2") != std::string::npos;
    EXPECT_EQ(takes_a_row, made->needs_whole_rows()) << solution;
    EXPECT_EQ(solution.find("n_elements") != std::string::npos, !made->knows_rows()) << solution;
    ++(takes_a_row ? whole : made->knows_rows() ? blocks : flat);
  }
  EXPECT_GT(std::min({whole, blocks, flat}), 20);
}

TEST(Generate, RefusedSolutionsAreNotWritten) {
  std::atomic<int> refused{0};
  const EvaluatePair evaluate = [&](const std::string& problem, const std::string&) -> Result<Verdict> {
    if (problem.find("torch.amax") == std::string::npos) return verdict(true);
    ++refused;
    return verdict(false, Fault::kMismatch);
  };
  for (const auto& pair : generate({.count = 300, .refinements = 0, .workers = 2}, evaluate)) {
    EXPECT_EQ(pair.problem.find("torch.amax"), std::string::npos);
  }
  EXPECT_GT(refused, 0);
  const EvaluatePair never = [](const std::string&, const std::string&) -> Result<Verdict> {
    return verdict(false, Fault::kMismatch);
  };
  EXPECT_THAT(error_of([&] { generate({.count = 50}, never); }, ErrorKind::kInternal),
              HasSubstr("the evaluator refused"));
}

TEST(Generate, RefinementsCarryTheVerdictsFeedback) {
  const EvaluatePair evaluate = [](const std::string& problem, const std::string& candidate) -> Result<Verdict> {
    static std::set<std::string> solved;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    return solved.insert(problem).second ? verdict(true) : verdict(false, Fault::kCompileError);
  };
  int refinements = 0;
  for (const auto& pair : generate({.count = 100, .refinements = 0.5}, evaluate)) {
    if (pair.refinements.empty()) {
      EXPECT_EQ(pair.messages.size(), 2u);
      continue;
    }
    ++refinements;
    ASSERT_EQ(pair.messages.size(), 4u);
    EXPECT_EQ(pair.messages[1].content, pair.refinements[0].wrong);
    EXPECT_EQ(pair.messages[2].content, "feedback: compile_error");
    EXPECT_EQ(pair.messages[3].content, pair.solution);
    EXPECT_NE(pair.refinements[0].wrong, pair.solution);
  }
  EXPECT_GT(refinements, 25);
  EXPECT_LT(refinements, 75);
}

TEST(Generate, AWideSetHasRepairsOfTwoSteps) {
  const EvaluatePair evaluate = [](const std::string& problem, const std::string& candidate) -> Result<Verdict> {
    static std::set<std::string> solved;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (solved.insert(problem).second) return verdict(true);
    return verdict(false, candidate.size() % 2 == 0 ? Fault::kCompileError : Fault::kMismatch);
  };
  // How much of `wrong` lies between what it and the solution begin and end with.
  const auto changed = [](const std::string& wrong, const std::string& right) {
    const size_t shorter = std::min(wrong.size(), right.size());
    size_t begin = 0, end = 0;
    while (begin < shorter && wrong[begin] == right[begin]) ++begin;
    while (end < shorter - begin && wrong[wrong.size() - 1 - end] == right[right.size() - 1 - end]) ++end;
    return std::max(wrong.size(), right.size()) - begin - end;
  };
  int repairs = 0, of_two = 0, nearer = 0;
  for (const auto& pair : generate({.count = 300, .style = PairStyle::kWide, .refinements = 0.8}, evaluate)) {
    repairs += !pair.refinements.empty();
    if (pair.refinements.size() < 2) continue;
    ++of_two;
    EXPECT_EQ(pair.refinements.size(), 2u);
    EXPECT_EQ(pair.messages.size(), 6u);
    nearer += changed(pair.refinements[1].wrong, pair.solution) <= changed(pair.refinements[0].wrong, pair.solution);
    EXPECT_NE(pair.refinements[0].wrong, pair.refinements[1].wrong);
    EXPECT_NE(pair.refinements[0].feedback, pair.refinements[1].feedback) << "else there was no step forward";
  }
  EXPECT_GT(repairs, 200);
  EXPECT_GT(of_two, 30);
  EXPECT_GT(nearer, of_two * 9 / 10) << "the first attempt has a mistake more than the second";
}

TEST(Generate, AMistakeThatIsNotNoticedIsNoRefinement) {
  std::vector<Pair> pairs;
  const EvaluatePair always = [](const std::string&, const std::string&) -> Result<Verdict> { return verdict(true); };
  const auto report = generate_pairs({.count = 80, .style = PairStyle::kWide, .refinements = 1}, always, kTexts,
                                     [&](const Pair& pair) { pairs.push_back(pair); });
  EXPECT_GE(report.harmless_mistakes, 3 * 80);
  for (const auto& pair : pairs) EXPECT_TRUE(pair.refinements.empty());
}

// What recipes name by style, count and seed must not change under them.
TEST(Generate, SetsOfEarlierReleasesStayTheSame) {
  const auto sum = [](PairStyle style) {
    std::string text;
    for (const auto& pair : generate({.count = 400, .seed = 3, .style = style})) text += pair.problem + pair.solution;
    return checksum(text);
  };
  EXPECT_EQ(sum(PairStyle::kCompact), "4bcd9541e43ba45ce4315d85d8d30ba7");
  EXPECT_EQ(sum(PairStyle::kFull), "180f740bf47e23f8eaaefda279de3f04");
}

TEST(Generate, AnEvaluatorThatGoesAwayEndsIt) {
  std::atomic<int> calls{0};
  const EvaluatePair evaluate = [&](const std::string&, const std::string&) -> Result<Verdict> {
    if (++calls > 10) return Error(ErrorKind::kUnavailable, "http://x: connection refused");
    return verdict(true);
  };
  EXPECT_THAT(error_of([&] { generate({.count = 100, .workers = 3}, evaluate); }, ErrorKind::kUnavailable),
              HasSubstr("connection refused"));
}

TEST(Generate, UsageIsChecked) {
  EXPECT_THAT(error_of([] { generate({.families = {"rellu"}}); }, ErrorKind::kUsage), HasSubstr("did you mean 'relu'"));
  EXPECT_THAT(error_of([] { generate({.holdout = {"relu+mull"}}); }, ErrorKind::kUsage),
              HasSubstr("did you mean 'mul'"));
  EXPECT_THAT(error_of([] { generate({.families = {"swiglu"}}); }, ErrorKind::kUsage), HasSubstr("style 'wide'"));
  EXPECT_THAT(error_of([] { generate({.count = 0}); }, ErrorKind::kUsage), HasSubstr("count"));
  EXPECT_THAT(error_of([] { generate({.count = 5000, .families = {"neg"}}); }, ErrorKind::kUsage),
              HasSubstr("distinct pairs"));
}

TEST(Pair, JsonRoundTripAndErrors) {
  auto pairs = generate({.count = 40});
  pairs[3].refinements = {{"syntax", "wrong", "feedback"}};
  pairs[5].refinements = {{"syntax", "wrong", "feedback"}, {"no_mask", "nearer", "other feedback"}};
  std::string text;
  for (const auto& pair : pairs) text += to_json(pair).dump() + "\n";
  const auto again = parse_pairs_jsonl(text, "pairs.jsonl");
  ASSERT_EQ(again.size(), pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(to_json(again[i]), to_json(pairs[i]));
  EXPECT_EQ(again[5].refinements.at(1).wrong, "nearer");
  EXPECT_EQ(stats_of(again).several_refinements, 1u);
  EXPECT_THAT(error_of([&] { parse_pairs_jsonl(text + "{\"id\": 3}", "pairs.jsonl"); }, ErrorKind::kUsage),
              HasSubstr("pairs.jsonl:41: field 'id'"));
  Json bad = to_json(pairs[0]);
  bad["split"] = "hold_out";
  EXPECT_THAT(error_of([&] { pair_from_json(bad, "x"); }, ErrorKind::kUsage), HasSubstr("did you mean 'holdout'"));
  // A pairs file is a problem set too.
  EXPECT_EQ(parse_problems_jsonl(text, "pairs.jsonl").size(), pairs.size());
}

TEST(Corpus, SharesNoFamilyWithWhatIsTaught) {
  for (const auto* taught : operators_of(FamilySet::kCompact)) EXPECT_NE(taught->set, FamilySet::kCorpus);
  std::set<std::string> texts;
  for (uint64_t i = 0; i < 300; ++i) {
    const auto text = corpus_text(1, i);
    EXPECT_EQ(text, corpus_text(1, i));
    texts.insert(text);
    // Calls that only taught families have.
    for (const char* call : {"torch.softmax", "torch.sigmoid", "torch.exp(", "tl.exp(", "tl.sigmoid", "torch.relu("}) {
      EXPECT_EQ(text.find(call), std::string::npos) << text;
    }
  }
  EXPECT_GT(texts.size(), 290u);
}

}  // namespace
}  // namespace tritonforge::dataset
