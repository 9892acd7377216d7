#pragma once
// Between chat messages and token ids. A trajectory's tokens are made once: the opening is encoded whole, and what
// stands between two turns is encoded alone and appended; what was sampled is never encoded again.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::rollout {

class ChatCodec {
 public:
  virtual ~ChatCodec() = default;
  // Up to and including the opening of the assistant's turn.
  virtual std::vector<int64_t> opening(const std::vector<tokenizer::Message>& messages, bool enable_thinking) const = 0;
  // What follows `response` to hand over `user` and open the next assistant turn. Where the response does not end in
  // the end-of-turn token (it was cut, or met a stop string), that token comes first: not sampled, so it carries no
  // loss.
  virtual std::vector<int64_t> continuation(const std::vector<int64_t>& response, const tokenizer::Message& user,
                                            bool enable_thinking) const = 0;
  virtual std::string text(const std::vector<int64_t>& tokens) const = 0;  // without special tokens
  virtual std::vector<int64_t> stop_tokens() const = 0;
};

// From a tokenizer's files; the chat format follows its template. Throws kNotFound / kCorrupt / kUnsupported.
std::unique_ptr<ChatCodec> load_chat_codec(const fs::path& tokenizer);

}  // namespace tritonforge::rollout
