// What SFT teaches is token for token what RL holds.
#include "rollout/codec.h"

#include <gtest/gtest.h>

#include "mock_peers.h"
#include "rollout/generator.h"
#include "rollout/prompts.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::rollout {
namespace {

// The small tokenizer with the chat template of the file; "": none, which is plain ChatML.
std::unique_ptr<ChatCodec> codec_with(const std::string& chat_template, const fs::path& folder) {
  const fs::path data = fs::path(TF_SOURCE_DIR) / "tests/data";
  Json config = parse_json(read_file(data / "tiny-tokenizer/tokenizer_config.json"), "tokenizer_config.json");
  if (!chat_template.empty()) config["chat_template"] = read_file(data / "chat-templates" / chat_template);
  write_file_atomic(folder / "tokenizer.json", read_file(data / "tiny-tokenizer/tokenizer.json"));
  write_file_atomic(folder / "tokenizer_config.json", config.dump());
  return load_chat_codec(folder);
}

net::Response reply_with(const std::vector<int64_t>& tokens) {
  Json logprobs = Json::array();
  for (const int64_t token : tokens) logprobs.push_back({-0.5, token, nullptr});
  return net::Response::json(
      {{"output_ids", tokens},
       {"meta_info",
        {{"finish_reason", {{"type", "stop"}}}, {"output_token_logprobs", logprobs}, {"weight_version", "3"}}}});
}

struct TextCase {
  std::string chat_template;
  bool enable_thinking;
};
class TaughtText : public testing::TestWithParam<TextCase> {};

// Against the templates, which tests/integration/test_chat_template.py compares with Jinja.
TEST_P(TaughtText, IsTheTemplatesAndLossIsOnTheAnswer) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with(GetParam().chat_template, folder.path());
  const auto tokenizer = tokenizer::Tokenizer::load(folder.path());
  const auto format = tokenizer.chat_template().empty() ? tokenizer::ChatFormat::kPlain
                                                        : tokenizer::recognise_chat_format(tokenizer.chat_template());
  tokenizer::ChatOptions options;
  options.enable_thinking = GetParam().enable_thinking;
  options.add_generation_prompt = false;
  const tokenizer::Message asked = {"user", "relu"}, said = {"assistant", "\n\nwrong  "},
                           answered = {"user", "it fails"};
  const bool own_thought = format == tokenizer::ChatFormat::kQwen3 && options.enable_thinking;
  const std::string trained = std::string(own_thought ? "<think>\n\n</think>\n\n" : "") + "right\n<|im_end|>";

  std::vector<TaughtConversation> conversations = {{{asked}, std::nullopt, "right\n"}};
  // Qwen3's template forgets the thoughts of turns before the last question; a trajectory keeps what was sampled.
  if (format != tokenizer::ChatFormat::kQwen3)
    conversations.push_back({{asked}, {{said.content, answered}}, "right\n"});
  for (const TaughtConversation& conversation : conversations) {
    std::vector<tokenizer::Message> messages = {asked};
    if (conversation.refinement) messages.insert(messages.end(), {said, answered});
    messages.push_back({"assistant", "right\n"});
    const MaskedTokens taught = taught_tokens(*codec, conversation, options.enable_thinking);
    std::vector<int64_t> with_loss;
    for (size_t i = 0; i < taught.tokens.size(); ++i) {
      if (taught.loss_mask.at(i)) with_loss.push_back(taught.tokens[i]);
    }
    EXPECT_EQ(tokenizer.decode(taught.tokens) + "\n", render_chat(format, messages, options));
    EXPECT_EQ(tokenizer.decode(with_loss), trained);
  }
}

TEST(Continuation, EndsInTheEmptyThoughtOfWhoMayNotThink) {
  tokenizer::ChatOptions quiet;
  quiet.enable_thinking = false;
  EXPECT_EQ(render_continuation(tokenizer::ChatFormat::kQwen3, {"user", "x"}, quiet),
            "\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST(Continuation, OfAToolIsItsAnswer) {
  EXPECT_EQ(render_continuation(tokenizer::ChatFormat::kQwen3, {"tool", "x"}, {}),
            "\n<|im_start|>user\n<tool_response>\nx\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
}

TEST_P(TaughtText, OfARefinementIsTheTextOfRl) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with(GetParam().chat_template, folder.path());
  const bool thinking = GetParam().enable_thinking;
  const std::string wrong = answer_message("class ModelNew:\n    def forward(self, x): return 1\n").content,
                    right = answer_message("class ModelNew:\n    def forward(self, x): return 2\n").content;
  // RL: the model says just that.
  MockPeers mock;
  mock.engine = [&](const Json&) { return reply_with(codec->answer(mock.generations == 1 ? wrong : right, thinking)); };
  mock.judge = [](const std::string& code) {
    return code.find("return 1") != std::string::npos ? MockPeers::failed() : MockPeers::correct();
  };
  GroupSpec group = group_spec("g");
  group.options.enable_thinking = thinking;
  const Peers peers(mock.options());
  Gate gate{1};
  Activity activity;
  const auto held = Generator(peers, *codec, gate, activity).run(group, 0, {});
  ASSERT_TRUE(held && held->turns.size() == 2);
  std::vector<int64_t> tokens = held->turns[1].prompt_tokens;
  tokens.insert(tokens.end(), held->turns[1].response_tokens.begin(), held->turns[1].response_tokens.end());
  // SFT: the same conversation from a pair.
  const auto taught = taught_tokens(
      *codec, {opening_messages(group), {{wrong, feedback_message(group.options.prompt, MockPeers::failed())}}, right},
      thinking);
  EXPECT_EQ(taught.tokens, tokens);
  std::vector<uint8_t> mask(held->turns[1].prompt_tokens.size(), 0);
  mask.resize(tokens.size(), 1);
  EXPECT_EQ(taught.loss_mask, mask);
}

INSTANTIATE_TEST_SUITE_P(Formats, TaughtText,
                         testing::Values(TextCase{"", true}, TextCase{"qwen2.5.jinja", true},
                                         TextCase{"qwen3.jinja", true}, TextCase{"qwen3.jinja", false},
                                         TextCase{"qwen3-later.jinja", true}));

}  // namespace
}  // namespace tritonforge::rollout
