// A matrix of FP8 as bf16, for the products of many rows: these read it often, so a pass over it costs little, and they
// stay those of bf16.
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256;

// Grid: (rows; sixteens of a row). A lane has step s of a group of 64: four bytes of each of four lanes of a product.
__global__ void __launch_bounds__(kThreads) widen_matrix_kernel(Bf16* wide, const Fp8Weights from, int k) {
  allow_next();
  wait_for_previous();
  const int64_t row = int64_t{blockIdx.x} * k;
  const int sixteen = static_cast<int>(blockIdx.y) * kThreads + threadIdx.x, step = sixteen % 4;
  if (16 * sixteen >= k) return;
  const auto* group = reinterpret_cast<const uint32_t*>(from.values + row + sixteen / 4 * 64) + step;
  widen(wide + row + 16 * sixteen, make_uint4(group[0], group[4], group[8], group[12]), from.scales[blockIdx.x]);
}

}  // namespace

int widen_matrix(Bf16* wide, const Fp8Weights* from, int64_t n, int64_t k, Stream stream) {
  TF_REQUIRE(k % 64 == 0, "widen_matrix: rows of %ld (a multiple of 64)", static_cast<long>(k));
  if (n == 0) return 0;
  const dim3 grid(static_cast<unsigned>(n), static_cast<unsigned>(ceil_div<int64_t>(k, 16 * kThreads)));
  return launch("widen_matrix", widen_matrix_kernel, grid, kThreads, 0, stream, wide, *from, static_cast<int>(k));
}

}  // namespace tritonforge::gpu
