// Compiled for avx2 (CMakeLists.txt); runs only where the machine has it.
#if defined(__x86_64__)
#define TF_CPU_TARGET "avx2"
#include "kernels/cpu_kernels.inl"

namespace tritonforge::kernels {
const CpuKernels* cpu_kernels_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &table : nullptr;
}
}  // namespace tritonforge::kernels
#else
#include "kernels/cpu_kernels.h"
namespace tritonforge::kernels {
const CpuKernels* cpu_kernels_avx2() { return nullptr; }
}  // namespace tritonforge::kernels
#endif
