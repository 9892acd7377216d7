// libs: tf_evaluate
// Whatever ncu prints, there are counters or one line that says why not, never both, and no figure is without bounds.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/plan/counters.h"

int fuzz_one(const uint8_t* data, size_t size) {
  const auto counted = tritonforge::evaluate::parse_ncu_log({reinterpret_cast<const char*>(data), size});
  if (counted.kernels.empty() == counted.unavailable.empty()) return 1;
  if (counted.unavailable.find('\n') != std::string::npos || counted.unavailable.size() > 300) return 1;
  for (const auto& kernel : counted.kernels) {
    if (kernel.launches < 1 || !(kernel.dram_bytes >= 0) || std::isnan(kernel.l2_hit_percent)) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string table =
      R"("ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum","lts__t_sector_hit_rate.pct",)"
      R"("sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active")"
      "\n"
      R"("","","","byte","nsecond","%","%","%")"
      "\n"
      R"("0","71","relu_kernel","8,388,608","4,096.5","33.3","12.5","71.2")"
      "\n";
  return {"==PROF== Connected to process 71 (/usr/bin/python3.11)\n" + table,
          "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n",
          "==WARNING== No kernels were profiled.\n"};
}
