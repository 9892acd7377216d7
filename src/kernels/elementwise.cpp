#include "kernels/elementwise.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "base/error.h"

namespace tritonforge::kernels {
namespace {

constexpr int64_t kGrain = 32768;  // numbers that are worth a thread

template <typename Row>
void over_rows(int64_t rows, int64_t width, const Row& row) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width));
  if (rows <= grain) {
    for (int64_t i = 0; i < rows; ++i) row(i);
    return;
  }
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i);
  });
}

// Eight running sums: the order is fixed by the width alone, and the compiler can keep them in vector registers.
template <typename T>
float sum_of_squares(const T* x, int64_t width) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    for (int64_t j = 0; j < 8; ++j) {
      const float value = static_cast<float>(x[i + j]);
      sums[j] += value * value;
    }
  }
  for (; i < width; ++i) sums[0] += static_cast<float>(x[i]) * static_cast<float>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Rows of the last dimension of a 1- to 3-dimensional tensor, whatever the outer strides are.
struct Rows {
  int64_t count, inner, outer_stride, inner_stride;
  int64_t offset(int64_t row) const { return (row / inner) * outer_stride + (row % inner) * inner_stride; }
};
Rows rows_of(const at::Tensor& x) {
  TF_CHECK(x.dim() >= 1 && x.dim() <= 3 && x.stride(-1) == 1, "rows must be contiguous, in at most three dimensions");
  const int64_t inner = x.dim() == 3 ? x.size(1) : 1;
  const int64_t outer = x.dim() == 1 ? 1 : x.size(0);
  return {outer * inner, std::max<int64_t>(1, inner), x.dim() == 1 ? 0 : x.stride(0), x.dim() == 3 ? x.stride(1) : 0};
}

template <typename T>
void rms_norm_rows(const at::Tensor& x, const at::Tensor& weight, float eps, at::Tensor& y) {
  const Rows rows = rows_of(x);
  const int64_t width = x.size(-1);
  const T *in = x.const_data_ptr<T>(), *w = weight.const_data_ptr<T>();
  T* out = y.mutable_data_ptr<T>();
  over_rows(rows.count, width, [&](int64_t row) {
    const T* from = in + rows.offset(row);
    T* to = out + row * width;
    const float scale = 1.0f / std::sqrt(sum_of_squares(from, width) / static_cast<float>(width) + eps);
    for (int64_t i = 0; i < width; ++i) to[i] = w[i] * static_cast<T>(static_cast<float>(from[i]) * scale);
  });
}

template <typename T>
void rope_rows(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, at::Tensor& y) {
  const Rows rows = rows_of(x);
  const int64_t width = x.size(-1), half = width / 2;
  const T* in = x.const_data_ptr<T>();
  const float *c = cos.const_data_ptr<float>(), *s = sin.const_data_ptr<float>();
  T* out = y.mutable_data_ptr<T>();
  over_rows(rows.count, width, [&](int64_t row) {
    const T* from = in + rows.offset(row);
    T* to = out + row * width;
    const float *cr = c + (row / rows.inner) * half, *sr = s + (row / rows.inner) * half;
    for (int64_t i = 0; i < half; ++i) {
      const float a = static_cast<float>(from[i]), b = static_cast<float>(from[half + i]);
      to[i] = static_cast<T>(a * cr[i] - b * sr[i]);
      to[half + i] = static_cast<T>(b * cr[i] + a * sr[i]);
    }
  });
}

#define TF_FLOATING(dtype, call)                                                               \
  switch (dtype) {                                                                             \
    case at::kFloat: { using T = float; call; break; }                                         \
    case at::kBFloat16: { using T = c10::BFloat16; call; break; }                              \
    case at::kHalf: { using T = c10::Half; call; break; }                                      \
    default: TF_CHECK(false, "no CPU kernel for {}", c10::toString(dtype));                    \
  }

}  // namespace

at::Tensor rms_norm_cpu(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TF_CHECK(weight.scalar_type() == x.scalar_type() && weight.numel() == x.size(-1) && weight.is_contiguous(), "the weight does not fit x");
  at::Tensor y = at::empty(x.sizes(), x.options());
  TF_FLOATING(x.scalar_type(), rms_norm_rows<T>(x, weight, static_cast<float>(eps), y))
  return y;
}

at::Tensor rope_cpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  TF_CHECK(x.dim() == 3 && cos.is_contiguous() && sin.is_contiguous() && cos.size(0) == x.size(0) && 2 * cos.size(1) == x.size(2), "the rope table does not fit x");
  at::Tensor y = at::empty(x.sizes(), x.options());
  TF_FLOATING(x.scalar_type(), rope_rows<T>(x, cos, sin, y))
  return y;
}

#undef TF_FLOATING

}  // namespace tritonforge::kernels
