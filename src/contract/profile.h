#pragma once
// What a verdict says of a candidate's speed beyond its time: measured by the trusted side on a GPU, shown to the
// model.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace tritonforge {

struct KernelProfile {
  std::string name;
  std::string configuration;  // that is the fastest of those that its autotuner has; empty: it has no choice
  int registers = 0;          // a thread
  int spilled_bytes = 0;      // a thread, of local memory
  int64_t shared = 0;         // bytes a block
  int warps = 0;              // a block
  double occupancy = 0;       // resident warps over those that a multiprocessor has room for
  double share = 0;           // of forward's time
  double ms = 0;              // of all its launches in one forward
};

// What the GPU's own counters say of one kernel, its launches in one forward together. The percentages are means over
// those launches, by their time.
struct KernelCounters {
  std::string name;
  int launches = 0;
  double dram_bytes = 0;         // read and written
  double sm_percent = 0;         // of the multiprocessors' peak, of whatever unit was nearest to its own
  double occupancy_percent = 0;  // achieved: resident warps over those that there is room for
  double l2_hit_percent = 0;     // of the sectors that L2 was asked for
};

struct Profile {
  std::vector<KernelProfile> kernels;
  double torch_share = 0;  // of forward's time, spent in torch's own kernels
  double floor_ms = 0;     // no forward can be faster: bytes, operations and the device's peaks
  // Bytes that forward must move and operations that the reference does, over the candidate's time; and the peaks.
  double bytes_per_s = 0, peak_bytes_per_s = 0, flops_per_s = 0, peak_flops_per_s = 0;
  std::map<std::string, double> baselines;  // milliseconds, median: "eager", "torch.compile"
  // Of the device right after the last pair: megahertz, watts, degrees, and why its clock is held down, if it is.
  double clock_mhz = 0, power_w = 0, temperature = 0;
  std::string throttled;
};
Json to_json(const Profile& profile);
Profile profile_from_json(const Json& json);  // throws kUsage naming the field
// Lines of feedback: what limits the candidate.
std::string describe(const Profile& profile);
std::string describe(const std::vector<KernelCounters>& counters);

}  // namespace tritonforge
