#include "base/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tritonforge {
namespace {

int open_lock(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", path.string(), std::strerror(errno));
  return fd;
}

void lock(int fd, int how) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) fail(ErrorKind::kInternal, "flock: {}", std::strerror(errno));
  }
}

// The name may come from a sandboxed process: it must not lead out of the folder.
const std::string& checked(const std::string& device) {
  for (const char c : device) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-')
      fail(ErrorKind::kUsage, "device lock: '{}' is not a device's name", device);
  }
  return device;
}

fs::path lock_folder() {
  const fs::path folder = fmt::format("/tmp/tritonforge-{}", ::getuid());
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
  return folder;
}

}  // namespace

DeviceLock::DeviceLock(const std::string& device)
    : gate_fd_(open_lock(lock_folder() / (checked(device) + ".gate"))),
      lock_fd_(open_lock(lock_folder() / (device + ".lock"))) {}

DeviceLock::~DeviceLock() {
  ::close(gate_fd_);
  ::close(lock_fd_);
}

DeviceLock::Hold DeviceLock::shared() {
  lock(gate_fd_, LOCK_SH);
  lock(lock_fd_, LOCK_SH);
  lock(gate_fd_, LOCK_UN);
  return Hold(lock_fd_, -1);
}

DeviceLock::Hold DeviceLock::exclusive() {
  lock(gate_fd_, LOCK_EX);
  lock(lock_fd_, LOCK_EX);
  return Hold(lock_fd_, gate_fd_);
}

DeviceLock::Hold::Hold(Hold&& other) noexcept
    : lock_fd_(std::exchange(other.lock_fd_, -1)), gate_fd_(std::exchange(other.gate_fd_, -1)) {}

DeviceLock::Hold::~Hold() {
  if (lock_fd_ >= 0) ::flock(lock_fd_, LOCK_UN);
  if (gate_fd_ >= 0) ::flock(gate_fd_, LOCK_UN);
}

}  // namespace tritonforge
