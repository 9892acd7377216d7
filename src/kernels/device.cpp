#include "kernels/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <charconv>
#include <fstream>

#include "base/error.h"

namespace tritonforge {
namespace {

void load_cuda() {
  static const std::string failure = [] {
    return dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr ? std::string() : std::string(dlerror());
  }();
  if (!failure.empty()) fail(ErrorKind::kMachine, "device cuda: libtorch's CUDA half cannot be loaded: {}", failure);
}

}  // namespace

at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  int index = 0;
  if (name != "cuda") {
    if (name.rfind("cuda:", 0) != 0) fail(ErrorKind::kUsage, "unknown device '{}'{}", name, nearest_hint(name, {"cpu", "cuda", "cuda:0"}));
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size() || index < 0) fail(ErrorKind::kUsage, "device '{}': expected cuda:NUMBER", name);
  }
  load_cuda();
  const int64_t count = at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
  if (index >= count) fail(ErrorKind::kMachine, "device {}: this machine shows {} CUDA devices", name, count);
  at::globalContext().lazyInitDevice(at::kCUDA);
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

at::ScalarType parse_dtype(const std::string& name, at::Device device) {
  if (name == "auto") return device.is_cpu() ? at::kFloat : at::kBFloat16;
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  fail(ErrorKind::kUsage, "unknown dtype '{}'{}", name, nearest_hint(name, {"auto", "float32", "bfloat16"}));
}

int64_t free_memory(at::Device device) {
  if (!device.is_cpu()) return static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  fail(ErrorKind::kMachine, "/proc/meminfo does not tell MemAvailable");
}

void synchronize(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

// Through the driver's own library: the CUDA runtime's headers are not part of the build.
std::string device_identity(at::Device device) {
  if (device.is_cpu()) return "cpu";
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) fail(ErrorKind::kMachine, "libcuda.so.1 cannot be loaded: {}", dlerror());
  const auto get_device = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  struct Uuid {
    unsigned char bytes[16];
  };
  const auto get_uuid = reinterpret_cast<int (*)(Uuid*, int)>(dlsym(driver, "cuDeviceGetUuid_v2"));
  int handle = 0;
  Uuid uuid{};
  if (get_device == nullptr || get_uuid == nullptr || get_device(&handle, device.index()) != 0 || get_uuid(&uuid, handle) != 0) {
    fail(ErrorKind::kMachine, "the CUDA driver does not tell the UUID of {}", device.str());
  }
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
  return text;
}

}  // namespace tritonforge
