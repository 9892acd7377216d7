#include "dataset/family_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGood = R"(# Doubles: a file of two families.

# order: 4
# epilogue: 1..2
# choose BLOCK: 32 | 64
# choose SUPER: | Model, self

# family: one
# set INPUT: rows, cols
# choose rows: 5
# choose cols: 6 | 7

# family: two
# set INPUT: rows
# choose rows: 8

# --- problem ---
class Model:
    def __init__(self):
        super(_SUPER_).__init__()
        out = _EPILOGUE_(out)


_SIZES_
x = (_INPUT_)


# --- solution ---
kernel_BLOCK = _BLOCK_
    acc = _EPILOGUE_(acc)
)";

// kGood with its first `from` replaced.
std::string with(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    parse_family_file("doubles.py", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(FamilyFile, FamiliesOfOneFileDifferInWhatTheyDeclare) {
  const auto file = parse_family_file("doubles.py", kGood);
  EXPECT_EQ(file.order, 4);
  ASSERT_EQ(file.families.size(), 2u);
  const auto& one = file.families[0];
  EXPECT_EQ(one.name, "one");
  EXPECT_EQ(one.min_epilogue, 1u);
  EXPECT_EQ(one.max_epilogue, 2u);
  std::vector<std::string> drawn;  // its own come first
  for (const auto& choice : one.choices) drawn.push_back(choice.name);
  EXPECT_THAT(drawn, ElementsAre("rows", "cols", "BLOCK", "SUPER"));
  EXPECT_THAT(one.choices[3].alternatives, ElementsAre("", "Model, self"));
  EXPECT_EQ(
      one.problem,
      "class Model:\n    def __init__(self):\n        super(_SUPER_).__init__()\n        out = _EPILOGUE_(out)\n\n\n"
      "rows = _rows_\ncols = _cols_\nx = (rows, cols)\n");
  EXPECT_EQ(one.solution, "kernel_BLOCK = _BLOCK_\n    acc = _EPILOGUE_(acc)\n");
  EXPECT_THAT(file.families[1].problem, HasSubstr("rows = _rows_\nx = (rows)\n"));
}

TEST(FamilyFile, AFamilyIsCalledAsItsFile) {
  const auto file = parse_family_file("halve.py",
                                      "# order: 1\n\n# order: 2\n# --- problem ---\na\n\n# --- solution ---\nb\n");
  EXPECT_EQ(file.order, 2) << "the first comment is prose, whatever it says";
  ASSERT_EQ(file.families.size(), 1u);
  EXPECT_EQ(file.families[0].name, "halve");
  EXPECT_EQ(file.families[0].problem, "a\n");
  EXPECT_EQ(file.families[0].solution, "b\n");
}

TEST(FamilyFile, AnEpilogueTakesItsVariableAndIndentation) {
  const auto special = parse_family_file("doubles.py", kGood).families[0];
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const auto draw = draw_special(special, rng);
    ASSERT_GE(draw.families.size(), 2u);
    ASSERT_LE(draw.families.size(), 3u);
    EXPECT_THAT(draw.problem, HasSubstr("        out = "));
    EXPECT_THAT(draw.solution, HasSubstr("    acc = "));
    EXPECT_EQ((draw.problem + draw.solution).find("_EPILOGUE_"), std::string::npos);
    EXPECT_EQ(draw.solution.find("_BLOCK_"), std::string::npos);
    EXPECT_THAT(draw.solution, StartsWith("kernel_BLOCK = "));
  }
}

TEST(FamilyFile, FaultsAreNamedWithFileAndLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {with("choose BLOCK", "chose BLOCK"), "doubles.py:5: unknown declaration 'chose' (did you mean 'choose'?)"},
      {with("# order: 4\n", ""), "doubles.py:16: no declaration 'order'"},
      {with("order: 4", "order: four"), "doubles.py:3: 'four' is not a number"},
      {with("order: 4", "order: 0"), "doubles.py:3: places are counted from 1"},
      {with("1..2", "2..1"), "doubles.py:4: '2..1' is not LOW..HIGH"},
      {with("1..2", "1"), "doubles.py:4: '' is not a number"},
      {with("# epilogue: 1..2\n", ""), "doubles.py:20: an epilogue, and no declaration"},
      {with("        out = _EPILOGUE_(out)\n", ""), "doubles.py:24: this text has no line 'x = _EPILOGUE_(x)'"},
      {with("out = _EPILOGUE_(out)", "out = _EPILOGUE_(acc)"), "doubles.py:21: an epilogue is a line"},
      {with("# choose cols: 6 | 7", "# choose cols:"), "doubles.py:11: 'cols' has no alternatives"},
      {with("choose cols", "choose rows"), "doubles.py:11: 'rows' is declared twice"},
      {with("choose BLOCK", "choose SIZES"), "doubles.py:5: 'SIZES' is declared twice"},
      {with("choose BLOCK", "choose BLOCK SIZE"), "doubles.py:5: 'BLOCK SIZE' is not a name"},
      {with("set INPUT: rows, cols", "set INPUT:"), "doubles.py:9: 'INPUT' is set to nothing"},
      {with("= _BLOCK_", "= _BLOK_"), "doubles.py:29: _BLOK_ is not declared (did you mean 'BLOCK'?)"},
      {with("= _BLOCK_", "= 32"), "doubles.py:5: 'BLOCK' is used nowhere"},
      {with("x = (_INPUT_)", "x = 1"), "doubles.py:9: 'INPUT' is used nowhere"},
      {with("\n_SIZES_", "\n  _SIZES_"), "doubles.py:24: _SIZES_ is a line of its own"},
      {with("# --- problem ---\n", ""), "doubles.py:17: not a declaration"},
      {with("# --- solution ---\n", ""), "doubles.py:29: no line '# --- solution ---'"},
      {std::string(kGood.substr(0, kGood.find("# --- sol"))) + "# --- solution ---\n\n",
       "doubles.py:28: an empty text"},
      {"# order: 1\n\n# --- solution ---\n", "doubles.py:3: '# --- problem ---' comes first"},
      {"", "doubles.py:0: no line '# --- problem ---'"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(error_of(text), StartsWith(message)) << text;
}

TEST(FamilyFile, PlacesAndNamesAreUnique) {
  const auto error = [](std::vector<std::pair<std::string_view, std::string_view>> files) -> std::string {
    try {
      parse_family_files(files);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string other = with("order: 4", "order: 5");
  EXPECT_EQ(error({{"a.py", kGood}, {"b.py", kGood}}), "b.py: order 4 is that of a.py too");
  EXPECT_EQ(error({{"a.py", kGood}, {"b.py", other}}), "b.py: a second family 'one'");
  const std::string_view halve = "# order: 3\n\n# order: 3\n# --- problem ---\na\n# --- solution ---\nb\n";
  const std::vector<std::pair<std::string_view, std::string_view>> files{{"a.py", kGood}, {"halve.py", halve}};
  const auto all = parse_family_files(files);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "halve") << "by order, not by name";
}

TEST(FamilyFile, EveryFileOfTheBinaryIsRead) {
  EXPECT_EQ(family_files.size(), 12u);
  std::vector<std::string> names;
  for (const auto& special : all_specials()) names.push_back(special.name);
  // The order of the draw: a set made with a seed stays the same only while it does.
  EXPECT_THAT(names, ElementsAre("matmul", "bmm", "linear", "transpose", "outer", "layer_norm_affine", "mse_loss",
                                 "cross_entropy", "embedding", "cumsum", "argmax", "conv1d", "conv2d", "conv2d_strided",
                                 "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear_layer",
                                 "linear_no_bias", "group_norm_layer", "max_pool2d", "avg_pool2d"));
}

}  // namespace
}  // namespace tritonforge::dataset
