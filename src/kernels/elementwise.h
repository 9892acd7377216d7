#pragma once
// Row-wise CPU kernels of the forward pass without gradients, in fp32, bf16 and fp16: one pass over memory each, where
// ATen runs five to nine operators. Small batches (decoding, tiny models) are bound by the number of operators. The
// arithmetic is fp32 inside, rounded where Hugging Face rounds; each is tested against the ATen form.
#include <ATen/ATen.h>

namespace tritonforge::kernels {

// x [..., d] with contiguous last dimension, weight [d] of the same dtype. Sum of squares, scale and rounding before the
// weight in fp32. Result contiguous.
at::Tensor rms_norm_cpu(const at::Tensor& x, const at::Tensor& weight, double eps);

// x [t, heads, d] (rows may be strided), cos and sin [t, d / 2] fp32 contiguous. Result contiguous.
at::Tensor rope_cpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace tritonforge::kernels
