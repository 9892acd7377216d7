#include "engine/openai.h"

#include <gtest/gtest.h>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/definition.h"

namespace tritonforge::engine {
namespace {

const tokenizer::Tokenizer& byte_tokenizer() {
  static const tokenizer::Tokenizer made = [] {
    tokenizer::TokenizerDefinition definition;
    for (int byte = 0; byte < 256; ++byte)
      definition.tokens.push_back(tokenizer::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    return tokenizer::Tokenizer(std::move(definition));
  }();
  return made;
}

OpenAiRequest read(Json body, bool chat = true, tokenizer::ChatFormat format = tokenizer::ChatFormat::kQwen3) {
  if (chat && !body.contains("messages")) body["messages"] = {{{"role", "user"}, {"content", "x"}}};
  if (!chat && !body.contains("prompt")) body["prompt"] = "ab";
  return openai_from_json(body.dump(), chat, byte_tokenizer(), format, "m", "1");
}

std::string refusal(const Json& body, bool chat = true) {
  try {
    read(body, chat);
  } catch (const Error& error) {
    return fmt::format("{}: {}", name_of(error.kind()), error.what());
  }
  return "";
}

const Json kTools = {{{"type", "function"}, {"function", {{"name", "run"}, {"parameters", Json::object()}}}}};
constexpr const char* kSaid =
    "<think>\nwhy\n</think>\n\nso\n<tool_call>\n{\"name\": \"run\", \"arguments\": {\"b\": 1, \"a\": 2}}\n</tool_call>";

Output said(const std::string& text, FinishReason finish = FinishReason::kStop) {
  Output output{.id = "x", .prompt_tokens = 3, .finished = finish != FinishReason::kNone};
  Sample& sample = output.samples.emplace_back();
  sample.text = text;
  sample.finish = finish;
  for (const char byte : text) {
    sample.output_ids.push_back(static_cast<unsigned char>(byte));
    sample.log_probs.push_back(-0.5F);
  }
  return output;
}

TEST(OpenAi, EveryFieldReachesItsPlace) {
  const OpenAiRequest request = read({{"n", 3},
                                      {"max_completion_tokens", 9},
                                      {"min_tokens", 2},
                                      {"temperature", 0.5},
                                      {"top_p", 0.9},
                                      {"top_k", 7},
                                      {"min_p", 0.1},
                                      {"frequency_penalty", 0.3},
                                      {"presence_penalty", -0.4},
                                      {"repetition_penalty", 1.2},
                                      {"logit_bias", {{"5", -3}}},
                                      {"stop", {"a", "b"}},
                                      {"seed", 4},
                                      {"logprobs", true},
                                      {"top_logprobs", 6},
                                      {"ignore_eos", true},
                                      {"user", "u"},
                                      {"response_format", {{"type", "text"}}}});
  const SamplingParams& sampling = request.requests.at(0).sampling;
  EXPECT_EQ(sampling.n, 3);
  EXPECT_EQ(sampling.max_new_tokens, 9);
  EXPECT_EQ(sampling.min_new_tokens, 2);
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.frequency_penalty, 0.3);
  EXPECT_EQ(sampling.presence_penalty, -0.4);
  EXPECT_EQ(sampling.repetition_penalty, 1.2);
  EXPECT_EQ(sampling.logit_bias, (std::map<int64_t, double>{{5, -3.0}}));
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(sampling.seed, 4u);
  EXPECT_EQ(request.requests[0].log_probs.top, 6);
  EXPECT_TRUE(request.log_probs && request.reasoning && !request.tools);
}

TEST(OpenAi, WhatIsWrongIsNamed) {
  EXPECT_NE(refusal({{"temprature", 1}})
                .find("usage: POST /v1/chat/completions: unknown field 'temprature' (did you "
                      "mean 'temperature'?)"),
            std::string::npos);
  EXPECT_NE(refusal({{"echo", true}}).find("unknown field 'echo'"), std::string::npos);  // a completion's
  for (const char* field : {"regex", "json_schema", "ebnf", "structural_tag", "guided_json", "guided_regex",
                            "guided_choice", "guided_grammar", "structured_outputs"}) {
    for (const bool chat : {true, false}) {
      EXPECT_NE(refusal({{field, "x"}}, chat).find(fmt::format("'{}' is not supported", field)), std::string::npos);
      EXPECT_EQ(refusal({{field, nullptr}}, chat), "");
    }
  }
  EXPECT_NE(refusal({{"response_format", {{"type", "json_object"}}}}).find("'json_object'"), std::string::npos);
  EXPECT_NE(refusal({{"tools", kTools}, {"tool_choice", "required"}}).find("'tool_choice'"), std::string::npos);
  EXPECT_NE(refusal({{"tools", kTools[0]}}).find("'tools' must be a list"), std::string::npos);
  EXPECT_NE(refusal({{"functions", kTools}}).find("'functions'"), std::string::npos);
  EXPECT_NE(refusal({{"suffix", "x"}}, false).find("'suffix'"), std::string::npos);
  EXPECT_NE(refusal({{"logit_bias", {{"5", "x"}}}}).find("'logit_bias'"), std::string::npos);
  EXPECT_NE(refusal({{"max_tokens", 2.7}}).find("'max_tokens' must be a whole number"), std::string::npos);
  EXPECT_NE(refusal({{"timeout_s", -1}}).find("'timeout_s' must be above 0"), std::string::npos);
  EXPECT_NE(refusal({{"prompt", {1.5, 2}}}, false).find("'prompt'"), std::string::npos);
  EXPECT_NE(refusal({{"prompt", {{true}}}}, false).find("'prompt'"), std::string::npos);
}

TEST(OpenAi, AMessageIsTakenApart) {
  const OpenAiRequest request = read({{"tools", kTools}});
  const Json choice = openai_reply(request, {said(kSaid)}, byte_tokenizer())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["reasoning_content"], "why");
  EXPECT_EQ(choice["message"]["content"], "so");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "run");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"b":1,"a":2})");
  const Json whole = openai_reply(read({{"separate_reasoning", false}}), {said(kSaid)}, byte_tokenizer());
  EXPECT_EQ(whole["choices"][0]["message"]["content"], kSaid);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  const Json plain = openai_reply(read(Json::object(), true, tokenizer::ChatFormat::kQwen2), {said(kSaid)},
                                  byte_tokenizer());
  EXPECT_EQ(plain["choices"][0]["message"]["content"], kSaid);
}

