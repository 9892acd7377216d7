#include "rollout/dialogue.h"

#include <algorithm>

#include "base/text.h"
#include "rollout/extract.h"
#include "rollout/prompts.h"

namespace tritonforge::rollout {
namespace {

class TokenDialogue : public Dialogue {
 public:
  TokenDialogue(const GroupSpec& group, const Peers& peers, const ChatCodec& codec)
      : group_(group),
        peers_(peers),
        codec_(codec),
        tokens_(codec.opening(opening_messages(group), group.options.enable_thinking)) {}

  int64_t room() const override { return group_.options.max_context - prompt_tokens(); }
  int64_t prompt_tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  void open_turn(Turn& turn) const override { turn.prompt_tokens = tokens_; }

  std::optional<Error> answer(Turn& turn, const std::string& id, uint64_t seed, std::stop_token stop) const override {
    const int64_t most = std::min(group_.options.sampling.max_new_tokens, room());
    auto completion = peers_.generate(group_, id, turn.prompt_tokens, most, seed, codec_.stop_tokens(), stop);
    if (!completion.ok()) return completion.error();
    turn.response_tokens = std::move(completion->tokens);
    turn.log_probs = std::move(completion->log_probs);
    turn.weight_versions = std::move(completion->weight_versions);
    turn.status = completion->truncated ? TurnStatus::kTruncated : TurnStatus::kCompleted;
    turn.text = codec_.text(turn.response_tokens);
    return std::nullopt;
  }

  void follow(const Turn& turn, const tokenizer::Message& feedback) override {
    tokens_.insert(tokens_.end(), turn.response_tokens.begin(), turn.response_tokens.end());
    const auto between = codec_.continuation(turn.response_tokens, {feedback}, group_.options.enable_thinking);
    tokens_.insert(tokens_.end(), between.begin(), between.end());
  }

 private:
  const GroupSpec& group_;
  const Peers& peers_;
  const ChatCodec& codec_;
  std::vector<int64_t> tokens_;
};

class ChatDialogue : public Dialogue {
 public:
  ChatDialogue(const GroupSpec& group, const Peers& peers)
      : group_(group), peers_(peers), messages_(opening_messages(group)) {}

  int64_t room() const override { return group_.options.max_context; }
  int64_t prompt_tokens() const override { return 0; }
  void open_turn(Turn&) const override {}

  std::optional<Error> answer(Turn& turn, const std::string& id, uint64_t seed, std::stop_token stop) const override {
    auto reply = peers_.chat(group_, id, messages_, seed, stop);
    if (!reply.ok()) return reply.error();
    turn.status = reply->truncated ? TurnStatus::kTruncated : TurnStatus::kCompleted;
    turn.text = std::move(reply->text);
    return std::nullopt;
  }

  void follow(const Turn& turn, const tokenizer::Message& feedback) override {
    // Without its thoughts: servers that take them out of an answer do not want them back.
    bool unclosed = false;
    std::string_view answer = without_thinking(turn.text, &unclosed);
    if (answer.size() < turn.text.size()) answer = trimmed(answer);
    messages_.push_back({.role = "assistant", .content = std::string(answer)});
    messages_.push_back(feedback);
  }

 private:
  const GroupSpec& group_;
  const Peers& peers_;
  std::vector<tokenizer::Message> messages_;
};

}  // namespace

std::unique_ptr<Dialogue> open_dialogue(const GroupSpec& group, const Peers& peers, const ChatCodec& codec) {
  if (!group.options.chat_model.empty()) return std::make_unique<ChatDialogue>(group, peers);
  return std::make_unique<TokenDialogue>(group, peers, codec);
}

}  // namespace tritonforge::rollout
