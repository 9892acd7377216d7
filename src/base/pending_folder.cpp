#include "base/pending_folder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/error.h"

namespace tritonforge {
namespace {

constexpr const char* kPending = ".tmp-";

bool is_gone(std::string_view pid) {
  pid_t number = 0;
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), number);
  return error == std::errc() && end == pid.data() + pid.size() && number > 0 && ::kill(number, 0) != 0 &&
         errno == ESRCH;
}

void remove_left_behind(const fs::path& wanted) {
  const std::string before = wanted.filename().string() + kPending;
  const auto is_left = [&](const fs::path& entry) {
    const std::string name = entry.filename().string();
    return name.starts_with(before) && is_gone(std::string_view(name).substr(before.size()));
  };
  for (const std::string& name : names_in(wanted.parent_path(), is_left)) fs::remove_all(wanted.parent_path() / name);
}

}  // namespace

fs::path without_slash(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

PendingFolder::PendingFolder(const fs::path& path)
    : wanted_(without_slash(path)), path_(wanted_.string() + fmt::format("{}{}", kPending, ::getpid())) {
  try {
    fs::create_directories(wanted_.parent_path());
    remove_left_behind(wanted_);
    fs::remove_all(path_);
    fs::create_directory(path_);
  } catch (const fs::filesystem_error& error) {
    fail(ErrorKind::kUnavailable, "cannot create {}: {}", wanted_.string(), error.code().message());
  }
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;  // nothing sensible can be done about a leftover in a destructor
  fs::remove_all(path_, ignored);
}

void PendingFolder::put_in_place() const {
  fsync_path(path_);
  tritonforge::put_in_place(path_, wanted_);
  fsync_path(wanted_.parent_path());
}

}  // namespace tritonforge
