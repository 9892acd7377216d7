#pragma once
// Errors. Set-up code throws Error; request paths return Result<T>; broken invariants throw through TF_CHECK.
// Every message is one line: what, where, and the nearest right thing.
#include <fmt/format.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tritonforge {

// The kind decides the exit code of a command (exit_code below) and the HTTP status of a reply.
enum class ErrorKind {
  kUsage,        // wrong use: unknown key, flag, field, id                  exit 2, HTTP 400
  kNotFound,     // a file, model or problem that is not there               exit 2, HTTP 404
  kCorrupt,      // a file that is truncated or has the wrong shape          exit 1, HTTP 422
  kUnsupported,  // understood but not implemented: refused by name          exit 2, HTTP 422
  kConflict,     // it contradicts what was done before, or is out of turn   exit 1, HTTP 409
  kBusy,         // a queue is full: the same request may be taken later     exit 1, HTTP 429
  kUnavailable,  // a peer or resource is down, full or cannot be reached    exit 1, HTTP 503
  kTimeout,      // a deadline passed; the message names what was awaited    exit 1, HTTP 504
  kMachine,      // the machine lacks something                              exit 3, HTTP 503
  kInternal,     // a bug here                                               exit 1, HTTP 500
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  // When whoever refused asks to be asked again (HTTP's Retry-After), in seconds; 0: it did not say.
  double retry_after_s() const { return retry_after_s_; }
  Error with_retry_after(double seconds) && {
    retry_after_s_ = seconds;
    return std::move(*this);
  }

 private:
  ErrorKind kind_;
  double retry_after_s_ = 0;
};

int exit_code(ErrorKind kind);
int http_status(ErrorKind kind);
std::string_view name_of(ErrorKind kind);

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// " (did you mean 'x'?)" for the nearest of `known` by edit distance, or " (known: a, b, ...)" where none is near.
std::string nearest_hint(std::string_view wrong, const std::vector<std::string>& known);

// A value, or the Error that took its place. For request paths, where failure is expected.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}
  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return std::get<Error>(state_); }
  // Throws the error where there is no value.
  T& value() & {
    if (!ok()) throw error();
    return std::get<T>(state_);
  }
  const T& value() const& {
    if (!ok()) throw error();
    return std::get<T>(state_);
  }
  T&& value() && {
    if (!ok()) throw error();
    return std::get<T>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Error> state_;
};

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& message);
}

}  // namespace tritonforge

// An invariant that only a bug here can break; never reachable by user input.
#define TF_CHECK(condition, ...)                                                                       \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::tritonforge::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
