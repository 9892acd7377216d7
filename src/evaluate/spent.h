#pragma once
// Where the time of one evaluation goes. Of one thread: the one that waits for its verdict.
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/named_enum.h"

namespace tritonforge::evaluate {

enum class Part {
  kOther,
  kQueue,      // for a worker, or for an equal evaluation's verdict
  kProblem,    // for what the problem's reference gave: made, or waited for while another one makes it
  kRecording,  // the candidate's process: it is loaded, its forward recorded
  kCompiling,  // its kernels, for every target
  kReplaying,  // the plan, handed to a replayer and run on every trial
  kRunning,    // in the candidate's own process: modes interpret and live
  kTurn,       // for the device, to measure on it alone
  kTiming,     // while nobody else has it
  kRaces,      // looked for on a CPU, of what is right on a GPU
};
constexpr std::array<std::string_view, 10> names_of(Part) {
  return {"other", "queue", "problem", "recording", "compiling", "replaying", "running", "turn", "timing", "races"};
}

class Spent {
 public:
  // The time of its scope is the part's, without that of ranges inside. `spent` null: nobody counts.
  class Range {
   public:
    Range(Spent* spent, Part part) : spent_(spent), before_(spent ? spent->turn_to(part) : part) {}
    ~Range() {
      if (spent_) spent_->turn_to(before_);
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    Spent* spent_;
    Part before_;
  };

  // Part -> seconds until now, of those that took any.
  std::map<std::string, double> seconds() {
    turn_to(part_);
    std::map<std::string, double> out;
    for (size_t k = 0; k < seconds_.size(); ++k) {
      if (seconds_[k] > 0) out[std::string(names_of(Part())[k])] = seconds_[k];
    }
    return out;
  }

 private:
  Part turn_to(Part part) {
    const auto now = Clock::now();
    seconds_[static_cast<size_t>(part_)] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
    return std::exchange(part_, part);
  }
  Part part_ = Part::kOther;
  Clock::time_point since_ = Clock::now();
  std::array<double, names_of(Part()).size()> seconds_{};
};

}  // namespace tritonforge::evaluate
