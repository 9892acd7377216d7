#include "dataset/sources/chat.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

std::string text_field(const OrderedJson& record, const std::string& key) {
  const auto found = record.find(key);
  if (found == record.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

void rename_field(OrderedJson& message, const std::string& from, const char* to) {
  if (from == to || !message.contains(from)) return;
  message[to] = message[from];
}

// No output holds calls or the tools that were offered: without them an answer that calls would be taught as empty.
constexpr const char* kUsesTools = "it uses tools";

bool is_something(const OrderedJson& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && !found->empty();
}

// As OpenAI's interface has them now, and as it had them before (function_call, functions, the role function).
bool uses_tools(const OrderedJson& message) {
  return is_something(message, "tool_calls") || is_something(message, "function_call") ||
         message.value("role", OrderedJson()) == "function";
}

// Why it is no message, or "".
std::string add_message(Row& row, OrderedJson json, const ChatOptions& options) {
  if (!json.is_object()) return "a message is not an object";
  rename_field(json, options.role, "role");
  rename_field(json, options.content, "content");
  if (uses_tools(json)) return kUsesTools;
  static const std::vector<std::string> kRoles = {"system", "user", "assistant", "tool"};
  const std::string role = json.contains("role") && json["role"].is_string() ? json["role"].get<std::string>() : "";
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) return "an unknown role";
  tokenizer::TaughtMessage& each = row.messages.emplace_back();
  try {
    each.message = tokenizer::message_from_json(json, "message");
  } catch (const Error&) {
    return "a message's content is no text";
  }
  const auto weight = json.find("weight");
  const bool off = weight != json.end() && weight->is_number() && weight->get<double>() == 0;
  each.learned = role == "assistant" && !off;
  if (each.learned && each.message.content.empty() && each.message.reasoning_content.empty()) return "an empty answer";
  return "";
}

std::string shape_of(const Row& row) {
  if (row.messages.empty()) return "no answer";
  for (size_t i = 0; i < row.messages.size(); ++i) {
    if (row.messages[i].message.role != "assistant") continue;
    if (i == 0) return "an answer comes first";
    if (row.messages[i - 1].message.role == "assistant") return "two answers in a row";
  }
  return row.learns() ? "" : "no answer is learned";
}

class Chat : public Source {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options),
        records_(files_of(options.path, {".jsonl", ".parquet"}),
                 {{options.messages, ColumnKind::kJson},
                  {"tools", ColumnKind::kJson, /*required=*/false},
                  {"functions", ColumnKind::kJson, /*required=*/false},
                  {options.uuid, ColumnKind::kJson, /*required=*/false},
                  {options.licence, ColumnKind::kJson, /*required=*/false}},
                 "a column of another name is said by the source's option 'messages'") {}

  std::vector<fs::path> files() const override { return records_.files(); }
  std::optional<Row> next() override {
    auto record = records_.next();
    if (!record) return std::nullopt;
    return chat_row(options_, std::move(*record));
  }

 private:
  ChatOptions options_;
  Records records_;
};

}  // namespace

Row chat_row(const ChatOptions& options, JsonLine record) {
  Row row;
  row.place = std::move(record.place);
  if (!record.problem.empty()) {
    row.drop("read", record.problem);
    return row;
  }
  row.uuid = text_field(record.value, options.uuid);
  row.licence = text_field(record.value, options.licence);
  const auto list = record.value.find(options.messages);
  if (list == record.value.end() || !list->is_array()) {
    row.drop("read", fmt::format("'{}' is no list of messages", options.messages));
    return row;
  }
  if (list->empty()) row.drop("read", "an empty conversation");
  if (is_something(record.value, "tools") || is_something(record.value, "functions")) row.drop("read", kUsesTools);
  for (OrderedJson& message : *list) {
    if (const std::string why = add_message(row, std::move(message), options); !why.empty()) row.drop("read", why);
  }
  const size_t given = row.messages.size();
  while (!row.messages.empty() && row.messages.back().message.role != "assistant") row.messages.pop_back();
  if (!row.messages.empty() && row.messages.size() < given) row.repairs.emplace_back("trailing_messages");
  if (const std::string why = shape_of(row); !why.empty()) row.drop("read", why);
  return row;
}

std::unique_ptr<Source> make_chat(const ChatOptions& options) { return std::make_unique<Chat>(options); }

}  // namespace tritonforge::dataset
