#pragma once
// Between chat messages and token ids. A trajectory's tokens are made once: the opening is encoded whole, and what
// stands between two turns is encoded alone and appended; what was sampled is never encoded again. Special tokens that
// stand in a message stay text: nobody's content ends a turn or opens one.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::tokenizer {

class ChatCodec {
 public:
  virtual ~ChatCodec() = default;
  // Up to and including the opening of the assistant's turn.
  virtual std::vector<int64_t> opening(const std::vector<Message>& messages, bool enable_thinking) const = 0;
  // What follows `response` to hand over `messages` (at least one) and open the next assistant turn. Where the response
  // does not end in the end-of-turn token (it was cut, or met a stop string), that token comes first: not sampled, so
  // it carries no loss.
  virtual std::vector<int64_t> continuation(const std::vector<int64_t>& response, const std::vector<Message>& messages,
                                            bool enable_thinking) const = 0;
  // What a taught model samples to say `message`: its thought (split_thought), its content and the end of its turn.
  // Between opening() or continuation() and the next continuation() it is what a sampled response is, so that a
  // conversation put together from these parts is token for token the one that RL would have. A model that may not
  // think has no thought.
  virtual std::vector<int64_t> answer(const Message& message, bool enable_thinking) const = 0;
  virtual std::string text(const std::vector<int64_t>& tokens) const = 0;  // without special tokens
  virtual std::vector<int64_t> stop_tokens() const = 0;
};

struct TaughtMessage {
  Message message;
  bool learned = false;  // of an assistant's: whether its tokens carry loss
};
struct MaskedTokens {
  std::vector<int64_t> tokens;
  std::vector<uint8_t> loss_mask;  // 1 = trained; as long as tokens
};
// One training example of SFT: what RL would hold after this conversation. Loss is on the tokens of the answers that
// are to be learned, their thoughts and ends of turn included, and on nothing else. Throws kUsage where the
// conversation does not begin with a message that is not the assistant's, does not end with one of the assistant's, or
// has two of the assistant's in a row.
MaskedTokens taught_tokens(const ChatCodec& codec, const std::vector<TaughtMessage>& conversation,
                           bool enable_thinking);

// From a tokenizer's files; the chat format follows its template. Throws kNotFound / kCorrupt / kUnsupported.
std::unique_ptr<ChatCodec> load_chat_codec(const fs::path& tokenizer);

}  // namespace tritonforge::tokenizer
