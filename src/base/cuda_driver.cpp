#include "base/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "base/error.h"

namespace tritonforge {

const CudaDriver& cuda_driver() {
  static const CudaDriver opened = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      fail(ErrorKind::kMachine,
           "no GPU here: the NVIDIA driver's libcuda.so.1 cannot be loaded (use device cpu, evaluator mode plan)");
    CudaDriver found{reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit")),
                     reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount")),
                     reinterpret_cast<int (*)(int*, int)>(dlsym(library, "cuDeviceGet")),
                     reinterpret_cast<int (*)(CudaUuid*, int)>(dlsym(library, "cuDeviceGetUuid_v2"))};
    if (!found.init || !found.device_count || !found.device_get || !found.device_uuid)
      fail(ErrorKind::kMachine, "the NVIDIA driver's libcuda.so.1 is too old: it lacks cuDeviceGetUuid_v2");
    const int status = found.init(0);
    if (status != 0)
      fail(ErrorKind::kMachine, "no usable GPU: cuInit failed with error {}{} (use device cpu, evaluator mode plan)",
           status, status == 100 ? " (no device)" : "");
    return found;
  }();
  return opened;
}

std::vector<std::string> gpu_uuids() {
  const CudaDriver& driver = cuda_driver();
  int count = 0;
  if (const int status = driver.device_count(&count); status != 0)
    fail(ErrorKind::kMachine, "the driver's count of devices failed with error {}", status);
  std::vector<std::string> out;
  for (int index = 0; index < count; ++index) {
    CudaUuid uuid;
    if (const int status = driver.device_uuid(&uuid, index); status != 0)
      fail(ErrorKind::kMachine, "the UUID of device {}: error {}", index, status);
    std::string& text = out.emplace_back("GPU-");
    for (int k = 0; k < 16; ++k)
      text += fmt::format("{}{:02x}", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", uuid.bytes[k]);
  }
  return out;
}

int cuda_index(const std::string& device) {
  if (device == "cpu") return -1;
  if (device == "cuda") return 0;
  if (device.rfind("cuda:", 0) != 0)
    fail(ErrorKind::kUsage, "unknown device '{}'{}", device, nearest_hint(device, {"cpu", "cuda", "cuda:0"}));
  int index = 0;
  const auto [end, error] = std::from_chars(device.data() + 5, device.data() + device.size(), index);
  if (error != std::errc() || end != device.data() + device.size() || index < 0)
    fail(ErrorKind::kUsage, "unknown device '{}': expected cpu, cuda or cuda:NUMBER", device);
  return index;
}

std::string visible_devices(const std::vector<std::string>& devices, const char* shown) {
  std::vector<std::string> left;
  if (shown != nullptr) {
    std::istringstream text(shown);
    for (std::string entry; std::getline(text, entry, ',') && entry != "-1";) left.push_back(entry);
  }
  std::vector<std::string> visible;
  for (const std::string& name : devices) {
    if (!name.starts_with("cuda")) {
      visible.push_back(name);
      continue;
    }
    const auto index = static_cast<size_t>(cuda_index(name));
    if (shown != nullptr && index >= left.size())
      fail(ErrorKind::kUsage, "device {} is not among those that CUDA_VISIBLE_DEVICES={} leaves", name, shown);
    visible.push_back(shown == nullptr ? std::to_string(index) : left[index]);
  }
  return fmt::format("{}", fmt::join(visible, ","));
}

void require_device(const std::string& device) {
  const int index = cuda_index(device);
  if (index < 0) return;
  int count = 0;
  if (const int status = cuda_driver().device_count(&count); status != 0)
    fail(ErrorKind::kMachine, "device {}: the driver's count of devices failed with error {}", device, status);
  if (index >= count) fail(ErrorKind::kMachine, "device {}: this machine shows {} CUDA devices", device, count);
}

}  // namespace tritonforge
