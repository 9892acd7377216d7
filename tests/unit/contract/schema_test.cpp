#include "contract/schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "contract/trajectory.h"

namespace tritonforge {
namespace {

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

std::set<std::string> words_of(const Json& list) { return list.get<std::set<std::string>>(); }

const Json& definition(const Json& schema, const char* name) { return schema.at("$defs").at(name); }

Verdict whole_verdict() {
  Verdict verdict;
  verdict.own_share = 0.5;
  verdict.profile = Profile{.kernels = {{.name = "kernel"}}};
  verdict.counters.push_back({.name = "kernel"});
  verdict.eager_runtime.samples = verdict.torch_compile_runtime.samples = 1;
  verdict.seconds["queue"] = 1;
  verdict.trials.emplace_back();
  verdict.flags.push_back({Cheat::kInputMutated, "input 0"});
  return verdict;
}

// A struct's properties are what is written of one that has everything, its required ones what always is.
TEST(Schema, OfAVerdictIsWhatIsWritten) {
  const Json schema = verdict_schema(), whole = to_json(whole_verdict()), least = to_json(Verdict());
  EXPECT_EQ(schema.at("$ref"), "#/$defs/Verdict");
  EXPECT_EQ(keys_of(definition(schema, "Verdict").at("properties")), keys_of(whole));
  EXPECT_EQ(words_of(definition(schema, "Verdict").at("required")), keys_of(least));
  EXPECT_EQ(keys_of(definition(schema, "Trial").at("properties")), keys_of(whole["trials"][0]));
  EXPECT_EQ(keys_of(definition(schema, "Flag").at("properties")), keys_of(whole["flags"][0]));
  EXPECT_EQ(keys_of(definition(schema, "Timing").at("properties")), keys_of(whole["runtime"]));
  EXPECT_EQ(keys_of(definition(schema, "Profile").at("properties")), keys_of(whole["profile"]));
  EXPECT_EQ(keys_of(definition(schema, "KernelProfile").at("properties")), keys_of(whole["profile"]["kernels"][0]));
  EXPECT_EQ(keys_of(definition(schema, "KernelCounters").at("properties")), keys_of(whole["counters"][0]));
}

TEST(Schema, OfATrajectoryIsWhatIsWritten) {
  Trajectory trajectory;
  Turn& turn = trajectory.turns.emplace_back();
  const auto least = keys_of(to_json(trajectory)["turns"][0]);
  turn.generate_begun = turn.evaluate_begun = 1;
  turn.feedback = "wrong";
  const Json schema = trajectory_schema(), whole = to_json(trajectory);
  EXPECT_EQ(keys_of(definition(schema, "Trajectory").at("properties")), keys_of(whole));
  EXPECT_EQ(keys_of(definition(schema, "Turn").at("properties")), keys_of(whole["turns"][0]));
  EXPECT_EQ(words_of(definition(schema, "Turn").at("required")), least);
  EXPECT_EQ(keys_of(definition(transcript_schema(), "Turn").at("properties")),
            keys_of(transcript_json(trajectory)["turns"][0]));
}

TEST(Schema, HasTheClosedSetsOfWords) {
  const Json verdict = definition(verdict_schema(), "Verdict").at("properties");
  EXPECT_EQ(words_of(verdict.at("stage").at("enum")).size(), 8u);
  EXPECT_TRUE(words_of(verdict.at("error_kind").at("enum")).contains("out_of_memory"));
  EXPECT_TRUE(words_of(verdict.at("mode").at("enum")).contains(""));  // nothing ran it
  EXPECT_EQ(verdict.at("speedup").at("anyOf")[1].at("enum"), Json({"inf", "-inf", "nan"}));
}

// What is read is what was written, also where it is not a number that JSON has.
TEST(Schema, FiguresThatAreNotFiniteTravelAsWords) {
  Verdict verdict = whole_verdict();
  verdict.trials[0].max_abs_error = std::numeric_limits<double>::infinity();
  verdict.speedup = std::numeric_limits<double>::quiet_NaN();
  const Json json = to_json(verdict);
  EXPECT_EQ(json["trials"][0]["max_abs_error"], "inf");
  EXPECT_EQ(json["speedup"], "nan");
  EXPECT_TRUE(std::isnan(verdict_from_json(json).speedup));
  EXPECT_EQ(to_json(verdict_from_json(json)), json);
}

}  // namespace
}  // namespace tritonforge
