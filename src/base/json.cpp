#include "base/json.h"

#include <algorithm>
#include <cmath>

namespace tritonforge {

namespace {
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <typename AnyJson>
AnyJson parse(std::string_view text, std::string_view where) {
  if (is_too_deep(text)) fail(ErrorKind::kUsage, "{}: nested deeper than {} levels", where, kMaxJsonDepth);
  try {
    return AnyJson::parse(text);
  } catch (const typename AnyJson::parse_error& error) {
    fail(ErrorKind::kUsage, "{}: not valid JSON at byte {}", where, error.byte);
  } catch (const typename AnyJson::out_of_range&) {
    fail(ErrorKind::kUsage, "{}: the JSON has a number that no double holds", where);
  }
}
}  // namespace

Json parse_json(std::string_view text, std::string_view where) { return parse<Json>(text, where); }

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) {
  return parse<OrderedJson>(text, where);
}

Json parse_json_or_discard(std::string_view text) {
  if (is_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

bool is_whole(const Json& json) {
  return json.is_number_integer() || (json.is_number() && std::trunc(json.get<double>()) == json.get<double>());
}

void check_keys(const Json& object, const std::vector<std::string>& known, std::string_view where) {
  if (!object.is_object()) fail(ErrorKind::kUsage, "{}: expected an object, found {}", where, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ErrorKind::kUsage, "{}: unknown field '{}'{}", where, key, nearest_hint(key, known));
  }
}

const Json& require_list(const Json& object, const char* key, std::string_view where) {
  if (!object.is_object()) fail(ErrorKind::kUsage, "{} must be an object", where);
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) fail(ErrorKind::kUsage, "{}: field '{}' must be a list", where, key);
  return *found;
}

}  // namespace tritonforge
