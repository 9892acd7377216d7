#pragma once
// State of a GPU through NVIDIA's management library, opened when it is first asked for.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tritonforge {

struct GpuState {
  double clock_mhz = 0;  // of the multiprocessors, now
  double power_w = 0;
  double temperature = 0;  // degrees Celsius
  std::string throttled;   // what holds its clock down ("power cap, thermal"); empty: nothing but idleness
};
// nullopt where there is no such library or device. `uuid`: "GPU-...".
std::optional<GpuState> gpu_state(const std::string& uuid);
// Of every GPU that this machine's drivers show, NVIDIA's through the library and AMD's through `amd` (sysfs); empty
// where there is none.
struct GpuLoad {
  std::string name;
  double use = 0;  // share of the last moment in which it worked
  double memory_used_gib = 0, memory_total_gib = 0;
};
std::vector<GpuLoad> gpu_loads(const std::filesystem::path& amd = "/sys/class/drm");
// The words for NVML's bits of clock event reasons.
std::string throttle_reasons(unsigned long long bits);

}  // namespace tritonforge
