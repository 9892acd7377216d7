#include "tokenizer/chat_template.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "tokenizer/python_json.h"
#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {

const char* const kPlainChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

namespace {

constexpr std::string_view kThinkOpen = "<think>", kThinkClose = "</think>";
constexpr std::string_view kQwen2DefaultSystem = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

struct KnownTemplate {
  const char* checksum;  // of the text without white space at its end
  ChatFormat format;
};
constexpr KnownTemplate kKnown[] = {
    {"e392aa06018503fd2469c9508f79506e", ChatFormat::kQwen2},   // Qwen2.5, Qwen2.5-Coder: Instruct
    {"4457e3d12b367a860283f874ff58d644", ChatFormat::kQwen3},   // Qwen3, as first published
    {"09facc0e4aa943189799ad6e2dea0594", ChatFormat::kLlama3},  // Meta-Llama-3 Instruct
    {"0fab82ce8f4d5175c9e0155c80737cf2", ChatFormat::kQwen3},   // and later: the same where contents are texts
};

std::string_view strip_left(std::string_view text) {
  const size_t at = text.find_first_not_of('\n');
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}
std::string_view strip_right(std::string_view text) {
  const size_t last = text.find_last_not_of('\n');
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

bool is_list(const OrderedJson& json) { return json.is_array() && !json.empty(); }

std::string text_content(const OrderedJson& content, const std::string& where) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) fail(ErrorKind::kUsage, "{}: 'content' must be a text, null or a list of text parts", where);
  std::string joined;
  for (const OrderedJson& part : content) {
    const bool is_text = part.is_object() && part.value("type", OrderedJson()) == "text" && part.contains("text") &&
                         part["text"].is_string();
    if (!is_text)
      fail(ErrorKind::kUsage, "{}: 'content' has a part that is not {{\"type\": \"text\", \"text\": ...}}", where);
    if (&part != &content.front()) joined += " ";
    joined += part["text"].get<std::string>();
  }
  return joined;
}

void check_tool_calls(const OrderedJson& calls, const std::string& where) {
  if (calls.is_null()) return;
  if (!calls.is_array()) fail(ErrorKind::kUsage, "{}: 'tool_calls' must be a list", where);
  for (const OrderedJson& call : calls) {
    if (!call.is_object()) fail(ErrorKind::kUsage, "{}: 'tool_calls' has an item that is not an object", where);
    const OrderedJson& function = call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      fail(ErrorKind::kUsage, "{}: 'tool_calls' has an item without a function name", where);
    }
    if (!function.contains("arguments")) {
      fail(ErrorKind::kUsage, "{}: 'tool_calls': function '{}' has no 'arguments'", where,
           function["name"].get<std::string>());
    }
  }
}

void write_tools(std::string& out, const OrderedJson& tools) {
  out +=
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const OrderedJson& tool : tools) {
    out += "\n";
    out += python_json(tool);
  }
  out +=
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
      "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
      "<args-json-object>}\n</tool_call><|im_end|>\n";
}

void write_turn(std::string& out, const Message& message) {
  out += "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n";
}

void write_tool_response(std::string& out, const std::vector<Message>& messages, size_t i) {
  if (i == 0 || messages[i - 1].role != "tool") out += "<|im_start|>user";
  out += "\n<tool_response>\n" + messages[i].content + "\n</tool_response>";
  if (i + 1 == messages.size() || messages[i + 1].role != "tool") out += "<|im_end|>\n";
}

// {"name": ..., "arguments": ...}; Qwen3 prints arguments that are a text as they are, Qwen2.5 quotes them.
std::string tool_call_text(const OrderedJson& call, bool text_is_json) {
  const bool nested = call.contains("function") && !call["function"].empty();
  const OrderedJson& function = nested ? call["function"] : call;
  const OrderedJson& arguments = function["arguments"];
  const std::string shown = text_is_json && arguments.is_string() ? arguments.get<std::string>()
                                                                  : python_json(arguments);
  return "<tool_call>\n{\"name\": \"" + function["name"].get<std::string>() + "\", \"arguments\": " + shown +
         "}\n</tool_call>";
}

