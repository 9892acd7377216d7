#pragma once
// Opens libtritonforge_cuda.so: the kernels and the CUDA runtime for a process that may also run without them.
#include "base/error.h"
#include "kernels/gpu/cuda_api.h"

namespace tritonforge::gpu {

// Call after open_device("cuda..."), whose libtorch brings the CUDA runtime, cuBLAS and the driver into the process.
// The library is looked for beside the program, then by the dynamic linker's rules. Throws kMachine naming what is
// missing, or the two versions where the library is of another build. The table stays valid until the process ends.
const CudaApi& open_cuda_library();

// "" for a Hopper GPU, which some kernels are for alone; else what this one is.
std::string no_hopper(int device);

// The device had no memory for something: nothing else is wrong with it.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message) : Error(ErrorKind::kMachine, message) {}
};

// Throws the library's own text as kMachine where `status` is not 0; OutOfMemory where it is kOutOfMemory.
void check_cuda(int status);

}  // namespace tritonforge::gpu
