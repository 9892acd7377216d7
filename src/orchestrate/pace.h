#pragma once
// How long the rest of a stage takes, from when its units (steps, problems) were done. The first unit is slower than
// the others (compilers, caches, the first weights), and the machine changes while a stage goes on: the pace is the
// mean of the last units without that first one, as far as there are any.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace tritonforge::orchestrate {

class Pace {
 public:
  // `done` units are done, `now` seconds after the stage began. The first call says where it begins. Fewer than before:
  // a trainer that died makes them again, at the pace that they had.
  void at(double now, int64_t done);
  // Seconds from `now` until `total` are done. 0: no unit is done yet, or all are.
  double left(double now, int64_t total) const;

 private:
  void go_back(double now, int64_t done);
  static constexpr std::size_t kLast = 24;
  std::deque<std::pair<double, int64_t>> seen_;
  bool first_is_gone_ = false;
};

}  // namespace tritonforge::orchestrate