void write_qwen2(std::string& out, const std::vector<Message>& messages, const ChatOptions& options) {
  const bool has_system = messages[0].role == "system";
  const std::string system = has_system ? messages[0].content : std::string(kQwen2DefaultSystem);
  if (is_list(options.tools)) {
    out += "<|im_start|>system\n" + system + "\n\n";
    write_tools(out, options.tools);
  } else {
    out += "<|im_start|>system\n" + system + "<|im_end|>\n";
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    if (message.role == "user" || (message.role == "system" && i > 0)) {
      write_turn(out, message);
    } else if (message.role == "assistant") {
      const bool calls = is_list(message.tool_calls);
      out += "<|im_start|>assistant\n";
      out += message.content;
      bool first = message.content.empty();
      if (calls) {
        for (const OrderedJson& call : message.tool_calls) {
          out += (first ? "" : "\n") + tool_call_text(call, /*text_is_json=*/false);
          first = false;
        }
      }
      out += "<|im_end|>\n";
    } else if (message.role == "tool") {
      write_tool_response(out, messages, i);
    }
  }
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
}

// The last message that is a question; assistant messages before it lose their reasoning. Messages' count - 1 where
// there is none, as in the template.
size_t last_query_index(const std::vector<Message>& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string_view content = messages[i].content;
    const bool response = content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
    if (messages[i].role == "user" && !response) return i;
  }
  return messages.size() - 1;
}

void write_qwen3_assistant(std::string& out, const std::vector<Message>& messages, size_t i, size_t last_query) {
  const auto [reasoning, content] = split_thought(messages[i]);
  out += "<|im_start|>assistant\n";
  if (i > last_query && (i + 1 == messages.size() || !reasoning.empty())) {
    out += thought_text(reasoning);
    out += strip_left(content);
  } else {
    out += content;
  }
  bool first = content.empty();
  if (is_list(messages[i].tool_calls)) {
    for (const OrderedJson& call : messages[i].tool_calls) {
      out += (first ? "" : "\n") + tool_call_text(call, /*text_is_json=*/true);
      first = false;
    }
  }
  out += "<|im_end|>\n";
}

void write_qwen3(std::string& out, const std::vector<Message>& messages, const ChatOptions& options) {
  const bool has_system = messages[0].role == "system";
  if (is_list(options.tools)) {
    out += "<|im_start|>system\n";
    if (has_system) out += messages[0].content + "\n\n";
    write_tools(out, options.tools);
  } else if (has_system) {
    write_turn(out, messages[0]);
  }
  const size_t last_query = last_query_index(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "user" || (role == "system" && i > 0)) write_turn(out, messages[i]);
    else if (role == "assistant") write_qwen3_assistant(out, messages, i, last_query);
    else if (role == "tool") write_tool_response(out, messages, i);
  }
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
  if (options.add_generation_prompt && !options.enable_thinking) out += "<think>\n\n</think>\n\n";
}

// What Python's str.strip() takes away. Marks of special tokens (Tokenizer::mark_special) are none of it.
std::string_view stripped(std::string_view text) {
  const auto is_space = [](const unicode::Character& c) {
    return c.valid && ((unicode::classes_of(c.point) & unicode::kSpace) != 0 || (c.point >= 0x1C && c.point <= 0x1F));
  };
  while (!text.empty()) {
    const auto first = unicode::decode_utf8(text.data(), text.data() + text.size());
    if (!is_space(first)) break;
    text.remove_prefix(first.size);
  }
  while (!text.empty()) {
    const size_t at = character_start(text, text.size() - 1);
    const auto last = unicode::decode_utf8(text.data() + at, text.data() + text.size());
    if (at + last.size != text.size() || !is_space(last)) break;
    text.remove_suffix(last.size);
  }
  return text;
}

void write_llama3_header(std::string& out, std::string_view role) {
  out.append("<|start_header_id|>").append(role).append("<|end_header_id|>\n\n");
}

void write_llama3_turn(std::string& out, const Message& message) {
  write_llama3_header(out, message.role);
  out.append(stripped(message.content)).append("<|eot_id|>");
}

// Formats that can say texts only.
void check_texts_only(std::string_view format, const std::vector<Message>& messages, const ChatOptions& options) {
  if (is_list(options.tools)) fail(ErrorKind::kUnsupported, "the {} chat format has no tools", format);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (is_list(messages[i].tool_calls))
      fail(ErrorKind::kUnsupported, "message {}: the {} chat format has no tool calls", i, format);
    if (!messages[i].reasoning_content.empty())
      fail(ErrorKind::kUnsupported, "message {}: the {} chat format has no reasoning_content", i, format);
  }
}

void write_llama3(std::string& out, const std::vector<Message>& messages, const ChatOptions& options) {
  check_texts_only("Llama 3", messages, options);
  out += "<|begin_of_text|>";
  for (const Message& message : messages) write_llama3_turn(out, message);
  if (options.add_generation_prompt) write_llama3_header(out, "assistant");
}

