#pragma once
// The collectives of one process, newest last: what is told of where a rank is, and of one that hangs.
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace tritonforge::parallel {

class FlightRecorder {
 public:
  // done: whether it has ended, where nobody says end(), or not at once: asked until then, and forgotten. Any thread.
  using Done = std::function<bool()>;
  uint64_t begin(std::string_view group, std::string_view operation, std::string_view what, int64_t bytes,
                 Done done = nullptr);
  void end(uint64_t number);
  void at(std::string place);  // "step 12": of what follows

  // "step 12, all_reduce 345 'gradient norm' of dp, 4 bytes", and "ended" or "since 1.2 s".
  std::string standing();
  double waits_s();  // how long the oldest one that has not ended does
  std::vector<std::string> lines();

 private:
  struct Entry {
    uint64_t number;
    std::string text;
    Clock::time_point begun;
    Done done;
    bool ended = false;
    void end() {
      ended = true;
      done = nullptr;  // and with it what it keeps
    }
  };
  void settle();  // with the mutex held: asks those that nobody has ended
  static std::string line(const Entry& entry);

  std::mutex mutex_;
  std::deque<Entry> entries_;
  uint64_t next_ = 1;
  std::string place_ = "the start";
};

}  // namespace tritonforge::parallel
