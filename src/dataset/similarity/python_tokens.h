#pragma once
// Python source as a stream of tokens, for comparing and renaming; total: any bytes give tokens. It knows brackets,
// strings and logical lines, and nothing of what is valid.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::dataset {

struct PythonToken {
  enum Kind { kName, kNumber, kString, kOperator, kNewline } kind;
  std::string_view text;  // of the source; a newline's is the indentation of the line that begins there
};
// Comments, blank lines and the line ends within brackets are left out.
std::vector<PythonToken> python_tokens(std::string_view source);

// One number a token, equal for sources that differ in layout, comments, docstrings and the names that they bind
// themselves (variables, parameters, functions, classes), which are numbered in the order of their first use. Names
// that are imported or built in and attributes count as written.
std::vector<uint64_t> normal_form(std::string_view source);

// Each name that stands in `names` replaced, attributes (x.name) left alone. Whether a new name is there already is the
// caller's to ask: has_name.
std::string rename_names(std::string_view source, const std::map<std::string, std::string, std::less<>>& names);
bool has_name(std::string_view source, std::string_view name);

}  // namespace tritonforge::dataset
