#include "kernels/gpu/cuda_library.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/filesystem.h"

namespace tritonforge::gpu {
namespace {

constexpr const char* kName = "libtritonforge_cuda.so";

const CudaApi* load() {
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / kName;
  void* library = dlopen(fs::exists(beside, ignored) ? beside.c_str() : kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(ErrorKind::kMachine, "the GPU kernels cannot be loaded: {} (`make gpu` builds {})", dlerror(), kName);
  const auto table = reinterpret_cast<const CudaApi* (*)()>(dlsym(library, "tritonforge_cuda_api"));
  if (table == nullptr) fail(ErrorKind::kMachine, "{} has no table of functions: `make gpu` builds it anew", kName);
  if (table()->abi != kCudaAbi) {
    fail(ErrorKind::kMachine, "{} is of another build (interface {}, this program has {}): `make gpu` builds it anew",
         kName, table()->abi, kCudaAbi);
  }
  return table();
}

}  // namespace

const CudaApi& open_cuda_library() {
  static const CudaApi& opened = *load();  // a failure throws and is tried again at the next call
  return opened;
}

std::string no_hopper(int device) {
  DeviceProperties properties;
  check_cuda(open_cuda_library().device_properties(device, &properties));
  if (properties.compute_major == 9) return "";
  return fmt::format("{}, of compute capability {}.{}, is no Hopper GPU (9.x)", properties.name,
                     properties.compute_major, properties.compute_minor);
}

void check_cuda(int status) {
  if (status == kOutOfMemory) throw OutOfMemory(fmt::format("GPU: {}", open_cuda_library().last_error()));
  if (status != 0) fail(ErrorKind::kMachine, "GPU: {}", open_cuda_library().last_error());
}

}  // namespace tritonforge::gpu
