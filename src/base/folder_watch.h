#pragma once
// Waits for files of some folders to change: made, moved in, written to or closed.
#include <map>
#include <mutex>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

class FolderWatch {
 public:
  FolderWatch();  // throws kUnavailable where the system has no more of them
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  void add(const fs::path& folder);                      // any thread. Throws kUnavailable naming it
  void keep_only(const std::vector<fs::path>& folders);  // of those that were added; any thread
  void wake() const;                                     // any thread: ends the wait there is, or the next one
  // Until something changed since the last wait, or somebody woke it; false: neither within `timeout_ms`. -1: for as
  // long as it takes. One thread at a time.
  bool wait(int timeout_ms = -1);

 private:
  int changes_, wake_;
  std::mutex mutex_;
  std::map<fs::path, int> watched_;  // by inotify's numbers: two names of one folder have the same
};

}  // namespace tritonforge
