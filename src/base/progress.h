#pragma once
// A progress bar on a terminal (rewritten in place, with the time left), plain lines every few seconds elsewhere.
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tritonforge {

class Progress {
 public:
  // total = 0: unknown, only the count is shown. Writes to stderr.
  Progress(std::string label, int64_t total);
  ~Progress();
  void advance_to(int64_t done, const std::string& note = "");
  void finish(const std::string& note = "");

 private:
  void show(const std::string& note, bool last);
  std::string label_;
  int64_t total_, done_ = 0;
  bool terminal_, finished_ = false;
  Clock::time_point start_ = Clock::now(), shown_{};
};

std::string progress_bar(int64_t done, int64_t total, int width);  // "[###.....] 3/8"; full at total and beyond
std::string format_duration(double seconds);                       // "1:05", "2:03:04"
std::string format_time(double unix_seconds);                      // of the local clock: "2026-11-22 11:07"

}  // namespace tritonforge
