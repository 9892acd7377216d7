#include "cli/python_call.h"

#include "base/error.h"
#include "base/process.h"
#include "evaluate/zygote.h"

namespace tritonforge::cli {
namespace {

constexpr double kLongest = 7 * 24 * 3600;  // what may hang has deadlines of its own

ErrorKind kind_of(const std::string& kind) {
  if (kind == "usage") return ErrorKind::kUsage;
  if (kind == "not_found") return ErrorKind::kNotFound;
  if (kind == "machine") return ErrorKind::kMachine;
  return kind == "unavailable" ? ErrorKind::kUnavailable : ErrorKind::kCorrupt;
}

}  // namespace

Json call_python(std::string_view script, const fs::path& python, const Json& request, const std::string& what) {
  const fs::path interpreter = python.empty() ? evaluate::find_python() : python;
  const auto said = run_command({interpreter.string(), "-c", std::string(script), request.dump()}, kLongest);
  const std::string& text = said.output;
  const Json result = parse_json_or_discard(text.size() < 2 ? text
                                                            : text.substr(text.rfind('\n', text.size() - 2) + 1));
  if (said.exit_code != 0 || !result.is_object())
    fail(ErrorKind::kUnavailable, "{} ended with {} (its message is above)", what, said.exit_code);
  if (result.contains("error"))
    throw Error(kind_of(require<std::string>(result, "kind", what)), require<std::string>(result, "error", what));
  return result;
}

}  // namespace tritonforge::cli
