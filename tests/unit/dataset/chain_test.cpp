#include "dataset/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "base/error.h"
#include "dataset/mistakes.h"
#include "dataset/operators.h"

namespace tritonforge::dataset {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kHalve = R"(# Halves rows.

# takes: rows images
# gives: end
# bounds: -2.5..2.5
# choose B: 32 | 64
# epilogue: 1..2

# --- inputs ---
other = torch.randn(batch_size, _IN_)

# --- forward ---
x = x / 2
x = _EPILOGUE_(x)

# --- kernel ---
def _NAME_(x):
    _KERNEL_(x, _B_)
    acc = _EPILOGUE_(acc)

# --- call ---
x = _NAME_(x, other)
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kHalve);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

std::vector<const Part*> every_part() {
  std::vector<const Part*> parts;
  for (const auto& part : all_parts()) parts.push_back(&part);
  return parts;
}

TEST(PartFile, SaysWhatItTakesAndGives) {
  const auto parts = parse_part_file("halve.py", kHalve);
  ASSERT_EQ(parts.size(), 1u);
  const Part& part = parts[0];
  EXPECT_EQ(part.name, "halve");
  EXPECT_EQ(part.takes, (std::vector{Form::kRows, Form::kImages}));
  EXPECT_EQ(part.gives, Form::kEnd);
  EXPECT_TRUE(part.first) << "what has inputs of its own can only begin";
  EXPECT_EQ(part.bounds.low, -2.5);
  EXPECT_EQ(part.bounds.high, 2.5);
  EXPECT_EQ(part.init, "");
  EXPECT_EQ(part.call, "x = _NAME_(x, other)\n");
}

TEST(PartFile, FaultsAreNamedWithFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {with("rows images", "rows image"), "halve.py:3: unknown form 'image' (did you mean 'images'?)"},
      {with("gives: end", "gives: ends"), "halve.py:4: unknown form 'ends' (did you mean 'end'?)"},
      {with("-2.5..2.5", "-2.5..x"), "halve.py:5: 'x' is not a number"},
      {with("-2.5..2.5", "2..1"), "halve.py:5: '2..1' is not LOW..HIGH"},
      {with("# takes: rows images\n", ""), "halve.py:8: no declaration 'takes' before the texts"},
      {with("# gives: end", "# place: last"), "halve.py:4: a place is 'first', not 'last'"},
      {with("x, _B_", "x, _C_"), "halve.py:18: _C_ is not declared (did you mean 'B'?)"},
      {with("    acc = _EPILOGUE_(acc)\n", ""), "halve.py:18: this text has no line 'x = _EPILOGUE_(x)'"},
      {with("x = _NAME_(x, other)", "x = _EPILOGUE_(x)"), "halve.py:22: an epilogue, and no declaration"},
      {with("# --- kernel ---\n", ""), "halve.py:20: '# --- kernel ---' comes first"},
      {with("# --- call ---", "# --- inputs ---"), "halve.py:21: '# --- inputs ---' comes too late"},
      {with("# --- call ---\nx = _NAME_(x, other)\n", ""), "halve.py:20: no line '# --- call ---'"},
      {with("choose B: 32 | 64", "set B: _C_\n# set C: _B_"), "halve.py:19: _B_ is set to what is set, five deep"},
      {with("rows images", "rows end"), "halve.py:3: nothing comes behind 'end'"},
  };
  for (const auto& [text, message] : cases) {
    try {
      parse_part_file("halve.py", text);
      ADD_FAILURE() << "no error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), StartsWith(message)) << text;
    }
  }
}

TEST(Parts, CanStandBesideEachOther) {
  EXPECT_GE(all_parts().size(), 70u);
  std::map<std::string, std::string> functions, members;  // whose they are
  std::set<std::string_view> names;
  for (const auto& op : all_operators()) names.insert(op.name);
  for (const auto& special : all_specials()) names.insert(special.name);
  for (const auto& part : all_parts()) {
    EXPECT_TRUE(names.insert(part.name).second) << part.name;
    Rng rng(1);
    const auto draw = draw_chain({&part}, rng, &part);
    EXPECT_EQ(draw.families[0], part.name);
    for (const auto& function : matches(draw.solution, R"(\ndef (\w+)\()")) {
      const auto [found, fresh] = functions.emplace(function, part.name);
      EXPECT_TRUE(fresh) << function << " of " << part.name << " and " << found->second;
    }
    for (const auto& member : matches(part.init, R"((?:^|\n)self\.(\w+) =)")) {
      const auto [found, fresh] = members.emplace(member, part.name);
      EXPECT_TRUE(fresh) << member << " of " << part.name << " and " << found->second;
    }
  }
}

TEST(Chain, EachPartTakesWhatTheOneBeforeGives) {
  const auto parts = every_part();
  std::set<std::string> problems, combinations;
  std::map<size_t, int> by_kernels;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Rng rng(seed), again(seed);
    const auto draw = draw_chain(parts, rng);
    EXPECT_EQ(draw.solution, draw_chain(parts, again).solution);
    problems.insert(draw.problem);
    std::string combination;
    std::optional<Form> at;
    for (const auto& family : draw.families) {
      combination += family + "+";
      const Part* part = find_part(family);
      if (part == nullptr) continue;  // of an epilogue
      if (!at) at = part->takes[0];
      else EXPECT_FALSE(part->first) << combination;
      // The first one's form is what its problem draws.
      if (family == draw.families[0]) {
        at = draw.problem.find("depth = ") != std::string::npos     ? Form::kVolumes
             : draw.problem.find("samples = ") != std::string::npos ? Form::kSignals
             : draw.problem.find("height = ") != std::string::npos  ? Form::kImages
             : draw.problem.find("length = ") != std::string::npos  ? Form::kSequences
                                                                    : Form::kRows;
      }
      EXPECT_THAT(part->takes, ::testing::Contains(*at)) << combination;
      at = part->gives.value_or(*at);
      EXPECT_THAT(draw.solution, HasSubstr("        x = "));
    }
    combinations.insert(combination);
    ++by_kernels[matches(draw.solution, R"((@triton\.jit)\n)").size()];
    for (const auto* text : {&draw.problem, &draw.solution}) {
      EXPECT_TRUE(matches(*text, R"(\b(_[A-Z]+_)\b)").empty()) << *text;
      EXPECT_EQ(text->find("_EPILOGUE_"), std::string::npos);
    }
  }
  EXPECT_GT(problems.size(), 960u);
  EXPECT_GT(combinations.size(), 700u);
  EXPECT_GT(by_kernels[3], 100);
}

TEST(Mistakes, EveryKindHasAnOccasionAndChangesTheSolution) {
  const auto parts = every_part();
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng(seed), again(seed + 1);
    const auto draw = draw_chain(parts, rng);
    Rng same = again;
    const auto mistake = spoil(draw.solution, again);
    ASSERT_TRUE(mistake) << draw.solution;
    EXPECT_NE(mistake->source, draw.solution) << mistake->kind;
    EXPECT_THAT(mistake->source, HasSubstr("class ModelNew")) << mistake->kind;
    EXPECT_EQ(spoil(draw.solution, same)->source, mistake->source);
    ++seen[mistake->kind];
  }
  for (const auto kind : kinds_of_mistakes()) EXPECT_GT(seen[std::string(kind)], 0) << kind;
  EXPECT_LT(seen["syntax"], 300);
  Rng rng(1);
  EXPECT_FALSE(spoil("x = 1\n", rng));
}

}  // namespace
}  // namespace tritonforge::dataset
