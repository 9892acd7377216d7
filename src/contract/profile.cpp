#include "contract/profile.h"

#include <fmt/format.h>

#include "contract/field_lists.h"

namespace tritonforge {

Json to_json(const Profile& profile) { return write_fields(profile); }

Profile profile_from_json(const Json& json) {
  Profile profile;
  read_fields(json, profile, "verdict.profile");
  return profile;
}

std::string describe(const Profile& profile) {
  std::string text;
  for (const KernelProfile& kernel : profile.kernels) {
    text += fmt::format(
        "Kernel {}{}: {:.0f} % of the time ({:.4g} ms), {} registers, {} bytes spilled, {} bytes of shared memory, "
        "{} warps, occupancy {:.0f} %.\n",
        kernel.name, kernel.configuration.empty() ? "" : " (fastest configuration: " + kernel.configuration + ")",
        100 * kernel.share, kernel.ms, kernel.registers, kernel.spilled_bytes, kernel.shared, kernel.warps,
        100 * kernel.occupancy);
  }
  if (profile.torch_share >= 0.005)
    text += fmt::format("PyTorch's own kernels: {:.0f} % of the time.\n", 100 * profile.torch_share);
  if (profile.peak_bytes_per_s > 0) {
    text += fmt::format("Memory: {:.3g} of {:.3g} GB/s ({:.0f} % of the peak)", profile.bytes_per_s / 1e9,
                        profile.peak_bytes_per_s / 1e9, 100 * profile.bytes_per_s / profile.peak_bytes_per_s);
    if (profile.peak_flops_per_s > 0 && profile.flops_per_s > 0)
      text += fmt::format("; arithmetic: {:.3g} of {:.3g} TFLOP/s ({:.1f} %)", profile.flops_per_s / 1e12,
                          profile.peak_flops_per_s / 1e12, 100 * profile.flops_per_s / profile.peak_flops_per_s);
    text += fmt::format("; no forward can take less than {:.3g} ms here.\n", profile.floor_ms);
  }
  if (!profile.throttled.empty())
    text += fmt::format("The GPU held its clock down when it was timed ({}): {:.0f} MHz.\n", profile.throttled,
                        profile.clock_mhz);
  return text;
}

std::string describe(const std::vector<KernelCounters>& counters) {
  std::string text;
  for (const KernelCounters& kernel : counters) {
    text += fmt::format(
        "Counters of kernel {} ({} launch{}, caches cold): {:.4g} MB to and from DRAM, L2 hit rate {:.0f} %, "
        "multiprocessors at {:.0f} % of their peak, achieved occupancy {:.0f} %.\n",
        kernel.name, kernel.launches, kernel.launches == 1 ? "" : "es", kernel.dram_bytes / 1e6, kernel.l2_hit_percent,
        kernel.sm_percent, kernel.occupancy_percent);
  }
  return text;
}

}  // namespace tritonforge
