#pragma once
// AdamW of fp32 states by the CPU's threads: the twin of kernels/gpu/adamw.cu, whose bits it gives.
#include "kernels/gpu/train_args.h"

namespace tritonforge::kernels {

constexpr int64_t kAdamwGrain = int64_t{16} << 10;  // weights that are worth a thread

// As the GPU's, of pointers into the host's memory. weights may be null: the masters are the weights.
void adamw(const gpu::AdamwArgs& args);

// Of all of them, in double: a sum in fp32 depends on how it is divided by as much as gradients of ranks differ from
// those of one process. The same bits with any number of threads.
double gradient_squares(const float* gradients, int64_t count);

}  // namespace tritonforge::kernels
