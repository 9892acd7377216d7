#pragma once
// Weight matrices in FP8 (an engine's weight_dtype fp8_e4m3): each row as kernels/fp8.h has rows, so what a row becomes
// depends on that row alone, and a product with it is one with the widened numbers: these are exact in bfloat16, and
// the scale may as well be multiplied into the row's sum. The same bits on every device.
#include <ATen/ATen.h>

namespace tritonforge::kernels {

struct Fp8Matrix {
  at::Tensor values;  // [out, in] e4m3
  at::Tensor scales;  // [out] fp32, powers of two; NaN where the row had a number that is not finite
};

// w [out, in] float32 or bfloat16, each number to the nearest, ties to even.
Fp8Matrix to_fp8(const at::Tensor& w);

// A matrix to compute with lies in lane order on a GPU where `in` is a multiple of 64, elsewhere plainly. Copies plain
// values, of any device, to where such a matrix is kept.
void keep(const at::Tensor& kept, const at::Tensor& values);
// What a kept matrix stands for, in float32 or bfloat16.
at::Tensor widened(const Fp8Matrix& kept, at::ScalarType dtype);

// The own GPU kernels read 64 neighbours of a row, k = 16 s + 8 h + 2 t + i, at place 16 t + 4 s + 2 i + h: 16 bytes
// are what lane t of four feeds to the tensor cores in four steps (kernels/gpu/device.cuh widens even and odd bytes
// apart).
constexpr int64_t kLaneGroup = 64;
at::Tensor to_lane_order(const at::Tensor& values);  // [out, in], in a multiple of 64
at::Tensor from_lane_order(const at::Tensor& values);

}  // namespace tritonforge::kernels
