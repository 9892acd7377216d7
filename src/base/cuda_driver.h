#pragma once
// The CUDA driver's own library, opened when it is first asked for: neither the toolkit's headers nor a GPU are needed
// to build or to start.
#include <string>
#include <vector>

namespace tritonforge {

struct CudaUuid {
  unsigned char bytes[16];
};

struct CudaDriver {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_uuid)(CudaUuid*, int) = nullptr;
};

// Initialised; makes no context. Throws kMachine: no driver, one that is too old, no usable GPU. A failure is tried
// again at the next call.
const CudaDriver& cuda_driver();

// "GPU-..." of each that CUDA_VISIBLE_DEVICES leaves, in its order. Throws kMachine.
std::vector<std::string> gpu_uuids();

// The N of "cuda:N", 0 for "cuda", -1 for "cpu". Throws kUsage for any other name.
int cuda_index(const std::string& device);
// What CUDA_VISIBLE_DEVICES has to be for processes that shall see `devices` alone, where it is `shown` now (null: not
// set): "cuda:N" is the N-th that it leaves, as for CUDA itself; other names, UUIDs, stay as they are. Throws kUsage
// where it leaves fewer.
std::string visible_devices(const std::vector<std::string>& devices, const char* shown);
// That `device` is "cpu", or a GPU that this machine shows. Throws kUsage, kMachine.
void require_device(const std::string& device);

}  // namespace tritonforge
