#pragma once
// Hardware counters of a plan's kernels as NVIDIA's ncu prints them (--csv --page raw --print-units base).
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "contract/profile.h"

namespace tritonforge::evaluate {

struct Counted {
  std::vector<KernelCounters> kernels;  // in the order of their first launches
  std::string unavailable;              // why there are none, in one line
};

// What ncu is asked for: time, which weighs a kernel's launches, and the fields of KernelCounters.
inline constexpr std::array<std::string_view, 5> kNcuMetrics = {
    "gpu__time_duration.sum", "dram__bytes.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active", "lts__t_sector_hit_rate.pct"};

// Of ncu's log: its messages ("==PROF== ..."), then a table of quoted values with a line of names, one of units and one
// for each launch. Any bytes give an answer.
Counted parse_ncu_log(std::string_view log);

}  // namespace tritonforge::evaluate
