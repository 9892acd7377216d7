#pragma once
// A folder on its way: filled beside the place that it is to have, and put there whole (put_in_place).
#include "base/filesystem.h"

namespace tritonforge {

fs::path without_slash(const fs::path& path);  // absolute; "x/" is x: what is beside it is not in it

class PendingFolder {
 public:
  // Makes PATH.tmp-PID, empty, and what is above it. What processes that are gone left there under such a name is
  // removed first: it may be as large as a model. Throws kUnavailable.
  explicit PendingFolder(const fs::path& path);
  ~PendingFolder();  // removes it where it is still there, or what has its place in exchange
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  const fs::path& path() const { return path_; }
  void put_in_place() const;  // durably, where `path` is. Throws kUnavailable

 private:
  fs::path wanted_, path_;
};

}  // namespace tritonforge
