#pragma once
// Chat templates of Qwen2.5 and Qwen3, rendered by own code and recognised by the template's text; any other template
// is refused by name. Equal to the Jinja templates character by character.
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge {

struct Message {
  std::string role;            // system | user | assistant | tool
  std::string content;
  std::string reasoning_content;
  Json tool_calls;             // null or a list, OpenAI form
};
Message message_from_json(const Json& json, const std::string& where);   // throws kUsage

enum class ChatFormat { kQwen2, kQwen3, kPlain };

struct ChatOptions {
  bool add_generation_prompt = true;
  bool enable_thinking = true;   // Qwen3 only
  Json tools;                    // null or a list
};

// kPlain (own models without a template): "<|im_start|>role\ncontent<|im_end|>\n" per message.
ChatFormat recognise_chat_format(const std::string& chat_template);   // throws kUnsupported
std::string render_chat(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options);

// What must follow an assistant turn's sampled tokens (which end in <|im_end|>) to append a user message and open the
// next assistant turn: "\n<|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n" -- tokenised once and appended.
std::string render_continuation(ChatFormat format, const Message& user, const ChatOptions& options);

}  // namespace tritonforge
