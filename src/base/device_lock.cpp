#include "base/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tritonforge {
namespace {

int open_lock(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", path.string(), std::strerror(errno));
  return fd;
}

// "pid 12 (tritonforge serve evaluator ...)" of every process that has the file locked, as the kernel knows it.
std::string holders_of(int fd) {
  struct stat file{};
  ::fstat(fd, &file);
  const std::string inode = fmt::format(":{} ", file.st_ino);
  std::vector<std::string> holders;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: FLOCK  ADVISORY  WRITE 7646 fe:00:5324802 0 EOF"; who waits has "->" before FLOCK
    std::istringstream words(line);
    std::string number, kind, advisory, mode, pid;
    words >> number >> kind >> advisory >> mode >> pid;
    if (kind != "FLOCK" || line.find(inode) == std::string::npos) continue;
    std::ifstream arguments(fmt::format("/proc/{}/cmdline", pid));
    std::string command(std::istreambuf_iterator<char>(arguments), {});
    std::replace(command.begin(), command.end(), '\0', ' ');
    holders.push_back(fmt::format("pid {} ({})", pid, command.substr(0, 120)));
  }
  return holders.empty() ? "a process that is not visible from here" : fmt::format("{}", fmt::join(holders, ", "));
}

// flock has no form with a deadline: it is asked again after short pauses. False: not free in time.
bool lock(int fd, int how, Deadline deadline) {
  constexpr auto kLongestPause = std::chrono::microseconds(2000);
  for (auto pause = std::chrono::microseconds(50); ::flock(fd, how | LOCK_NB) != 0;
       pause = std::min(2 * pause, kLongestPause)) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(ErrorKind::kInternal, "flock: {}", std::strerror(errno));
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
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
    : device_(checked(device)),
      gate_fd_(open_lock(lock_folder() / (device + ".gate"))),
      lock_fd_(open_lock(lock_folder() / (device + ".lock"))) {}

DeviceLock::~DeviceLock() {
  ::close(gate_fd_);
  ::close(lock_fd_);
}

// The gate first, for a measurer to the end of its hold.
DeviceLock::Hold DeviceLock::take(int how, Deadline deadline) {
  const auto since = Clock::now();
  const auto wait = [&](int fd) {
    if (lock(fd, how, deadline)) return;
    fail(ErrorKind::kUnavailable, "the device {} was not free within {:.0f} s: it is held by {}", device_,
         seconds_since(since), holders_of(fd));
  };
  wait(gate_fd_);
  Hold hold(-1, gate_fd_);
  wait(lock_fd_);
  hold.lock_fd_ = lock_fd_;
  if (how == LOCK_SH) ::flock(std::exchange(hold.gate_fd_, -1), LOCK_UN);
  return hold;
}

DeviceLock::Hold DeviceLock::shared(Deadline deadline) { return take(LOCK_SH, deadline); }

DeviceLock::Hold DeviceLock::exclusive(Deadline deadline) { return take(LOCK_EX, deadline); }

DeviceLock::Hold::Hold(Hold&& other) noexcept
    : lock_fd_(std::exchange(other.lock_fd_, -1)), gate_fd_(std::exchange(other.gate_fd_, -1)) {}

DeviceLock::Hold::~Hold() {
  if (lock_fd_ >= 0) ::flock(lock_fd_, LOCK_UN);
  if (gate_fd_ >= 0) ::flock(gate_fd_, LOCK_UN);
}

}  // namespace tritonforge
