#pragma once
// A folder that goes with the last process that uses it, in shared memory for several processes of one run, or
// elsewhere. What processes that were killed left behind is swept by the next.
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/filesystem.h"

namespace tritonforge {

class SharedFolder {
 public:
  // Where processes of several hosts must see it, TRITONFORGE_SHARED names a folder of theirs; else /dev/shm.
  static fs::path usual_parent();
  // <parent>/tritonforge-<name>, created where it is not there; what it holds stays. Throws kMachine.
  explicit SharedFolder(const std::string& name, const fs::path& parent = usual_parent());
  ~SharedFolder();  // removes the folder where no other process has it
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const fs::path& path() const { return path_; }

  // Removes the folders of this user that no process has any more, and returns them. One without an owner's file is
  // left alone where it is younger than a minute: its maker may just be about to take it.
  // `name`: only those whose names begin so; whatever else is called tritonforge-* in /dev/shm is a folder of this
  // kind.
  static std::vector<fs::path> sweep(const fs::path& parent = "/dev/shm", const std::string& name = "");

 private:
  fs::path path_;
  Descriptor owner_;  // a shared flock on <path>/.owner for as long as this process uses the folder
};

}  // namespace tritonforge
