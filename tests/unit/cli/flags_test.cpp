#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/options.h"
#include "evaluate/options.h"
#include "orchestrate/recipe.h"

namespace tritonforge::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Colour { kRed, kBlue };
constexpr std::array<std::string_view, 2> names_of(Colour) { return {"red", "blue"}; }

struct Paint {
  std::string can;
  Colour colour = Colour::kRed;
  int64_t coats = 2;
  double wait_s = 1.5;
  bool glossy = false, primed = true;
  std::vector<std::string> walls;
  std::vector<int64_t> levels;
  template <typename V>
  void describe(V& v) {
    v("can", can, required(), "the can to take");
    v("colour", colour, "of the paint");
    v("coats", coats, in(1, 5), "of paint");
    v("wait_s", wait_s, at_least(0), "seconds between coats");
    v("glossy", glossy, "shines");
    v("primed", primed, "on a ground");
    v("walls", walls, spelled("wall"), "which");
    v("levels", levels, commas(), "of the house");
  }
};

struct Parsed {
  Paint paint;
  std::string error;
};

Parsed parse(std::vector<std::string> arguments) {
  Parsed result;
  CLI::App app;
  add_flags(app, result.paint);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    result.error = error.what();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    result.error = error.what();
  }
  return result;
}

TEST(Flags, AreReadIntoTheMembers) {
  const auto [paint, error] = parse({"--can", "a", "--colour", "blue", "--coats=3", "--wait", "1e-2", "--glossy",
                                     "--no-primed", "--wall", "x,y", "--wall", "z", "--levels", "1,2"});
  EXPECT_EQ(error, "");
  EXPECT_EQ(paint.can, "a");
  EXPECT_EQ(paint.colour, Colour::kBlue);
  EXPECT_EQ(paint.coats, 3);
  EXPECT_EQ(paint.wait_s, 0.01);
  EXPECT_TRUE(paint.glossy);
  EXPECT_FALSE(paint.primed);
  EXPECT_THAT(paint.walls, ElementsAre("x,y", "z"));
  EXPECT_THAT(paint.levels, ElementsAre(1, 2));
}

TEST(Flags, ABadValueIsRefusedByTheFlagsName) {
  EXPECT_EQ(parse({"--can", "a", "--coats", "6"}).error, "--coats must be between 1 and 5, not 6");
  EXPECT_EQ(parse({"--can", "a", "--coats", "two"}).error, "--coats must be an integer, not 'two'");
  EXPECT_EQ(parse({"--can", "a", "--wait", "-1"}).error, "--wait must be at least 0, not -1");
  EXPECT_EQ(parse({"--can", "a", "--colour", "bleu"}).error, "--colour: unknown value 'bleu' (did you mean 'blue'?)");
  EXPECT_THAT(parse({"--coats", "1"}).error, HasSubstr("--can is required"));
}

TEST(Flags, TheHelpShowsDefaultAndWhatIsAllowed) {
  CLI::App app;
  Paint paint;
  add_flags(app, paint, {"walls"});
  const std::string help = app.help();
  EXPECT_THAT(help, AllOf(HasSubstr("--coats INT [2]"), HasSubstr("--colour TEXT [red]"),
                          HasSubstr("of paint (between 1 and 5)"), HasSubstr("red | blue"), HasSubstr("--no-primed"),
                          HasSubstr("REQUIRED")));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--wall")));
}

TEST(Flags, TheHelpOfAListSaysHowSeveralAreGiven) {
  CLI::App app;
  Paint paint;
  add_flags(app, paint);
  EXPECT_EQ(app.get_option("--levels")->get_description(), "of the house; several with commas");
  EXPECT_EQ(app.get_option("--wall")->get_description(), "which; given once for each");
  EXPECT_EQ(app.get_option("--coats")->get_description(), "of paint (between 1 and 5)");
}

// What the orchestrator starts a process with is what the process then holds.
template <typename T>
Json after_flags(const T& given) {
  CLI::App app;
  T read;
  add_flags(app, read);
  auto arguments = to_flags(given);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return Json(to_flags(read));
}

TEST(Flags, AChildProcessHoldsWhatItsParentDescribed) {
  orchestrate::RecipeConfig recipe;
  engine::EngineOptions engine = recipe.engine;
  engine.model = "/m/with space";
  engine.reuse_prefixes = false;
  engine.share_device = true;
  engine.threads = 3;
  EXPECT_EQ(after_flags(engine), Json(to_flags(engine)));
  EXPECT_THAT(to_flags(engine), ElementsAre("--model", "/m/with space", "--max-running", "64", "--threads", "3",
                                            "--no-prefix-reuse", "--share-device"));
  evaluate::EvaluatorOptions evaluator = recipe.evaluator;
  evaluator.mode = EvaluationMode::kLive;
  evaluator.candidate_timeout_s = 0.1;
  evaluator.workers = 1;
  EXPECT_EQ(after_flags(evaluator), Json(to_flags(evaluator)));
  EXPECT_THAT(to_flags(evaluator), ElementsAre("--mode", "live", "--workers", "1", "--candidate-timeout", "0.1"));
  rollout::ServiceOptions buffer = recipe.rollout.buffer;
  buffer.database = "b.sqlite";
  buffer.peers.router = "http://127.0.0.1:1";
  buffer.peers.evaluator = "http://127.0.0.1:2";
  EXPECT_EQ(after_flags(buffer), Json(to_flags(buffer)));
}

}  // namespace
}  // namespace tritonforge::cli
