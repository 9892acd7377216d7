#include "contract/fields.h"

namespace tritonforge {

Json figure_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double figure_of(const Json& json, const char* key, std::string_view where) {
  if (const auto found = json.find(key); found != json.end() && found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return require<double>(json, key, where);
}

}  // namespace tritonforge
