#include <algorithm>
#include <charconv>

#include "router/proxy.h"

namespace tritonforge::router {
namespace {

// A scan, not a parse: the value only weighs requests against each other.
int64_t number_after(std::string_view body, std::string_view key) {
  const size_t at = body.find(key);
  if (at == std::string_view::npos) return 0;
  size_t start = at + key.size();
  while (start < body.size() && (body[start] == ':' || body[start] == ' ')) ++start;
  int64_t value = 0;
  std::from_chars(body.data() + start, body.data() + body.size(), value);
  return std::clamp<int64_t>(value, 0, 1 << 20);
}

}  // namespace

RouteHint hint_of(const net::Headers& headers, std::string_view body) {
  RouteHint hint;
  hint.tokens = static_cast<int64_t>(body.size() / 4);
  for (const auto* key : {"\"max_new_tokens\"", "\"max_tokens\"", "\"max_completion_tokens\""})
    hint.tokens += number_after(body, key);
  for (const auto* key : {"\"input_ids\"", "\"text\"", "\"messages\"", "\"prompt\""}) {
    if (const size_t at = body.find(key); at != std::string_view::npos) {
      hint.prompt = body.substr(at);
      break;
    }
  }
  if (const auto header = headers.find("x-session-id"); header != headers.end()) {
    hint.session = header->second;
  } else if (body.find("\"session_id\"") != std::string_view::npos) {
    const Json parsed = parse_json_or_discard(body);
    if (parsed.is_object() && parsed.contains("session_id")) {
      const Json& session = parsed["session_id"];
      hint.session = session.is_string() ? session.get<std::string>() : session.dump();
    }
  }
  return hint;
}

}  // namespace tritonforge::router
