#include "cli/output.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace tritonforge::cli {

void make_folder(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::kUnavailable, "{}: cannot be made: {}", folder.string(), error.message());
}

void make_room_for(const fs::path& file) {
  if (fs::is_directory(file)) fail(ErrorKind::kUsage, "{} is a folder; name a file in it", file.string());
  make_folder(file.parent_path());
}

void tell_stopped(int signal, const std::string& what) {
  const char* begin = ::isatty(STDERR_FILENO) != 0 ? "\n" : "";  // behind ^C and a progress bar
  fmt::print(stderr, "{}tritonforge: stopped by {}; {}\n", begin, ::strsignal(signal), what);
}

}  // namespace tritonforge::cli
