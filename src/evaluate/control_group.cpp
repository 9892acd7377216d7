#include "evaluate/control_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "evaluate/children.h"

namespace tritonforge::evaluate {
namespace {

constexpr const char* kOurs = "tritonforge";  // the group that this process moves into

// As the kernel takes it: at once, and the answer is the write's.
bool put(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.flush();
  return out.good();
}

std::vector<std::string> words_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istream_iterator<std::string>(in), {}};
}

bool among(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Where version 2 is shown: the last cgroup2 of "36 25 0:31 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw".
fs::path mount_of_groups() {
  std::ifstream mounts("/proc/self/mountinfo");
  fs::path found;
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string id, parent, device, root, place;
    fields >> id >> parent >> device >> root >> place;
    found = place;
  }
  return found;
}

std::string own_name() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

// By systemd, or to a container: the root of its own view, which the machine's root has no type of.
bool is_given_over(const fs::path& own, bool root) {
  char value[2] = {};
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    if (::getxattr(own.c_str(), name, value, sizeof value) > 0 && value[0] == '1') return true;
  }
  return root && fs::exists(own / "cgroup.type") && ::access((own / "cgroup.procs").c_str(), W_OK) == 0;
}

}  // namespace

void LeftGroups::add(fs::path group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
}

void LeftGroups::remove() {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const fs::path& group) { return ::rmdir(group.c_str()) == 0 || errno == ENOENT; });
}

namespace {

// Waits until the last process of a group is gone, or a moment; false once the deadline is over.
bool wait_for_end(const fs::path& group, Deadline deadline) {
  constexpr int kMoment = 100;  // ms
  const int events = ::open((group / "cgroup.events").c_str(), O_RDONLY | O_CLOEXEC);
  pollfd changed{.fd = events, .events = POLLPRI, .revents = 0};
  ::poll(&changed, 1, kMoment);
  if (events >= 0) ::close(events);
  return !deadline.expired();
}

}  // namespace

LeftGroups::~LeftGroups() {
  constexpr double kPatience = 5;  // memory that is given back, a GPU's context among it
  const Deadline deadline = Deadline::after(kPatience);
  const auto is_busy = [](const fs::path& group) { return ::rmdir(group.c_str()) != 0 && errno == EBUSY; };
  for (const fs::path& group : groups_) {
    if (!is_busy(group)) continue;
    put(group / "cgroup.kill", "1");
    while (is_busy(group) && wait_for_end(group, deadline)) {}
  }
}

ControlGroup::~ControlGroup() {
  if (::rmdir(path_.c_str()) != 0) left_->add(std::move(path_));
}

bool ControlGroup::holds(pid_t process) const {
  return among(std::to_string(process), words_of(path_ / "cgroup.procs"));
}

bool ControlGroup::ran_out_of_memory() const {
  const auto words = words_of(path_ / "memory.events");
  const auto at = std::find(words.begin(), words.end(), "oom_kill");
  return at != words.end() && at + 1 != words.end() && at[1] != "0";
}

const ControlGroups& ControlGroups::below_this_process() {
  static const ControlGroups groups = [] {
    ControlGroups made;
    const fs::path mount = mount_of_groups();
    const std::string name = own_name();
    if (mount.empty()) made.missing_ = "no control groups of version 2 here";
    else if (!is_given_over(mount / name, name.empty()))
      made.missing_ = "no control group was delegated to this process";
    else made.open(mount / name);
    return made;
  }();
  return groups;
}

ControlGroups::ControlGroups(const fs::path& own) { open(own); }

void ControlGroups::open(const fs::path& own) {
  const auto controllers = words_of(own / "cgroup.controllers");
  std::string turned_on;
  for (const auto& [controller, bound] :
       {std::pair{"memory", "memory"}, {"pids", "processes"}, {"cpu", "share of the CPU"}}) {
    if (!among(controller, controllers)) {
      missing_ = fmt::format("the control group {} has no controller '{}'", own.string(), controller);
      return;
    }
    turned_on += fmt::format("{}+{}", turned_on.empty() ? "" : " ", controller);
    bounds_ += fmt::format("{}{}", bounds_.empty() ? "" : ", ", bound);
  }
  const fs::path ours = own / kOurs;
  std::error_code error;
  fs::create_directory(ours, error);
  const std::string self = std::to_string(::getpid());
  if (error || !put(ours / "cgroup.procs", self)) {
    missing_ = fmt::format("the control group {} takes no group below it", own.string());
  } else if (!put(own / "cgroup.subtree_control", turned_on)) {
    put(own / "cgroup.procs", self);
    missing_ = fmt::format("the control group {} holds other processes, too", own.string());
  }
  if (!missing_.empty()) ::rmdir(ours.c_str());
  else own_ = own;
}

std::unique_ptr<ControlGroup> ControlGroups::make(const std::string& name, const ChildLimits& limits) const {
  if (own_.empty()) return nullptr;
  left_->remove();
  std::error_code error;
  if (!fs::create_directory(own_ / name, error)) return nullptr;
  auto group = std::make_unique<ControlGroup>(own_ / name, left_);
  // Its own folder and /dev/shm lie in memory. Who is timed has the whole share, others half of it.
  constexpr int kSome = 32, kMany = 512, kWhole = 100, kHalf = 50;
  const uint64_t memory = limits.memory_bytes + limits.file_bytes + (uint64_t{64} << 20);
  put(group->path() / "memory.swap.max", "0");  // where there is swap
  const bool bound = put(group->path() / "memory.max", std::to_string(memory)) &&
                     put(group->path() / "pids.max", std::to_string(limits.processes ? kMany : kSome)) &&
                     put(group->path() / "cpu.weight", std::to_string(limits.gpu ? kWhole : kHalf));
  return bound ? std::move(group) : nullptr;
}

}  // namespace tritonforge::evaluate