void write_plain(std::string& out, const std::vector<Message>& messages, const ChatOptions& options) {
  check_texts_only("plain", messages, options);
  for (const Message& message : messages) write_turn(out, message);
  if (options.add_generation_prompt) out += "<|im_start|>assistant\n";
}

}  // namespace

Thought split_thought(const Message& message) {
  if (message.reasoning_given || !message.reasoning_content.empty())
    return {message.reasoning_content, message.content};
  const std::string_view text = message.content;
  const size_t first = text.find(kThinkClose), last = text.rfind(kThinkClose);
  if (first == std::string_view::npos) return {"", message.content};
  std::string_view before = strip_right(text.substr(0, first));
  const size_t open = before.rfind(kThinkOpen);
  if (open != std::string_view::npos) before = before.substr(open + kThinkOpen.size());
  return {std::string(strip_left(before)), std::string(strip_left(text.substr(last + kThinkClose.size())))};
}

std::string thought_text(const std::string& reasoning) {
  return fmt::format("{}\n{}\n{}\n\n", kThinkOpen, strip_left(strip_right(reasoning)), kThinkClose);
}

Message message_from_json(const OrderedJson& json, const std::string& where) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: a message must be an object", where);
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return std::string();
    if (!found->is_string()) fail(ErrorKind::kUsage, "{}: '{}' must be a text", where, key);
    return found->get<std::string>();
  };
  static const std::vector<std::string> roles = {"system", "user", "assistant", "tool"};
  Message message;
  message.role = text("role");
  if (std::find(roles.begin(), roles.end(), message.role) == roles.end()) {
    fail(ErrorKind::kUsage, "{}: unknown role '{}'{}", where, message.role, nearest_hint(message.role, roles));
  }
  if (!json.contains("content") && !json.contains("tool_calls"))
    fail(ErrorKind::kUsage, "{}: field 'content' is missing", where);
  message.content = text_content(json.contains("content") ? json["content"] : OrderedJson(), where);
  message.reasoning_content = text("reasoning_content");
  message.reasoning_given = json.contains("reasoning_content") && !json["reasoning_content"].is_null();
  if (json.contains("tool_calls")) message.tool_calls = json["tool_calls"];
  check_tool_calls(message.tool_calls, where);
  return message;
}

std::vector<Message> messages_from_json(const OrderedJson& list, const std::string& where) {
  if (!list.is_array() || list.empty())
    fail(ErrorKind::kUsage, "{}: 'messages' must be a list that is not empty", where);
  std::vector<Message> messages;
  for (const OrderedJson& json : list) {
    messages.push_back(message_from_json(json, fmt::format("{}: messages[{}]", where, messages.size())));
  }
  return messages;
}

ChatFormat recognise_chat_format(const std::string& chat_template, const std::string& where) {
  const size_t last = chat_template.find_last_not_of(" \t\r\n");
  if (last == std::string::npos || chat_template == kPlainChatTemplate) return ChatFormat::kPlain;
  const std::string found = checksum(std::string_view(chat_template).substr(0, last + 1));
  for (const KnownTemplate& known : kKnown) {
    if (found == known.checksum) return known.format;
  }
  std::string first_line = chat_template.substr(0, std::min<size_t>(chat_template.find('\n'), 60));
  fail(ErrorKind::kUnsupported,
       "{}: template {} ('{}...') is not understood; those of Qwen2.5, Qwen3, Llama 3 and plain ChatML are", where,
       found, first_line);
}

std::string render_chat(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options) {
  if (messages.empty()) fail(ErrorKind::kUsage, "a conversation needs a message");
  std::string out;
  switch (format) {
    case ChatFormat::kQwen2: write_qwen2(out, messages, options); break;
    case ChatFormat::kQwen3: write_qwen3(out, messages, options); break;
    case ChatFormat::kLlama3: write_llama3(out, messages, options); break;
    case ChatFormat::kPlain: write_plain(out, messages, options); break;
  }
  return out;
}

std::string_view end_of_turn(ChatFormat format) { return format == ChatFormat::kLlama3 ? "<|eot_id|>" : "<|im_end|>"; }

std::string render_continuation(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options) {
  if (format == ChatFormat::kLlama3) {
    std::string turns;
    for (const Message& message : messages) write_llama3_turn(turns, message);
    write_llama3_header(turns, "assistant");
    return turns;
  }
  std::string out = "\n";
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "tool" && format != ChatFormat::kPlain) write_tool_response(out, messages, i);
    else write_turn(out, messages[i]);
  }
  out += "<|im_start|>assistant\n";
  if (format == ChatFormat::kQwen3 && !options.enable_thinking) out += "<think>\n\n</think>\n\n";
  return out;
}

}  // namespace tritonforge::tokenizer
