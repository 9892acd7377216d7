#pragma once
// Chat templates of Qwen2.5, Qwen3 and Llama 3, rendered by own code and recognised by the template's text; any other
// template is refused by name. Equal to the Jinja templates character by character.
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::tokenizer {

struct Message {
  std::string role;  // system | user | assistant | tool
  std::string content;
  std::string reasoning_content;
  // null or a list, OpenAI form. Templates print arguments and tools with their keys in the order in which they came:
  // parse a request with parse_ordered_json to keep it.
  OrderedJson tool_calls;
  bool reasoning_given = false;  // reasoning_content was there, if only as "": content is not searched for </think>
};
// Content is a text, null, or OpenAI's list of text parts (joined by a space). Throws kUsage naming `where` and the
// field.
Message message_from_json(const OrderedJson& json, const std::string& where);
std::vector<Message> messages_from_json(const OrderedJson& list, const std::string& where);

// What an assistant thought and what it said: reasoning_content where it is given, else what stands before the last
// </think> of the content, as Qwen3's template takes it apart. Neither keeps the empty lines that stood between.
struct Thought {
  std::string reasoning, content;
};
Thought split_thought(const Message& message);
// As every format has it before the content.
std::string thought_text(const std::string& reasoning);

enum class ChatFormat { kQwen2, kQwen3, kLlama3, kPlain };

struct ChatOptions {
  bool add_generation_prompt = true;
  bool enable_thinking = true;  // Qwen3 only
  OrderedJson tools;            // null or a list
};

// kPlain (ChatML, also where the model has no template): "<|im_start|>role\ncontent<|im_end|>\n" per message.
// `where` names the model in the error.
ChatFormat recognise_chat_format(const std::string& chat_template,
                                 const std::string& where = "chat template");  // throws kUnsupported
// kLlama3: that of Llama 3 (3.1 and later tell the date and have another). Contents lose the white space around them.
// Throws kUsage where there are no messages, kUnsupported for what kPlain and kLlama3 cannot say (tools, tool calls,
// reasoning).
std::string render_chat(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options);

// The ChatML template in Jinja, which recognise_chat_format knows as kPlain: for models that are made here.
extern const char* const kPlainChatTemplate;

// The token that ends a turn.
std::string_view end_of_turn(ChatFormat format);

// What must follow an assistant turn's sampled tokens (which end in that token) to append user, tool or system messages
// and open the next assistant turn: "\n<|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n" -- tokenised once and
// appended.
std::string render_continuation(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options);

}  // namespace tritonforge::tokenizer
