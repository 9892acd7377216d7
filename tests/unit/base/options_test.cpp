#include "base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "base/options_json.h"

namespace tritonforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Colour { kRed, kDarkBlue };
constexpr std::array<std::string_view, 2> names_of(Colour) { return {"red", "dark_blue"}; }

struct Part {
  double share = 0.5;
  int workers = 4;
  template <typename V>
  void describe(V& v) {
    v("share", share, above(0), at_most(1), "of the whole");
    v("workers", workers, at_least(1), "at once");
  }
  void validate() const {
    if (share > 0.9 && workers == 1) fail(ErrorKind::kUsage, "'share' above 0.9 needs two workers");
  }
};

struct Everything {
  std::string model, note;
  bool open = false, reuse = true;
  int64_t turns = 3;
  size_t queue = 10;
  double wait_s = 1.5;
  Colour colour = Colour::kRed;
  std::string dtype = "float32";
  std::filesystem::path folder = "a/b";
  std::vector<int64_t> levels = {1};
  std::vector<Colour> colours;
  Part part, flat;
  template <typename V>
  void describe(V& v) {
    v("model", model, by_run(), "");
    v("note", note, "");
    v("open", open, "");
    v("reuse", reuse, "");
    v("turns", turns, in(1, 16), "");
    v("queue", queue, "");
    v("wait_s", wait_s, at_least(0), "");
    v("colour", colour, "");
    v("dtype", dtype, one_of({"float32", "bfloat16"}), "");
    v("folder", folder, "");
    v("levels", levels, at_least(1), spelled("level"), "");
    v("colours", colours, "");
    v("part", part, "");
    v.part(flat);
  }
};

struct Recipe {
  Everything role;
  template <typename V>
  void describe(V& v) {
    v("role", role, in_recipe(), "");
  }
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}
std::string yaml_error(const std::string& text) {
  return error_of([&] { load_config<Everything>(parse_yaml(text, "x"), "x"); });
}
std::string json_error(const std::string& text) {
  return error_of([&] { options_from_json<Everything>(parse_json(text, "x"), "x"); });
}

TEST(Options, AValueThatIsNotAllowedIsRefusedByPathAndRuleInYamlAndJson) {
  EXPECT_EQ(yaml_error("turns: 17"), "x: 'turns' must be between 1 and 16, not 17");
  EXPECT_EQ(json_error(R"({"turns": 17})"), "x: 'turns' must be between 1 and 16, not 17");
  EXPECT_EQ(yaml_error("turns: 16"), "no error");
  EXPECT_EQ(yaml_error("part: {share: 0}"), "x: 'part.share' must be above 0 and at most 1, not 0");
  EXPECT_EQ(yaml_error("part: {share: 1}"), "no error");
  EXPECT_EQ(json_error(R"({"part": {"share": 1.5}})"), "x: 'part.share' must be above 0 and at most 1, not 1.5");
  EXPECT_EQ(yaml_error("wait_s: .nan"), "x: 'wait_s' must be a finite number, not nan");
  EXPECT_THAT(yaml_error("wait_s: .inf"), HasSubstr("finite"));
  EXPECT_EQ(yaml_error("levels: [1, 0]"), "x: 'levels' must be at least 1, not 0");
}

TEST(Options, AnIntegerMustFitItsMember) {
  EXPECT_EQ(yaml_error("queue: -1"), "x: 'queue' must be between 0 and 9223372036854775807, not -1");
  EXPECT_THAT(json_error(R"({"part": {"workers": 4294967297}})"), HasSubstr("2147483647, not 4294967297"));
  EXPECT_THAT(json_error(R"({"turns": 18446744073709551615})"), HasSubstr("'turns' must be an integer"));
  EXPECT_THAT(json_error(R"({"turns": 2.5})"), HasSubstr("'turns' must be an integer, not '2.5'"));
  EXPECT_THAT(json_error(R"({"turns": true})"), HasSubstr("an integer"));
}

TEST(Options, AnEnumAndAClosedSetNameTheNearest) {
  EXPECT_EQ(yaml_error("colour: dark_bleu"), "x: 'colour': unknown value 'dark_bleu' (did you mean 'dark_blue'?)");
  EXPECT_THAT(json_error(R"({"colours": ["red", "rot"]})"), HasSubstr("'colours': unknown value 'rot'"));
  EXPECT_THAT(json_error(R"({"dtype": "float23"})"), HasSubstr("did you mean 'float32'"));
  EXPECT_THAT(json_error(R"({"dtype": 1})"), HasSubstr("'dtype' must be a text, not '1'"));
  const auto read = load_config<Everything>(parse_yaml("colour: dark_blue\ncolours: [red, dark_blue]", "x"), "x");
  EXPECT_EQ(read.colour, Colour::kDarkBlue);
  EXPECT_THAT(read.colours, ElementsAre(Colour::kRed, Colour::kDarkBlue));
}

