#include "tokenizer/loss_mask.h"

#include "base/error.h"

namespace tritonforge::tokenizer {
namespace {

bool has_reasoning(const Message& message) {
  return !message.reasoning_content.empty() ||
         (!message.reasoning_given && message.content.find("</think>") != std::string::npos);
}

void check_reasoning_is_kept(const std::vector<Message>& messages, const std::vector<bool>& train) {
  const size_t last_query = last_query_index(messages);
  for (size_t i = 0; i < last_query; ++i) {
    if (train[i] && messages[i].role == "assistant" && has_reasoning(messages[i])) {
      fail(ErrorKind::kUnsupported,
           "message {}: Qwen3's template drops the reasoning of an answer before the last question, so it cannot be "
           "trained on; cut the conversation after it, or set its train flag to false",
           i);
    }
  }
}

}  // namespace

MaskedTokens tokenize_conversation(const Tokenizer& tokenizer, ChatFormat format, const std::vector<Message>& messages,
                                   const std::vector<bool>& train, ChatOptions options) {
  if (!train.empty() && train.size() != messages.size()) {
    fail(ErrorKind::kUsage, "{} train flags for {} messages", train.size(), messages.size());
  }
  const std::vector<bool> flags = train.empty() ? std::vector<bool>(messages.size(), true) : train;
  if (format == ChatFormat::kQwen3) check_reasoning_is_kept(messages, flags);
  options.add_generation_prompt = false;

  MaskedTokens result;
  bool any = false;
  for (const ChatSegment& segment : render_chat_segments(format, messages, options)) {
    const bool trained = segment.message >= 0 && flags[static_cast<size_t>(segment.message)];
    any = any || trained;
    const std::vector<int64_t> ids = tokenizer.encode(segment.text);
    result.tokens.insert(result.tokens.end(), ids.begin(), ids.end());
    result.loss_mask.resize(result.tokens.size(), trained);
  }
  if (!any)
    fail(ErrorKind::kUsage, "a conversation of {} messages has no assistant message to train on", messages.size());
  return result;
}

}  // namespace tritonforge::tokenizer
