#pragma once
// Products with a weight matrix on the CPU.
#include <ATen/ATen.h>

namespace tritonforge::kernels {

// at::linear: x [tokens, in], weight [out, in], bias [out] or undefined -> [tokens, out]. On a thread with a
// ThreadPool, without gradients and in fp32, panels of the weight's rows are shared out to its threads, each a call of
// the BLAS that ATen would call: the same bits for any number of threads (ATen's own may divide the sum itself, and
// then bits depend on how many there are). For `in` up to 768 these were at::linear's bits wherever it was tried;
// above, MKL may divide the sum of a wide product otherwise than that of a panel.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace tritonforge::kernels
