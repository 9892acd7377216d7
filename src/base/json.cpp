#include "base/json.h"

namespace tritonforge {

namespace {
template <typename AnyJson>
AnyJson parse(std::string_view text, std::string_view where) {
  try {
    return AnyJson::parse(text);
  } catch (const typename AnyJson::parse_error& error) {
    fail(ErrorKind::kUsage, "{}: not valid JSON at byte {}", where, error.byte);
  }
}
}  // namespace

Json parse_json(std::string_view text, std::string_view where) { return parse<Json>(text, where); }

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) {
  return parse<OrderedJson>(text, where);
}

}  // namespace tritonforge
