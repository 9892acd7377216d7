#pragma once
// How children ended, for whoever asks by pid. A pid is used again once its child has been waited for, on a machine of
// 32,768 within a few thousand evaluations. Not thread-safe.
#include <sys/types.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace tritonforge::evaluate {

class ChildEnds {
 public:
  // A child of this pid has begun: what is known of it is of another one.
  void begun(pid_t pid) {
    std::erase_if(ends_, [&](const auto& end) { return end.first == pid; });
  }
  // status: as waitpid() has it.
  void ended(pid_t pid, int status) {
    begun(pid);
    ends_.emplace_back(pid, status);
    if (ends_.size() > kMost) ends_.pop_front();  // whoever wanted to know has asked
  }
  std::optional<int> of(pid_t pid) const {
    const auto found = std::find_if(ends_.begin(), ends_.end(), [&](const auto& end) { return end.first == pid; });
    return found != ends_.end() ? std::optional(found->second) : std::nullopt;
  }

  static constexpr size_t kMost = 1024;

 private:
  std::deque<std::pair<pid_t, int>> ends_;  // oldest first
};

}  // namespace tritonforge::evaluate
