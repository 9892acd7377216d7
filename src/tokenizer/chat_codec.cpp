#include "tokenizer/chat_codec.h"

#include <utility>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::tokenizer {
namespace {

class TokenizerCodec : public ChatCodec {
 public:
  TokenizerCodec(Tokenizer tokenizer, const fs::path& path)
      : tokenizer_(std::move(tokenizer)),
        format_(tokenizer_.chat_template().empty() ? ChatFormat::kPlain
                                                   : recognise_chat_format(tokenizer_.chat_template())) {
    const auto end = tokenizer_.id_of(end_of_turn(format_));
    if (!end)
      fail(ErrorKind::kUnsupported, "{}: has no token {}, which ends a chat turn", path.string(), end_of_turn(format_));
    end_of_turn_ = *end;
  }

  std::vector<int64_t> opening(const std::vector<Message>& messages, bool enable_thinking) const override {
    return tokenizer_.encode_marked(render_chat(format_, marked(messages), options(enable_thinking)));
  }

  std::vector<int64_t> continuation(const std::vector<int64_t>& response, const std::vector<Message>& messages,
                                    bool enable_thinking) const override {
    std::vector<int64_t> out = tokenizer_.encode_marked(
        render_continuation(format_, marked(messages), options(enable_thinking)));
    if (response.empty() || response.back() != end_of_turn_) out.insert(out.begin(), end_of_turn_);
    return out;
  }

  std::vector<int64_t> answer(const Message& message, bool enable_thinking) const override {
    const Thought thought = split_thought(message);
    std::vector<int64_t> out = tokenizer_.encode_marked(thought_before(thought, enable_thinking) +
                                                        tokenizer_.mark_special(thought.content));
    out.push_back(end_of_turn_);
    return out;
  }

  std::string text(const std::vector<int64_t>& tokens) const override { return tokenizer_.decode(tokens, true); }

  std::vector<int64_t> stop_tokens() const override {
    std::vector<int64_t> out = {end_of_turn_};
    if (const auto eos = tokenizer_.eos_id(); eos && *eos != end_of_turn_) out.push_back(*eos);
    return out;
  }

 private:
  // Qwen3 opens a thought itself where it may think; where it may not, the empty one is part of the prompt. The others
  // think only where they are taught to.
  std::string thought_before(const Thought& thought, bool enable_thinking) const {
    if (!enable_thinking || (thought.reasoning.empty() && format_ != ChatFormat::kQwen3)) return "";
    return thought_text(tokenizer_.mark_special(thought.reasoning));
  }

  std::vector<Message> marked(std::vector<Message> messages) const {
    for (Message& message : messages) {
      message.content = tokenizer_.mark_special(message.content);
      message.reasoning_content = tokenizer_.mark_special(message.reasoning_content);
    }
    return messages;
  }

  static ChatOptions options(bool enable_thinking) {
    ChatOptions out;
    out.enable_thinking = enable_thinking;
    return out;
  }

  Tokenizer tokenizer_;
  ChatFormat format_;
  int64_t end_of_turn_ = 0;
};

}  // namespace

MaskedTokens taught_tokens(const ChatCodec& codec, const std::vector<TaughtMessage>& conversation,
                           bool enable_thinking) {
  MaskedTokens out;
  const auto add = [&](const std::vector<int64_t>& tokens, bool trained) {
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.loss_mask.resize(out.tokens.size(), trained);
  };
  std::vector<Message> asked;  // since the last answer
  std::vector<int64_t> answer;
  for (const TaughtMessage& each : conversation) {
    if (each.message.role != "assistant") {
      asked.push_back(each.message);
      continue;
    }
    if (asked.empty()) fail(ErrorKind::kUsage, "an answer follows no question");
    const bool first = answer.empty();
    const auto before = first ? codec.opening(asked, enable_thinking)
                              : codec.continuation(answer, asked, enable_thinking);
    add(before, /*trained=*/false);
    asked.clear();
    answer = codec.answer(each.message, enable_thinking);
    add(answer, each.learned);
  }
  if (!asked.empty() || answer.empty()) fail(ErrorKind::kUsage, "the conversation does not end with an answer");
  return out;
}

std::unique_ptr<ChatCodec> load_chat_codec(const fs::path& tokenizer) {
  return std::make_unique<TokenizerCodec>(Tokenizer::load(tokenizer), tokenizer);
}

}  // namespace tritonforge::tokenizer
