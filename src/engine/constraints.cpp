#include "engine/constraints.h"

namespace tritonforge::engine {
namespace {

bool asks_for_nothing(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();  // null, {} and []
}

}  // namespace

const std::vector<std::string>& constraint_fields() {
  static const std::vector<std::string> fields{"regex",          "json_schema",       "ebnf",         "structural_tag",
                                               "stop_regex",     "guided_json",       "guided_regex", "guided_choice",
                                               "guided_grammar", "structured_outputs"};
  return fields;
}

void refuse_constraints(const Json& object, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::kUnsupported,
         "{}: {} is not supported: this engine does not constrain its output; ask in the prompt and check the answer",
         where, what);
  };
  for (const std::string& field : constraint_fields()) {
    const auto found = object.find(field);
    if (found != object.end() && !asks_for_nothing(*found)) refuse(fmt::format("'{}'", field));
  }
  const auto format = object.find("response_format");
  if (format == object.end() || format->is_null()) return;
  const auto type = require<std::string>(*format, "type", where + ": response_format");
  if (type != "text") refuse(fmt::format("'response_format' of type '{}'", type));
}

}  // namespace tritonforge::engine
