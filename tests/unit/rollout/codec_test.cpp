// What SFT teaches is token for token what RL holds.
#include "rollout/codec.h"

#include <gtest/gtest.h>

#include "mock_peers.h"
#include "rollout/generator.h"
#include "rollout/prompts.h"

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
