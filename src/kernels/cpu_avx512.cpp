// Compiled for avx512 (CMakeLists.txt); runs only where the machine has it.
#if defined(__x86_64__)
#define TF_CPU_TARGET "avx512"
#include "kernels/cpu_kernels.inl"

namespace tritonforge::kernels {
const CpuKernels* cpu_kernels_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
             ? &table
             : nullptr;
}
}  // namespace tritonforge::kernels
#else
#include "kernels/cpu_kernels.h"
namespace tritonforge::kernels {
const CpuKernels* cpu_kernels_avx512() { return nullptr; }
}  // namespace tritonforge::kernels
#endif