TEST(OpenAi, AStreamJoinsToTheMessage) {
  const OpenAiRequest request = read({{"tools", kTools}, {"stream", true}});
  std::vector<StreamedSample> sent;
  Json joined{{"reasoning", ""}, {"content", ""}, {"calls", Json::array()}, {"finish", nullptr}};
  const std::string text = kSaid;
  for (size_t end = 0; end <= text.size(); ++end) {
    const bool over = end == text.size();
    const Output output = said(text.substr(0, end), over ? FinishReason::kStop : FinishReason::kNone);
    for (const Json& chunk : openai_chunks(request, output, 0, sent, byte_tokenizer())) {
      const Json& choice = chunk["choices"][0];
      const Json& delta = choice["delta"];
      EXPECT_TRUE(!delta.empty() || over);
      joined["reasoning"] = joined["reasoning"].get<std::string>() + delta.value("reasoning_content", "");
      joined["content"] = joined["content"].get<std::string>() + delta.value("content", "");
      for (const Json& call : delta.value("tool_calls", Json::array())) joined["calls"].push_back(call);
      joined["finish"] = choice["finish_reason"];
    }
  }
  EXPECT_EQ(joined["reasoning"], "why");
  EXPECT_EQ(joined["content"], "so");
  ASSERT_EQ(joined["calls"].size(), 1u);
  EXPECT_EQ(joined["calls"][0]["index"], 0);
  EXPECT_EQ(joined["calls"][0]["function"]["arguments"], R"({"b":1,"a":2})");
  EXPECT_EQ(joined["finish"], "tool_calls");
}

TEST(OpenAi, ABodyMayBoundItsTime) {
  EXPECT_EQ(read({{"timeout_s", 2.5}}).timeout_s, 2.5);
  EXPECT_EQ(read(Json::object()).timeout_s, std::nullopt);
}

// Who reads the usage of each chunk finds null in all but the last.
TEST(OpenAi, UsageIsAskedForOrAbsent) {
  const auto chunk_of = [](const Json& body) {
    std::vector<StreamedSample> sent;
    return openai_chunks(read(body), said("a"), 0, sent, byte_tokenizer()).at(0);
  };
  const Json with = chunk_of({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_TRUE(with.contains("usage") && with["usage"].is_null());
  EXPECT_FALSE(chunk_of({{"stream", true}}).contains("usage"));
}

TEST(OpenAi, TheBestAreThoseMostLikelyOnAverage) {
  const OpenAiRequest request = read({{"n", 2}, {"best_of", 3}}, false);
  EXPECT_EQ(request.requests[0].sampling.n, 3);
  Output output = said("aa");
  output.samples.push_back(said("b").samples[0]);
  output.samples.push_back(said("cccc").samples[0]);
  output.samples[1].log_probs = {-0.1F};
  output.samples[2].log_probs = {-0.2F, -0.2F, -0.2F, -0.2F};  // less likely as a whole, more likely a token
  const Json choices = openai_reply(request, {output}, byte_tokenizer())["choices"];
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0]["text"], "b");
  EXPECT_EQ(choices[1]["text"], "cccc");
}

TEST(OpenAi, AnErrorNamesItsField) {
  const auto body = [](ErrorKind kind, const char* message) {
    return Json::parse(openai_error(Error(kind, message)).body)["error"];
  };
  EXPECT_EQ(body(ErrorKind::kUsage, "POST /x: field 'n' has the wrong type")["param"], "n");
  EXPECT_EQ(body(ErrorKind::kUnsupported, "POST /x: 'regex' is not supported")["param"], "regex");
  EXPECT_EQ(body(ErrorKind::kUsage, "messages[0]: unknown role 'usr'")["param"], nullptr);
  EXPECT_EQ(body(ErrorKind::kBusy, "full")["type"], "rate_limit_error");
  EXPECT_EQ(body(ErrorKind::kInternal, "field 'x'")["type"], "server_error");
  EXPECT_EQ(body(ErrorKind::kUsage, "x")["code"], "usage");
  // The engine names SGLang's fields.
  const Json length = body(ErrorKind::kUsage, "'sampling_params.max_new_tokens' must be at least 0, not -1");
  EXPECT_EQ(length["message"], "'max_tokens' must be at least 0, not -1");
  EXPECT_EQ(length["param"], "max_tokens");
  EXPECT_EQ(body(ErrorKind::kUsage, "sampling_params.stop holds an empty string")["message"],
            "stop holds an empty string");
}

}  // namespace
}  // namespace tritonforge::engine
