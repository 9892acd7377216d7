#include "kernels/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <sys/resource.h>

#include <fstream>

#include "base/cuda_driver.h"
#include "base/error.h"
#include "base/filesystem.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::kernels {
namespace {

// The library is taken from beside the CPU half that is loaded, whatever the library path is.
void load_cuda() {
  static const std::string failure = [] {
    Dl_info here{};
    const bool known = dladdr(reinterpret_cast<const void*>(&at::globalContext), &here) != 0;
    const auto path = known ? fs::path(here.dli_fname).parent_path() / "libtorch_cuda.so"
                            : fs::path("libtorch_cuda.so");
    return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr ? std::string() : std::string(dlerror());
  }();
  if (!failure.empty()) fail(ErrorKind::kMachine, "device cuda: libtorch's CUDA half cannot be loaded: {}", failure);
}

}  // namespace

at::Device open_device(const std::string& name) {
  const int index = cuda_index(name);
  if (index < 0) return at::kCPU;
  require_device(name);  // first: its reason is clearer, and without a GPU the large library is not loaded
  load_cuda();
  const int64_t count = at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
  if (index >= count) fail(ErrorKind::kMachine, "device {}: libtorch sees {} CUDA devices", name, count);
  at::globalContext().lazyInitDevice(at::kCUDA);
  const at::Device device{at::kCUDA, static_cast<at::DeviceIndex>(index)};
  use_device(device);
  return device;
}

void use_device(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

at::ScalarType parse_dtype(const std::string& name, at::Device device) {
  if (name == "auto") return device.is_cpu() ? at::kFloat : at::kBFloat16;
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  fail(ErrorKind::kUsage, "unknown dtype '{}'{}", name, nearest_hint(name, {"auto", "float32", "bfloat16", "float16"}));
}

bool has_gpu_kernels() {
  try {
    gpu::open_cuda_library();
    return true;
  } catch (const Error&) {
    return false;  // who needs them says why
  }
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

int64_t used_memory(at::Device device) {
  if (!device.is_cpu()) {
    const auto [free, total] = at::accelerator::getMemoryInfo(device.index());
    return static_cast<int64_t>(total - free);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

void synchronize(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::string device_identity(at::Device device) {
  if (device.is_cpu()) return "cpu";
  int handle = 0;
  CudaUuid uuid{};
  if (cuda_driver().device_get(&handle, device.index()) != 0 || cuda_driver().device_uuid(&uuid, handle) != 0) {
    fail(ErrorKind::kMachine, "the CUDA driver does not tell the UUID of {}", device.str());
  }
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
  return text;
}

}  // namespace tritonforge::kernels
