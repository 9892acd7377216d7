#include "evaluate/plan/arguments.h"

#include <fmt/format.h>

namespace tritonforge::evaluate {
namespace {

using Form = PlanBinding::Form;

std::string text_of(const std::string& kind, size_t bytes) {
  if (kind == "global") return "a pointer";
  if (kind == "local") return "memory of a block";
  return fmt::format("{} of {} bytes",
                     kind == "real"      ? "a real number"
                     : kind == "integer" ? "an integer"
                                         : "a value",
                     bytes);
}

bool fits(const PlanBinding& given, const std::string& kind, size_t bytes, bool converts) {
  const bool pointer = given.form == Form::kTensor || given.form == Form::kNull;
  if (kind == "global") return pointer;
  if (kind == "value" && bytes == 8) return true;
  if (pointer) return false;
  if (kind == "local") return given.form == Form::kInteger;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return false;  // a struct
  const bool zero = given.form == Form::kInteger ? given.integer == 0 : given.real == 0;
  if (converts || kind == "value" || zero) return true;
  return (kind == "real") == (given.form == Form::kReal);
}

}  // namespace

std::string wrong_arguments(const Plan& plan, const PlanStep& launch, const Json& parameters, bool converts) {
  const std::string& name = plan.kernels.at(static_cast<size_t>(launch.kernel)).name;
  if (!parameters.is_array()) return fmt::format("kernel {}: its compiler does not tell its parameters", name);
  if (parameters.size() != launch.bindings.size())
    return fmt::format("kernel {}: {} arguments for {} parameters", name, launch.bindings.size(), parameters.size());
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Json& one = parameters[k];
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number_unsigned())
      return fmt::format("kernel {}: its compiler does not tell its parameter {}", name, k);
    const auto kind = one[0].get<std::string>();
    const auto bytes = one[1].get<size_t>();
    const PlanBinding& given = launch.bindings[k];
    if (fits(given, kind, bytes, converts)) continue;
    return fmt::format("kernel {}: argument {} is {}, its parameter {}", name, k,
                       given.form == Form::kTensor    ? "a tensor"
                       : given.form == Form::kNull    ? "None"
                       : given.form == Form::kInteger ? "an integer"
                                                      : "a real number",
                       text_of(kind, bytes));
  }
  return "";
}

}  // namespace tritonforge::evaluate
