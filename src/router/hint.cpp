#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "router/proxy.h"

namespace tritonforge::router {
namespace {

// What a body is searched for, each where it stands first. The prompts in the order in which they count.
constexpr std::array<std::string_view, 4> kPrompts{"\"input_ids\"", "\"text\"", "\"messages\"", "\"prompt\""};
constexpr std::array<std::string_view, 3> kLengths{"\"max_new_tokens\"", "\"max_tokens\"", "\"max_completion_tokens\""};
constexpr std::string_view kSession = "\"session_id\"";

struct Found {
  std::array<size_t, kPrompts.size()> prompts;
  std::array<size_t, kLengths.size()> lengths;
  bool session = false;
};

bool stands_at(std::string_view key, std::string_view body, size_t at) {
  return at + 1 < body.size() && body[at + 1] == key[1] && body.compare(at, key.size(), key) == 0;
}

// One scan from quote to quote, not a parse: what is found only weighs requests against each other.
Found scan(std::string_view body) {
  Found found;
  found.prompts.fill(std::string_view::npos);
  found.lengths.fill(std::string_view::npos);
  const auto look = [&](const auto& keys, auto& places, size_t at) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (places[i] == std::string_view::npos && stands_at(keys[i], body, at)) places[i] = at;
    }
  };
  for (size_t at = body.find('"'); at != std::string_view::npos; at = body.find('"', at + 1)) {
    look(kPrompts, found.prompts, at);
    look(kLengths, found.lengths, at);
    found.session = found.session || stands_at(kSession, body, at);
  }
  return found;
}

size_t behind_spaces(std::string_view body, size_t at) {
  return std::min(body.find_first_not_of(" \t\r\n", at), body.size());
}

// The end of the string whose quote is at `at`.
size_t end_of_string(std::string_view body, size_t at) {
  for (++at; at < body.size() && body[at] != '"'; ++at) {
    if (body[at] == '\\') ++at;
  }
  return std::min(at + 1, body.size());
}

// A string or number of the outermost object, as text; empty: there is none. One pass that builds no tree.
std::string outer_value(std::string_view body, std::string_view key) {
  int depth = 0;
  for (size_t at = 0; at < body.size();) {
    const char c = body[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') {
      ++at;
      continue;
    }
    const size_t start = std::exchange(at, end_of_string(body, at));
    const size_t colon = behind_spaces(body, at);
    if (depth != 1 || body.substr(start, at - start) != key || colon == body.size() || body[colon] != ':') continue;
    const size_t first = behind_spaces(body, colon + 1);
    const bool is_string = first < body.size() && body[first] == '"';
    const size_t end = is_string ? end_of_string(body, first) : body.find_first_of(",} \t\r\n", first);
    const Json value = parse_json_or_discard(body.substr(first, end - first));
    return value.is_string() ? value.get<std::string>() : value.is_discarded() ? "" : value.dump();
  }
  return "";
}

int64_t number_at(std::string_view body, size_t start) {
  while (start < body.size() && (body[start] == ':' || body[start] == ' ')) ++start;
  int64_t value = 0;
  std::from_chars(body.data() + start, body.data() + body.size(), value);
  return std::clamp<int64_t>(value, 0, 1 << 20);
}

}  // namespace

RouteHint hint_of(const net::Headers& headers, std::string_view body) {
  RouteHint hint;
  const Found found = scan(body);
  hint.tokens = static_cast<int64_t>(body.size() / 4);
  for (size_t i = 0; i < kLengths.size(); ++i) {
    if (found.lengths[i] != std::string_view::npos)
      hint.tokens += number_at(body, found.lengths[i] + kLengths[i].size());
  }
  const auto prompt = std::find_if(found.prompts.begin(), found.prompts.end(),
                                   [](size_t at) { return at != std::string_view::npos; });
  if (prompt != found.prompts.end()) hint.prompt = body.substr(*prompt);
  if (const auto header = headers.find("x-session-id"); header != headers.end()) {
    hint.session = header->second;
  } else if (found.session) {
    hint.session = outer_value(body, kSession);
  }
  return hint;
}

}  // namespace tritonforge::router
