#include "base/file_lock.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tritonforge {

bool lock_file(int fd, int how, const fs::path& path) {
  while (::flock(fd, how) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == EINTR) continue;
    fail(ErrorKind::kMachine, "{} cannot be locked: {} (its file system must have flock())", path.string(),
         std::strerror(errno));
  }
  return true;
}

}  // namespace tritonforge
