#include "engine/sample_text.h"

#include <gtest/gtest.h>

#include "engine/live.h"
#include "engine/wire.h"

namespace tritonforge::engine {
namespace {

const tokenizer::Tokenizer& tokenizer() {
  static const tokenizer::Tokenizer loaded = tokenizer::Tokenizer::load(fs::path(TF_SOURCE_DIR) /
                                                                        "tests/data/tiny-tokenizer");
  return loaded;
}

struct Run {
  std::string text, matched;
  size_t tokens = 0;
};

Run run(const std::string& input, std::vector<std::string> stops, bool keep = false) {
  SampleText text(tokenizer(), stops, true, keep);
  Run result;
  std::string shown;
  for (const int64_t id : tokenizer().encode(input)) {
    ++result.tokens;
    const bool stopped = text.feed(id);
    const std::string settled(text.settled());
    EXPECT_EQ(settled.compare(0, shown.size(), shown), 0) << "'" << shown << "' was taken back: '" << settled << "'";
    shown = settled;
    if (stopped) break;
  }
  text.finish();
  EXPECT_EQ(text.text().compare(0, shown.size(), shown), 0);
  result.text = text.text();
  result.matched = text.matched();
  return result;
}

TEST(SampleText, FindsAStopThatSpansTokens) {
  const std::string input = "def kernel(x):\n    return x + 1\n```\nand more";
  EXPECT_EQ(run(input, {"\n```"}).text, "def kernel(x):\n    return x + 1");
  EXPECT_EQ(run(input, {"\n```"}).matched, "\n```");
  EXPECT_EQ(run(input, {"\n```"}, true).text, "def kernel(x):\n    return x + 1\n```");
  for (size_t start = 0; start + 5 < input.size(); ++start) {
    const std::string stop = input.substr(start, 5);
    EXPECT_EQ(run(input, {stop}).text, input.substr(0, input.find(stop))) << stop;
  }
}

TEST(SampleText, TheStopThatEndsFirstWins) {
  EXPECT_EQ(run("one two three", {"three", "two"}).matched, "two");
  EXPECT_EQ(run("aaaa end", {"nothing", "d"}).text, "aaaa en");
}

TEST(SampleText, WhatOnlyBeginsAStopIsGivenBack) {
  EXPECT_EQ(run("return x\n``", {"\n```"}).text, "return x\n``");
  EXPECT_EQ(run("return x", {}).text, "return x");
}

TEST(SampleText, UnfinishedCharactersAreHeldAndThenReplaced) {
  const auto ids = tokenizer().encode("水");
  ASSERT_GT(ids.size(), 1u);
  SampleText text(tokenizer(), {}, true, false);
  text.feed(ids[0]);
  EXPECT_EQ(text.settled(), "");
  text.finish();
  EXPECT_EQ(text.text(), "\xEF\xBF\xBD");
}

// Half a character becomes U+FFFD at the last token that it may have: what ends it is the stop string all the same.
TEST(SampleText, AStopThatOnlyTheEndCompletesIsAStop) {
  Request request;
  request.prompt_ids = {1};
  request.sampling.max_new_tokens = 1;
  request.sampling.stop = {"\xEF\xBF\xBD"};
  LiveRequest live(std::move(request), &tokenizer(), {}, 100);
  live.accept(*live.samples[0], tokenizer().encode("水")[0], -1, 0);
  const Sample& sample = live.output.samples[0];
  EXPECT_EQ(sample.finish, FinishReason::kStop);
  EXPECT_EQ(sample.matched_text, "\xEF\xBF\xBD");
  EXPECT_EQ(sample.text, "");
}

TEST(Wire, NamesUnknownAndWrongFields) {
  const auto message = [](const char* body) -> std::string {
    try {
      generate_from_json(Json::parse(body), tokenizer(), "id");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(R"({"text": "a", "sampling_parms": {}})").find("did you mean 'sampling_params'"),
            std::string::npos);
  EXPECT_NE(message(R"({"text": "a", "sampling_params": {"temprature": 1}})").find("did you mean 'temperature'"),
            std::string::npos);
  EXPECT_NE(message(R"({"text": "a", "sampling_params": {"top_p": "high"}})").find("top_p"), std::string::npos);
  EXPECT_NE(message(R"({"text": "a", "sampling_params": {"regex": "a+"}})").find("regex"), std::string::npos);
  EXPECT_NE(message(R"({"text": "a", "input_ids": [1]})").find("one of"), std::string::npos);
  EXPECT_NE(message(R"({})").find("one of"), std::string::npos);
  EXPECT_NE(message(R"({"input_ids": ["a"]})").find("input_ids"), std::string::npos);
  EXPECT_NE(message(R"([1])").find("object"), std::string::npos);
  EXPECT_NE(message(R"({"text": "a", "timeout_s": 0})").find("'timeout_s' must be above 0"), std::string::npos);
  EXPECT_EQ(
      message(
          R"({"text": "a", "sampling_params": {"frequency_penalty": 0.0, "spaces_between_special_tokens": false}})"),
      "");
}

// What is no whole number of its 64 bits is told, and not cut or wrapped to another.
TEST(Wire, NumbersAreTakenAsTheyStandOrRefused) {
  const auto sampling = [](const char* body) { return sampling_from_json(Json::parse(body), "x"); };
  const auto refused = [&](const char* body) -> std::string {
    try {
      sampling(body);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(R"({"max_new_tokens": 2.7})"), "x: field 'max_new_tokens' must be a whole number (int64), not 2.7");
  EXPECT_EQ(refused(R"({"top_k": 18446744073709551615})"),
            "x: field 'top_k' must be a whole number (int64), not 18446744073709551615");
  EXPECT_NE(refused(R"({"n": 1e300})").find("whole number"), std::string::npos);
  EXPECT_NE(refused(R"({"n": true})").find("whole number"), std::string::npos);
  EXPECT_NE(refused(R"({"stop_token_ids": [18446744073709551615]})").find("stop_token_ids"), std::string::npos);
  EXPECT_NE(refused(R"({"seed": 0.5})").find("seed"), std::string::npos);
  EXPECT_EQ(sampling(R"({"max_new_tokens": 16.0, "top_k": null})").max_new_tokens, 16);
  EXPECT_EQ(sampling(R"({"seed": 18446744073709551615})").seed, ~uint64_t{0});
  EXPECT_EQ(sampling(R"({"sampling_seed": -1})").seed, ~uint64_t{0});
}

TEST(Wire, ListsOfPromptsAndParameters) {
  const auto body = generate_from_json(
      Json::parse(
          R"({"input_ids": [[1, 2], [3]], "rid": ["a", "b"], "sampling_params": [{"temperature": 0}, {"stop": "x"}]})"),
      tokenizer(), "id");
  ASSERT_EQ(body.requests.size(), 2u);
  EXPECT_TRUE(body.list);
  EXPECT_EQ(body.requests[1].request.id, "b");
  EXPECT_EQ(body.requests[0].request.sampling.temperature, 0);
  EXPECT_EQ(body.requests[1].request.sampling.stop, (std::vector<std::string>{"x"}));
}

}  // namespace
}  // namespace tritonforge::engine