TEST(Options, JsonReadsWhatItWroteAndTakesNullForTheDefault) {
  Everything given;
  given.note = "\"quoted\"\n";
  given.reuse = false;
  given.colour = Colour::kDarkBlue;
  given.levels = {3, 4};
  given.part.workers = 9;
  given.flat.share = 0.25;
  const Json json = options_to_json(given);
  EXPECT_EQ(json.at("part").at("workers"), 9);
  EXPECT_EQ(json.at("share"), 0.25);
  EXPECT_EQ(json.at("colour"), "dark_blue");
  EXPECT_EQ(json.at("colours"), Json::array());
  EXPECT_EQ(options_to_json(options_from_json<Everything>(json, "x")), json);
  EXPECT_EQ(options_from_json<Everything>({{"turns", nullptr}, {"part", nullptr}}, "x").turns, 3);
  EXPECT_THAT(json_error("[1]"), HasSubstr("must be a mapping"));
  EXPECT_EQ(json_error(R"({"part": {"worker": 1}})"), "x: unknown field 'part.worker' (did you mean 'workers'?)");
}

TEST(Options, ValidateSpeaksOfWhatOneOptionCannot) {
  EXPECT_THAT(yaml_error("part: {share: 0.95, workers: 1}"), HasSubstr("needs two workers"));
  EXPECT_THAT(json_error(R"({"share": 0.95, "workers": 1})"), HasSubstr("needs two workers"));  // of the flat part
  Everything made;
  made.part.workers = 0;
  EXPECT_EQ(error_of([&] { check_options(made); }), "'part.workers' must be at least 1, not 0");
}

TEST(Options, FlagsSayWhatIsNotAtItsDefault) {
  Part part;
  EXPECT_THAT(to_flags(part), IsEmpty());
  part.workers = 7;
  EXPECT_THAT(to_flags(part), ElementsAre("--workers", "7"));
  struct Flags {
    std::string dtype = "float32";
    bool share_device = false, prefix_reuse = true;
    double timeout_s = 60;
    std::vector<int64_t> levels;
    void describe(OptionList& v) {
      v("dtype", dtype, "");
      v("share_device", share_device, "");
      v("prefix_reuse", prefix_reuse, "");
      v("timeout_s", timeout_s, "");
      v("levels", levels, spelled("level"), "");
    }
  };
  Flags flags{.dtype = "bfloat16", .share_device = true, .prefix_reuse = false, .timeout_s = 0.1, .levels = {1, 2}};
  EXPECT_THAT(to_flags(flags), ElementsAre("--dtype", "bfloat16", "--share-device", "--no-prefix-reuse", "--timeout",
                                           "0.1", "--level", "1", "--level", "2"));
}

TEST(Options, ARecipeHasNoKeyForWhatTheRunDecides) {
  const auto error = [](const std::string& text) {
    return error_of([&] { load_config<Recipe>(parse_yaml(text, "x"), "x"); });
  };
  EXPECT_EQ(error("role: {model: m}"), "x: 'role.model' is decided by the run: a recipe has no key for it");
  EXPECT_EQ(error("role: {model: ''}"), "no error");  // as a dump of an older version says
  EXPECT_THAT(error("role: {modle: m}"), ::testing::Not(HasSubstr("did you mean 'model'")));
  EXPECT_THAT(dump_config(Recipe{}), ::testing::Not(HasSubstr("model")));
  EXPECT_THAT(dump_config(Everything{}), HasSubstr("model"));
}

TEST(Options, WhatIsRequiredMustBeThere) {
  struct Named {
    std::string name;
    void describe(OptionList& v) { v("name", name, required(), ""); }
  };
  EXPECT_EQ(error_of([] { load_config<Named>(parse_yaml("{}", "x"), "x"); }), "x: 'name' is missing");
  EXPECT_EQ(error_of([] { load_config<Named>(parse_yaml("name: a", "x"), "x"); }), "no error");
}

}  // namespace
}  // namespace tritonforge
