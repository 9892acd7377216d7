#include "base/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace tritonforge {
namespace {

struct Nvml {
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*utilization)(void*, unsigned*) = nullptr;       // {gpu, memory}, percent
  int (*memory)(void*, unsigned long long*) = nullptr;  // {total, free, used}, bytes
  bool usable = false;
};

const Nvml& nvml() {
  static const Nvml opened = [] {
    Nvml found;
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return found;
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    found.usable = take(found.init, "nvmlInit_v2") && take(found.by_uuid, "nvmlDeviceGetHandleByUUID") &&
                   take(found.clock, "nvmlDeviceGetClockInfo") && take(found.power, "nvmlDeviceGetPowerUsage") &&
                   take(found.temperature, "nvmlDeviceGetTemperature") &&
                   take(found.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons") &&
                   take(found.count, "nvmlDeviceGetCount_v2") &&
                   take(found.by_index, "nvmlDeviceGetHandleByIndex_v2") && take(found.name, "nvmlDeviceGetName") &&
                   take(found.utilization, "nvmlDeviceGetUtilizationRates") &&
                   take(found.memory, "nvmlDeviceGetMemoryInfo") && found.init() == 0;
    return found;
  }();
  return opened;
}

}  // namespace

std::string throttle_reasons(unsigned long long bits) {
  constexpr std::array<std::pair<unsigned long long, const char*>, 7> kReasons = {{{0x2, "clocks set by a user"},
                                                                                   {0x4, "power cap"},
                                                                                   {0x8, "slowdown"},
                                                                                   {0x20, "thermal"},
                                                                                   {0x40, "thermal"},
                                                                                   {0x80, "power brake"},
                                                                                   {0x100, "display clocks"}}};
  std::string text;
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) == 0 || text.find(name) != std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::optional<GpuState> gpu_state(const std::string& uuid) {
  const Nvml& api = nvml();
  void* device = nullptr;
  if (!api.usable || api.by_uuid(uuid.c_str(), &device) != 0) return std::nullopt;
  constexpr int kSmClock = 1, kGpuSensor = 0;
  unsigned clock = 0, milliwatts = 0, degrees = 0;
  unsigned long long reasons = 0;
  api.clock(device, kSmClock, &clock);
  api.power(device, &milliwatts);
  api.temperature(device, kGpuSensor, &degrees);
  api.reasons(device, &reasons);
  return GpuState{.clock_mhz = static_cast<double>(clock),
                  .power_w = milliwatts / 1e3,
                  .temperature = static_cast<double>(degrees),
                  .throttled = throttle_reasons(reasons)};
}

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

void add_nvidia(std::vector<GpuLoad>& loads) {
  const Nvml& api = nvml();
  unsigned count = 0;
  if (!api.usable || api.count(&count) != 0) return;
  for (unsigned index = 0; index < count; ++index) {
    void* device = nullptr;
    std::array<char, 96> name{};
    std::array<unsigned, 2> percent{};
    std::array<unsigned long long, 3> bytes{};
    if (api.by_index(index, &device) != 0 || api.memory(device, bytes.data()) != 0) continue;
    api.name(device, name.data(), name.size());
    api.utilization(device, percent.data());
    loads.push_back(
        {name.data(), percent[0] / 100.0, static_cast<double>(bytes[2]) / kGiB, static_cast<double>(bytes[0]) / kGiB});
  }
}

std::optional<double> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  double value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;
}

// amdgpu shows each card's load as files: cardN/device/gpu_busy_percent, mem_info_vram_{used,total}.
void add_amd(const std::filesystem::path& folder, std::vector<GpuLoad>& loads) {
  std::error_code none;
  std::vector<std::filesystem::path> cards;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) cards.push_back(entry.path() / "device");
  std::sort(cards.begin(), cards.end());
  for (const auto& card : cards) {
    const auto busy = number_in(card / "gpu_busy_percent"), used = number_in(card / "mem_info_vram_used"),
               total = number_in(card / "mem_info_vram_total");
    if (busy && used && total && *total > 0) loads.push_back({"AMD", *busy / 100, *used / kGiB, *total / kGiB});
  }
}

}  // namespace

std::vector<GpuLoad> gpu_loads(const std::filesystem::path& amd) {
  std::vector<GpuLoad> loads;
  add_nvidia(loads);
  add_amd(amd, loads);
  return loads;
}

}  // namespace tritonforge
