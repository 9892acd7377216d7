#pragma once
// JSON for the edges: HTTP bodies and files. Nothing past an edge passes Json around.
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

template <typename T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

bool is_whole(const Json& json);  // 2 and 2.0, however large; not true

// Nothing where it is no whole number of T's range. nlohmann's own get<int>() cuts 1.5 to 1, wraps what does not fit,
// and takes true for 1.
template <Integer T>
std::optional<T> whole_number(const Json& json) {
  if (!is_whole(json)) return std::nullopt;
  const auto fitting = [](auto value) { return std::in_range<T>(value) ? std::optional<T>(value) : std::nullopt; };
  if (json.is_number_unsigned()) return fitting(json.get<uint64_t>());
  if (json.is_number_integer()) return fitting(json.get<int64_t>());
  const auto value = json.get<double>();
  if (value < -0x1p63 || value >= 0x1p64) return std::nullopt;
  return value < 0 ? fitting(static_cast<int64_t>(value)) : fitting(static_cast<uint64_t>(value));
}

namespace detail {

template <typename T>
bool read(const Json& json, std::vector<T>& into);
template <typename T>
bool read(const Json& json, std::map<std::string, T>& into);

// False where it holds something else; may throw nlohmann's exceptions instead.
template <typename T>
bool read(const Json& json, T& into) {
  if constexpr (Integer<T>) {
    const auto whole = whole_number<T>(json);
    if (whole) into = *whole;
    return whole.has_value();
  } else {
    json.get_to(into);
    return true;
  }
}
template <typename T>
bool read(const Json& json, std::vector<T>& into) {
  if (!json.is_array()) return false;
  into.resize(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    T entry{};
    if (!read(json[i], entry)) return false;
    into[i] = std::move(entry);
  }
  return true;
}
template <typename T>
bool read(const Json& json, std::map<std::string, T>& into) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    if (!read(value, into[key])) return false;
  }
  return true;
}

}  // namespace detail

// Typed field access that fails with kUsage naming the field: require<int>(body, "seed", "POST /eval"). Integers, alone
// and in lists and maps, are neither cut nor wrapped; 2.0 is 2.
template <typename T>
T require(const Json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::kUsage, "{}: field '{}' is missing", where, key);
  T value{};
  bool is_one = false;
  try {
    is_one = detail::read(*found, value);
  } catch (const nlohmann::json::exception&) {
    is_one = false;
  }
  if (is_one) return value;
  const std::string shown = found->dump().substr(0, 80);
  if constexpr (Integer<T>) {
    if (!is_whole(*found)) fail(ErrorKind::kUsage, "{}: field '{}' must be an integer, not {}", where, key, shown);
    fail(ErrorKind::kUsage, "{}: field '{}' must be between {} and {}, not {}", where, key,
         std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), shown);
  }
  fail(ErrorKind::kUsage, "{}: field '{}' has the wrong type: {}", where, key, shown);
}
template <typename T>
T optional_field(const Json& object, const char* key, T fallback, std::string_view where) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? fallback : require<T>(object, key, where);
}

// The list in a field, not copied. kUsage naming the field where `object` is none or the field holds no list.
const Json& require_list(const Json& object, const char* key, std::string_view where);
}  // namespace tritonforge
