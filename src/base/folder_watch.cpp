#include "base/folder_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge {

FolderWatch::FolderWatch()
    : changes_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (changes_ >= 0 && wake_ >= 0) return;
  const int reason = errno;
  // Where the process may open more, it is not its own limit.
  const bool of_the_user = reason == EMFILE && wake_ >= 0;
  ::close(changes_);
  ::close(wake_);
  if (of_the_user)
    fail(ErrorKind::kUnavailable,
         "cannot watch files: this user's programs have all of fs.inotify.max_user_instances; raise it (sysctl) or end "
         "one that watches files");
  fail(ErrorKind::kUnavailable, "cannot watch files: {}", std::strerror(reason));
}

FolderWatch::~FolderWatch() {
  ::close(changes_);
  ::close(wake_);
}

void FolderWatch::add(const fs::path& folder) {
  constexpr uint32_t kEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE;
  const std::lock_guard lock(mutex_);
  const int watch = ::inotify_add_watch(changes_, folder.c_str(), kEvents);
  if (watch >= 0) {
    watched_[folder] = watch;
    return;
  }
  if (errno == ENOSPC)  // no disk is full
    fail(ErrorKind::kUnavailable,
         "cannot watch {}: this user's programs have all of fs.inotify.max_user_watches; raise it (sysctl) or end one "
         "that watches files",
         folder.string());
  fail(ErrorKind::kUnavailable, "cannot watch {}: {}", folder.string(), std::strerror(errno));
}

void FolderWatch::keep_only(const std::vector<fs::path>& folders) {
  const std::lock_guard lock(mutex_);
  const auto others = std::exchange(watched_, {});
  std::set<int> kept;
  for (const fs::path& folder : folders)
    if (const auto one = others.find(folder); one != others.end()) kept.insert(watched_.insert(*one).first->second);
  for (const auto& [folder, watch] : others)
    if (!kept.contains(watch)) ::inotify_rm_watch(changes_, watch);  // of a folder that is gone the system did it
}

void FolderWatch::wake() const {
  const uint64_t one = 1;
  if (::write(wake_, &one, sizeof one) != sizeof one) log::error("cannot wake who watches files");
}

bool FolderWatch::wait(int timeout_ms) {
  pollfd waiting[2] = {{changes_, POLLIN, 0}, {wake_, POLLIN, 0}};
  const bool any = ::poll(waiting, 2, timeout_ms) > 0;
  char buffer[16384];
  for (const int fd : {changes_, wake_}) {
    while (::read(fd, buffer, sizeof buffer) > 0) {}
  }
  return any;
}

}  // namespace tritonforge
