#pragma once
// The element-wise blocks of a transformer layer as one pass each on the CPU, forward and backward: composed of ATen
// operations they are bound by memory and took as long as the GEMMs. On other devices, and for other dtypes than
// float32 and bfloat16, the reference twin runs. All are differentiable; every row's result depends on that row alone.
#include <ATen/ATen.h>

namespace tritonforge::kernels {

// weight * round(x / rms(x)), over the last dimension; the division in fp32, both products rounded to x's dtype (as
// Hugging Face's Qwen does). x [..., d], weight [d] of x's dtype.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
at::Tensor rms_norm_reference(const at::Tensor& x, const at::Tensor& weight, double eps);

// Rotates the halves of the last dimension: x [tokens, heads, d]; cos, sin [tokens, d / 2] fp32, without gradient.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);
at::Tensor rope_reference(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// silu(gate) * up, element by element.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor swiglu_reference(const at::Tensor& gate, const at::Tensor& up);

}  // namespace tritonforge::kernels
