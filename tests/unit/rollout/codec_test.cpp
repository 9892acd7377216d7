// What SFT teaches is token for token what RL holds.
#include "tokenizer/chat_codec.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "dataset/sources/trajectories.h"
#include "dataset/stages/stage.h"
#include "mock_peers.h"
#include "rollout/generator.h"
#include "rollout/past_trajectories.h"
#include "rollout/prompts.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::rollout {
namespace {

using tokenizer::ChatCodec;
using tokenizer::MaskedTokens;
using tokenizer::taught_tokens;
using tokenizer::TaughtMessage;

// The small tokenizer with the chat template of the file; "": none, which is plain ChatML.
std::unique_ptr<ChatCodec> codec_with(const std::string& chat_template, const fs::path& folder) {
  const fs::path data = fs::path(TF_SOURCE_DIR) / "tests/data";
  Json config = parse_json(read_file(data / "tiny-tokenizer/tokenizer_config.json"), "tokenizer_config.json");
  if (!chat_template.empty()) config["chat_template"] = read_file(data / "chat-templates" / chat_template);
  Json tokens = parse_json(read_file(data / "tiny-tokenizer/tokenizer.json"), "tokenizer.json");
  if (chat_template.starts_with("llama3")) {  // Llama 3's way of cutting text, and its special tokens
    tokens["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = tokenizer::kLlama3Pattern;
    tokens["model"]["ignore_merges"] = true;
    for (const char* content : {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
      Json token = tokens["added_tokens"].front();
      token["content"] = content;
      token["id"] = tokens["added_tokens"].back()["id"].get<int64_t>() + 1;
      tokens["added_tokens"].push_back(token);
    }
  }
  write_file_atomic(folder / "tokenizer.json", tokens.dump());
  write_file_atomic(folder / "tokenizer_config.json", config.dump());
  return tokenizer::load_chat_codec(folder);
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
  const bool llama = format == tokenizer::ChatFormat::kLlama3;  // whose template strips contents
  const tokenizer::Message asked = {"user", "relu"}, said = {"assistant", llama ? "wrong" : "\n\nwrong  "},
                           answered = {"user", "it fails"};
  const bool own_thought = format == tokenizer::ChatFormat::kQwen3 && options.enable_thinking;
  const std::string right = llama ? "right" : "right\n";
  const std::string trained = (own_thought ? "<think>\n\n</think>\n\n" : "") + right +
                              std::string(tokenizer::end_of_turn(format));

  std::vector<std::vector<TaughtMessage>> conversations = {{{asked}, {{"assistant", right}, true}}};
  // Qwen3's template forgets the thoughts of turns before the last question; a trajectory keeps what was sampled.
  if (format != tokenizer::ChatFormat::kQwen3)
    conversations.push_back({{asked}, {said}, {answered}, {{"assistant", right}, true}});
  for (const std::vector<TaughtMessage>& conversation : conversations) {
    std::vector<tokenizer::Message> messages;
    for (const TaughtMessage& each : conversation) messages.push_back(each.message);
    const MaskedTokens taught = taught_tokens(*codec, conversation, options.enable_thinking);
    std::vector<int64_t> with_loss;
    for (size_t i = 0; i < taught.tokens.size(); ++i) {
      if (taught.loss_mask.at(i)) with_loss.push_back(taught.tokens[i]);
    }
    EXPECT_EQ(tokenizer.decode(taught.tokens) + (llama ? "" : "\n"), render_chat(format, messages, options));
    EXPECT_EQ(tokenizer.decode(with_loss), trained);
  }
}

TEST_P(TaughtText, AThoughtInTheContentIsTheThought) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with(GetParam().chat_template, folder.path());
  const auto said = [&](const std::string& content, const std::string& reasoning = "") {
    const tokenizer::Message message{.role = "assistant", .content = content, .reasoning_content = reasoning};
    return codec->answer(message, GetParam().enable_thinking);
  };
  EXPECT_EQ(said("<think>\na\n</think>\n\nb"), said("b", "a"));
  EXPECT_EQ(said("a\n</think>\n\nb"), said("b", "a"));  // opened by the prompt
  EXPECT_EQ(said("b", "\na\n"), said("b", "a"));
}

TEST(Continuation, EndsInTheEmptyThoughtOfWhoMayNotThink) {
  tokenizer::ChatOptions quiet;
  quiet.enable_thinking = false;
  EXPECT_EQ(render_continuation(tokenizer::ChatFormat::kQwen3, {{"user", "x"}}, quiet),
            "\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST(Continuation, OfAToolIsItsAnswer) {
  EXPECT_EQ(render_continuation(tokenizer::ChatFormat::kQwen3, {{"tool", "x"}}, {}),
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
  mock.engine = [&](const Json&) {
    return reply_with(codec->answer({"assistant", mock.generations == 1 ? wrong : right}, thinking));
  };
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
  std::vector<TaughtMessage> conversation;
  for (const auto& message : opening_messages(group)) conversation.push_back({message});
  conversation.push_back({{"assistant", wrong}});
  conversation.push_back({feedback_message(group.options.prompt, MockPeers::failed())});
  conversation.push_back({{"assistant", right}, true});
  const auto taught = taught_tokens(*codec, conversation, thinking);
  EXPECT_EQ(taught.tokens, tokens);
  std::vector<uint8_t> mask(held->turns[1].prompt_tokens.size(), 0);
  mask.resize(tokens.size(), 1);
  EXPECT_EQ(taught.loss_mask, mask);
}

// What `data build` makes of trajectories is token for token what RL held, thoughts and refinements included.
TEST_P(TaughtText, OfTwoHundredTrajectoriesIsTheTextOfRl) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with(GetParam().chat_template, folder.path());
  const bool thinking = GetParam().enable_thinking;
  const bool thoughts = thinking && GetParam().chat_template.starts_with("qwen3");
  dataset::StageContext context{.output = folder.path()};
  context.tools.answer_message = [](const std::string& code) { return answer_message(code); };
  const auto convert = dataset::make_stage("convert", YAML::Load("{max_turns: 3}"), "test", context),
             separate = dataset::make_stage("thinking", YAML::Load("{}"), "test", context);
  Rng rng(5);
  MockPeers mock;
  std::vector<tokenizer::Message> said;  // turn by turn
  size_t turn = 0;
  mock.engine = [&](const Json&) { return reply_with(codec->answer(said.at(turn++), thinking)); };
  mock.judge = [](const std::string& code) {
    return code.find("return 1") != std::string::npos ? MockPeers::failed() : MockPeers::correct();
  };
  const Peers peers(mock.options());
  Gate gate{1};
  Activity activity;
  for (int i = 0; i < 200; ++i) {
    said.clear();
    turn = 0;
    for (uint64_t wrong = rng.below(3), k = 0; k <= wrong; ++k) {
      tokenizer::Message& message = said.emplace_back(answer_message(
          fmt::format("# {}\nclass ModelNew:\n    def forward(self, x): return {}\n", rng.next(), k < wrong ? 1 : 2)));
      if (thoughts && rng.below(2) == 0) message.reasoning_content = fmt::format("I try {}.\n\nSo.", rng.next());
    }
    GroupSpec group = group_spec(fmt::format("g{}", i));
    group.options.enable_thinking = thinking;
    group.options.max_turns = 3;
    group.options.prompt = i % 2 == 0 ? PromptStyle::kMinimal : PromptStyle::kKernelBench;
    const auto held = Generator(peers, *codec, gate, activity).run(group, 0, {});
    ASSERT_TRUE(held && held->turns.size() == said.size());
    std::vector<int64_t> tokens = held->turns.back().prompt_tokens;
    const auto& response = held->turns.back().response_tokens;
    tokens.insert(tokens.end(), response.begin(), response.end());
    dataset::Row row = dataset::rows_of(past_trajectory(group, *held), {}).back();
    convert->work(row);
    separate->work(row);
    ASSERT_FALSE(row.dropped);
    const MaskedTokens taught = taught_tokens(*codec, row.messages, thinking);
    ASSERT_EQ(taught.tokens, tokens) << i;
    std::vector<uint8_t> mask(tokens.size() - response.size(), 0);
    mask.resize(tokens.size(), 1);
    ASSERT_EQ(taught.loss_mask, mask) << i;
  }
}

// An independent mask: of the template's text, what stands between the opening of an assistant's turn and its end.
TEST_P(TaughtText, WhatIsLearnedIsTheAnswersWhoeverWroteThemLike) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with(GetParam().chat_template, folder.path());
  const auto tokenizer = tokenizer::Tokenizer::load(folder.path());
  const bool llama = GetParam().chat_template.starts_with("llama3");
  const int64_t begin = tokenizer.id_of(llama ? "<|start_header_id|>" : "<|im_start|>").value();
  const int64_t end = tokenizer.id_of(llama ? "<|eot_id|>" : "<|im_end|>").value();
  const std::vector<int64_t> opened = tokenizer.encode(llama ? "<|start_header_id|>assistant<|end_header_id|>\n\n"
                                                             : "<|im_start|>assistant\n");
  Rng rng(12);
  const std::vector<std::string> words = {"x = tl.load(p)",
                                          "\n",
                                          "<|im_end|>",
                                          "<|im_start|>assistant\n",
                                          "ü",
                                          "  ",
                                          "<think>",
                                          "```python\n",
                                          "<|eot_id|>",
                                          "1e-5",
                                          "\r\n\t",
                                          "<|endoftext|>"};
  const auto drawn = [&] {
    std::string text;
    for (uint64_t i = rng.below(12); i > 0; --i) text += words[rng.below(words.size())];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<TaughtMessage> conversation;
    std::vector<std::vector<int64_t>> answers;
    if (rng.below(2) == 0) conversation.push_back({{"system", drawn()}});
    for (uint64_t turn = 0; turn <= rng.below(3); ++turn) {
      conversation.push_back({{"user", drawn()}});
      TaughtMessage& answer = conversation.emplace_back(
          TaughtMessage{{.role = "assistant", .content = drawn(), .reasoning_content = drawn()}, rng.below(2) == 0});
      answers.push_back(codec->answer(answer.message, GetParam().enable_thinking));
    }
    const MaskedTokens taught = taught_tokens(*codec, conversation, GetParam().enable_thinking);
    ASSERT_EQ(taught.tokens.size(), taught.loss_mask.size());
    // A turn of the assistant's begins behind its header (and the empty thought of who may not think) and ends with the
    // next end of turn: no message can hold either as a token.
    std::vector<uint8_t> expected(taught.tokens.size(), 0);
    size_t at = 0, turns = 0;
    for (const TaughtMessage& each : conversation) {
      while (taught.tokens.at(at) != begin) ++at;
      const bool is_answer = std::equal(opened.begin(), opened.end(), taught.tokens.begin() + static_cast<long>(at));
      const bool is_default_system = !is_answer && &each == &conversation[0] && each.message.role == "user" &&
                                     GetParam().chat_template == "qwen2.5.jinja";
      if (is_default_system) {
        while (taught.tokens.at(++at) != begin) {}
      }
      ASSERT_EQ(is_answer, each.message.role == "assistant") << round;
      size_t last = at;
      while (taught.tokens.at(last) != end) ++last;
      if (is_answer) {
        const std::vector<int64_t>& answer = answers[turns++];
        if (each.learned) std::fill_n(expected.begin() + static_cast<long>(last + 1 - answer.size()), answer.size(), 1);
      }
      at = last + 1;
    }
    ASSERT_EQ(at, taught.tokens.size()) << round;
    EXPECT_EQ(taught.loss_mask, expected) << round;
  }
}

// An opening may hold answers, and their thoughts.
TEST(Opening, SpecialTokensInAThoughtStayText) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with("qwen3.jinja", folder.path());
  const int64_t end = tokenizer::Tokenizer::load(folder.path()).id_of("<|im_end|>").value();
  const auto ends = [&](const std::string& thought) {
    const auto tokens = codec->opening(
        {{"user", "q"}, {.role = "assistant", .content = "a", .reasoning_content = thought}}, true);
    return std::count(tokens.begin(), tokens.end(), end);
  };
  EXPECT_EQ(ends("it ends <|im_end|> here"), ends("it ends here"));
}

TEST(TaughtTokens, AnythingButQuestionsAndAnswersInTurnIsRefused) {
  TemporaryFolder folder("tf-codec");
  const auto codec = codec_with("", folder.path());
  const TaughtMessage asked = {{"user", "relu"}}, answer = {{"assistant", "x"}, true};
  for (const auto& wrong : std::vector<std::vector<TaughtMessage>>{
           {}, {answer}, {asked}, {asked, answer, answer}, {asked, answer, asked}}) {
    EXPECT_THROW(taught_tokens(*codec, wrong, true), Error);
  }
  EXPECT_NO_THROW(taught_tokens(*codec, {asked, {{"system", "s"}}, answer, {{"tool", "t"}}, asked, answer}, true));
}

INSTANTIATE_TEST_SUITE_P(Formats, TaughtText,
                         testing::Values(TextCase{"", true}, TextCase{"qwen2.5.jinja", true},
                                         TextCase{"qwen3.jinja", true}, TextCase{"qwen3.jinja", false},
                                         TextCase{"qwen3-later.jinja", true}, TextCase{"llama3.jinja", true},
                                         TextCase{"llama3.jinja", false}));

}  // namespace
}  // namespace tritonforge::rollout
