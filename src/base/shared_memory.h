#pragma once
// A folder in shared memory that several processes of one run use. It goes with the last of them; what processes that
// were killed left behind is swept by the next run.
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

class SharedFolder {
 public:
  // /dev/shm/tritonforge-<name>, created where it is not there; what it holds stays. Throws kMachine.
  explicit SharedFolder(const std::string& name);
  ~SharedFolder();  // removes the folder where no other process has it
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const fs::path& path() const { return path_; }

  // Removes the folders of this user that no process has any more, and returns them. One without an owner's file is
  // left alone where it is younger than a minute: its maker may just be about to take it.
  static std::vector<fs::path> sweep();

 private:
  fs::path path_;
  int owner_fd_ = -1;  // a shared flock on <path>/.owner for as long as this process uses the folder
};

}  // namespace tritonforge
