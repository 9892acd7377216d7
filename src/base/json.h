#pragma once
// JSON for the edges: HTTP bodies and files. Nothing past an edge passes Json around.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tritonforge {
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys: for what a chat template prints as it came

// Copying, comparing and printing a Json recurse: whoever sends one must not decide how deep (a document of two million
// brackets ends the process). Every text from outside is parsed by one of these three.
inline constexpr int kMaxJsonDepth = 128;

// Parses, or throws kUsage naming `where` and the byte, or that it is nested too deep or has a number like 1e999.
Json parse_json(std::string_view text, std::string_view where);
OrderedJson parse_ordered_json(std::string_view text, std::string_view where);
// Discarded (is_discarded()) where the text is no JSON or nested too deep.
Json parse_json_or_discard(std::string_view text);

// Throws kUsage where `object` is none, or names the first field that is not in `known`, and the nearest that is.
void check_keys(const Json& object, const std::vector<std::string>& known, std::string_view where);

// Typed field access that fails with kUsage naming the field: require<int>(body, "seed", "POST /eval").
template <typename T>
T require(const Json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::kUsage, "{}: field '{}' is missing", where, key);
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::kUsage, "{}: field '{}' has the wrong type: {}", where, key, found->dump().substr(0, 80));
  }
}
template <typename T>
T optional_field(const Json& object, const char* key, T fallback, std::string_view where) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? fallback : require<T>(object, key, where);
}

// The list in a field, not copied. kUsage naming the field where `object` is none or the field holds no list.
const Json& require_list(const Json& object, const char* key, std::string_view where);
}  // namespace tritonforge
