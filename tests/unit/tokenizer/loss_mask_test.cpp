#include "tokenizer/loss_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LossMask : public ::testing::Test {
 protected:
  // What is trained, one text for each run of 1s.
  std::vector<std::string> trained(const MaskedTokens& masked) {
    std::vector<std::string> runs;
    for (size_t i = 0; i < masked.tokens.size(); ++i) {
      if (!masked.loss_mask[i]) continue;
      if (i == 0 || !masked.loss_mask[i - 1]) runs.emplace_back();
      runs.back() += tokenizer_.token_bytes(masked.tokens[i]);
    }
    return runs;
  }
  void expect_rendered(const MaskedTokens& masked, ChatFormat format, const std::vector<Message>& messages,
                       ChatOptions options = {}) {
    options.add_generation_prompt = false;
    EXPECT_EQ(masked.tokens.size(), masked.loss_mask.size());
    EXPECT_EQ(tokenizer_.decode(masked.tokens), render_chat(format, messages, options));
  }
  Tokenizer tokenizer_ = Tokenizer::load(fs::path(TF_SOURCE_DIR) / "tests/data/tiny-tokenizer");
};

const std::vector<Message> kRefinement = {{"system", "write kernels"},
                                          {"user", "relu"},
                                          {"assistant", "\n\nwrong  "},
                                          {"user", "it fails"},
                                          {"assistant", "right\n"}};

TEST_F(LossMask, IsTheAssistantsWordsAndItsEnd) {
  for (const ChatFormat format : {ChatFormat::kQwen2, ChatFormat::kPlain}) {
    const MaskedTokens masked = tokenize_conversation(tokenizer_, format, kRefinement);
    EXPECT_THAT(trained(masked), ElementsAre("\n\nwrong  <|im_end|>", "right\n<|im_end|>"));
    expect_rendered(masked, format, kRefinement);
  }
}

TEST_F(LossMask, AFlagKeepsAWrongAttemptOut) {
  const MaskedTokens masked = tokenize_conversation(tokenizer_, ChatFormat::kQwen2, kRefinement,
                                                    {false, false, false, false, true});
  EXPECT_THAT(trained(masked), ElementsAre("right\n<|im_end|>"));
  expect_rendered(masked, ChatFormat::kQwen2, kRefinement);
}

TEST_F(LossMask, PromptTokensAreThoseThatTheEngineWouldGet) {
  const std::vector<Message> prompt(kRefinement.begin(), kRefinement.end() - 1);
  const auto sampled_from = tokenizer_.encode(render_chat(ChatFormat::kPlain, prompt, {}));
  const MaskedTokens masked = tokenize_conversation(tokenizer_, ChatFormat::kPlain, kRefinement);
  ASSERT_GT(masked.tokens.size(), sampled_from.size());
  EXPECT_TRUE(std::equal(sampled_from.begin(), sampled_from.end(), masked.tokens.begin()));
  EXPECT_EQ(masked.loss_mask[sampled_from.size() - 1], 0);
  EXPECT_EQ(masked.loss_mask[sampled_from.size()], 1);
}

TEST_F(LossMask, AContinuationIsWhatTheTemplateWouldPutThere) {
  for (const ChatFormat format : {ChatFormat::kQwen2, ChatFormat::kPlain}) {
    const std::vector<Message> first(kRefinement.begin(), kRefinement.begin() + 2),
        until(kRefinement.begin(), kRefinement.begin() + 4);
    const std::string grown = render_chat(format, first, {}) + kRefinement[2].content + "<|im_end|>" +
                              render_continuation(format, kRefinement[3], {});
    EXPECT_EQ(grown, render_chat(format, until, {}));
  }
  ChatOptions quiet;
  quiet.enable_thinking = false;
  EXPECT_EQ(render_continuation(ChatFormat::kQwen3, {"user", "x"}, quiet),
            "\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(render_continuation(ChatFormat::kQwen3, {"tool", "x"}, {}),
            "\n<|im_start|>user\n<tool_response>\nx\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(LossMask, Qwen3TrainsTheThoughtThatTheModelHasItself) {
  const std::vector<Message> thinking = {{"user", "relu"}, {"assistant", "code", "hm"}};
  MaskedTokens masked = tokenize_conversation(tokenizer_, ChatFormat::kQwen3, thinking);
  EXPECT_THAT(trained(masked), ElementsAre("<think>\nhm\n</think>\n\ncode<|im_end|>"));
  expect_rendered(masked, ChatFormat::kQwen3, thinking);

  const std::vector<Message> plain = {{"user", "relu"}, {"assistant", "code"}};
  EXPECT_THAT(trained(tokenize_conversation(tokenizer_, ChatFormat::kQwen3, plain)),
              ElementsAre("<think>\n\n</think>\n\ncode<|im_end|>"));
  ChatOptions quiet;
  quiet.enable_thinking = false;
  masked = tokenize_conversation(tokenizer_, ChatFormat::kQwen3, plain, {}, quiet);
  EXPECT_THAT(trained(masked), ElementsAre("code<|im_end|>"));
  expect_rendered(masked, ChatFormat::kQwen3, plain, quiet);
}

TEST_F(LossMask, FaultsAreNamed) {
  const auto message = [&](ErrorKind kind, ChatFormat format, const std::vector<Message>& messages,
                           const std::vector<bool>& train) -> std::string {
    try {
      tokenize_conversation(tokenizer_, format, messages, train);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "no error";
  };
  std::vector<Message> reasoned = kRefinement;
  reasoned[2].reasoning_content = "hm";
  EXPECT_THAT(message(ErrorKind::kUnsupported, ChatFormat::kQwen3, reasoned, {}),
              HasSubstr("message 2: Qwen3's template drops"));
  EXPECT_EQ(message(ErrorKind::kInternal, ChatFormat::kQwen3, reasoned, {false, false, false, false, true}),
            "no error");
  EXPECT_THAT(message(ErrorKind::kUsage, ChatFormat::kPlain, kRefinement, {true}),
              HasSubstr("1 train flags for 5 messages"));
  EXPECT_THAT(message(ErrorKind::kUsage, ChatFormat::kPlain, {{"user", "x"}}, {}), HasSubstr("no assistant message"));
  EXPECT_THAT(message(ErrorKind::kUsage, ChatFormat::kPlain, {}, {}), HasSubstr("needs a message"));
}

}  // namespace
}  // namespace tritonforge::tokenizer
