#include "kernels/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <charconv>
#include <fstream>

#include "base/error.h"
#include "base/filesystem.h"

namespace tritonforge::kernels {
namespace {

struct Uuid {
  unsigned char bytes[16];
};

// The CUDA driver's own library: the runtime's headers are not part of the build.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_uuid)(Uuid*, int) = nullptr;
};

const Driver& driver() {
  static const Driver opened = [] {  // a failure throws and is tried again at the next call
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      fail(ErrorKind::kMachine, "no GPU here: the NVIDIA driver's libcuda.so.1 cannot be loaded (use --device cpu)");
    Driver found{reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit")),
                 reinterpret_cast<int (*)(int*, int)>(dlsym(library, "cuDeviceGet")),
                 reinterpret_cast<int (*)(Uuid*, int)>(dlsym(library, "cuDeviceGetUuid_v2"))};
    if (!found.init || !found.device_get || !found.device_uuid)
      fail(ErrorKind::kMachine, "the NVIDIA driver's libcuda.so.1 is too old: it lacks cuDeviceGetUuid_v2");
    const int status = found.init(0);
    if (status != 0)
      fail(ErrorKind::kMachine, "no usable GPU: cuInit failed with error {}{} (use --device cpu)", status,
           status == 100 ? " (no device)" : "");
    return found;
  }();
  return opened;
}

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
  if (name == "cpu") return at::kCPU;
  int index = 0;
  if (name != "cuda") {
    if (name.rfind("cuda:", 0) != 0)
      fail(ErrorKind::kUsage, "unknown device '{}'{}", name, nearest_hint(name, {"cpu", "cuda", "cuda:0"}));
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size() || index < 0)
      fail(ErrorKind::kUsage, "unknown device '{}': expected cpu, cuda or cuda:NUMBER", name);
  }
  driver();  // first: its reason is clearer, and without a GPU the large library is not loaded
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
  if (name == "float16") return at::kHalf;
  fail(ErrorKind::kUsage, "unknown dtype '{}'{}", name, nearest_hint(name, {"auto", "float32", "bfloat16", "float16"}));
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

std::string device_identity(at::Device device) {
  if (device.is_cpu()) return "cpu";
  int handle = 0;
  Uuid uuid{};
  if (driver().device_get(&handle, device.index()) != 0 || driver().device_uuid(&uuid, handle) != 0) {
    fail(ErrorKind::kMachine, "the CUDA driver does not tell the UUID of {}", device.str());
  }
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
  return text;
}

}  // namespace tritonforge::kernels
