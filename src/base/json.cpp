#include "base/json.h"

namespace tritonforge {

Json parse_json(std::string_view text, std::string_view where) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail(ErrorKind::kUsage, "{}: not valid JSON at byte {}", where, error.byte);
  }
}

}  // namespace tritonforge
