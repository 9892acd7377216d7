#define TF_CPU_TARGET "baseline"
#include "kernels/cpu_kernels.inl"

namespace tritonforge::kernels {

const CpuKernels& cpu_kernels_baseline() { return table; }

const CpuKernels& cpu_kernels() {
  static const CpuKernels& best = []() -> const CpuKernels& {
    if (const CpuKernels* kernels = cpu_kernels_avx512()) return *kernels;
    if (const CpuKernels* kernels = cpu_kernels_avx2()) return *kernels;
    return table;
  }();
  return best;
}

}  // namespace tritonforge::kernels
