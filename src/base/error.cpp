#include "base/error.h"

namespace tritonforge {
int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kNotFound:
    case ErrorKind::kUnsupported: return 2;
    case ErrorKind::kMachine: return 3;
    default: return 1;
  }
}

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return 400;
    case ErrorKind::kNotFound: return 404;
    case ErrorKind::kCorrupt:
    case ErrorKind::kUnsupported: return 422;
    case ErrorKind::kConflict: return 409;
    case ErrorKind::kBusy: return 429;
    case ErrorKind::kUnavailable:
    case ErrorKind::kMachine: return 503;
    case ErrorKind::kTimeout: return 504;
    case ErrorKind::kInternal: return 500;
  }
  return 500;
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return "usage";
    case ErrorKind::kNotFound: return "not_found";
    case ErrorKind::kCorrupt: return "corrupt";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kConflict: return "conflict";
    case ErrorKind::kBusy: return "busy";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kTimeout: return "timeout";
    case ErrorKind::kMachine: return "machine";
    case ErrorKind::kInternal: return "internal";
  }
  return "internal";
}

namespace detail {
void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::kInternal, fmt::format("{}:{}: {} [{}]", file, line, message, expression));
}
}  // namespace detail

}  // namespace tritonforge
