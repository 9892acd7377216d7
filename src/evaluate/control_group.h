#pragma once
// Linux's control groups (version 2) for children: bounds that the kernel keeps at every moment, where the watch over a
// child's memory (channel.h) looks now and then. Only where the group that this process is in was given over to it and
// holds nothing else, as by
//   systemd-run --user --scope -p Delegate=yes tritonforge serve evaluator ...
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge::evaluate {

struct ChildLimits;

// Groups of children that were still about to end; thread-safe.
class LeftGroups {
 public:
  LeftGroups() = default;
  ~LeftGroups();  // ends whoever is still in them, and waits for that
  LeftGroups(const LeftGroups&) = delete;
  LeftGroups& operator=(const LeftGroups&) = delete;
  void add(fs::path group);
  void remove();  // those that are empty by now

 private:
  std::mutex mutex_;
  std::vector<fs::path> groups_;
};

// One child's, which has ended or is about to when this object goes.
class ControlGroup {
 public:
  ControlGroup(fs::path path, std::shared_ptr<LeftGroups> left) : path_(std::move(path)), left_(std::move(left)) {}
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  const fs::path& path() const { return path_; }
  bool holds(pid_t process) const;
  bool ran_out_of_memory() const;  // the kernel has ended a process of it for that

 private:
  fs::path path_;
  std::shared_ptr<LeftGroups> left_;
};

class ControlGroups {
 public:
  // Those of this process, which moves into one of its own below: a group that bounds others holds no process itself.
  static const ControlGroups& below_this_process();
  // The same below a folder that is taken to be this process's group.
  explicit ControlGroups(const fs::path& own);
  const std::string& missing() const { return missing_; }  // why there are none; empty: there are
  // "memory, processes, share of the CPU"
  const std::string& bounds() const { return bounds_; }
  // A child's, or null where it cannot be made.
  std::unique_ptr<ControlGroup> make(const std::string& name, const ChildLimits& limits) const;

 private:
  ControlGroups() = default;
  void open(const fs::path& own);

  fs::path own_;
  std::string missing_, bounds_;
  std::shared_ptr<LeftGroups> left_ = std::make_shared<LeftGroups>();
};

}  // namespace tritonforge::evaluate
