#pragma once
// Gradients of vectors: every block sums its rows into a part of its own, and the parts are summed in order, so that
// the result does not depend on who came first.
#include "kernels/gpu/device.cuh"
#include "kernels/gpu/train_args.h"

namespace tritonforge::gpu {

// Blocks of a kernel whose parts are summed: enough to fill the device.
inline int row_sum_blocks(int64_t rows, int blocks_a_multiprocessor) {
  const int64_t most = int64_t{multiprocessors()} * blocks_a_multiprocessor;
  return static_cast<int>(rows < most ? rows : most);
}

// out[c] (+)= sum over rows of from[rows, stride][c], c in [0, width).
int add_rows(const GradientOut& out, const float* from, int64_t rows, int64_t stride, int64_t width, Stream);

}  // namespace tritonforge::gpu
