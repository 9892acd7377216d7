#include "kernels/fused_rows.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#define TF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define TF_FMA_CLONES __attribute__((target_clones("avx512f", "fma", "default")))  // for explicit ones
#else
#define TF_CLONES
#define TF_FMA_CLONES
#endif
#define TF_INLINE static inline __attribute__((always_inline))

namespace tritonforge::kernels {
namespace {

constexpr int64_t kLanes = 16;  // independent sums, so that a reduction is a vector operation in a fixed order

template <typename To, typename From>
TF_INLINE To bits_as(From value) {
  To result;
  static_assert(sizeof(To) == sizeof(From));
  std::memcpy(&result, &value, sizeof result);
  return result;
}
TF_INLINE float widen(float x) { return x; }
TF_INLINE float widen(uint16_t x) { return bits_as<float>(static_cast<uint32_t>(x) << 16); }
TF_INLINE void narrow(float x, float& out) { out = x; }
TF_INLINE void narrow(float x, uint16_t& out) {  // to nearest even; a NaN stays one
  const uint32_t bits = bits_as<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  out = static_cast<uint16_t>(x == x ? rounded : 0x7FC0u);
}
template <typename T>
TF_INLINE float rounded(float x) {  // through the element type
  T narrow_value;
  narrow(x, narrow_value);
  return widen(narrow_value);
}

// chosen ? other : x by masks. As a choice the compiler would carry a constant `other` through what follows for every
// element, and what comes of exp(87) is denormal: each took an assist of 150 cycles, 9 tenths of swiglu_forward.
TF_INLINE float replaced(float x, float other, bool chosen) {
  const uint32_t mask = 0u - static_cast<uint32_t>(chosen);
  return bits_as<float>((bits_as<uint32_t>(x) & ~mask) | (bits_as<uint32_t>(other) & mask));
}

// Cephes expf (S. Moshier), about 2 ulp, for |x| <= 87 (clamped).
TF_INLINE float exponential(float x) {
  x = replaced(x, -87.0f, x < -87.0f);
  x = replaced(x, 87.0f, x > 87.0f);
  const float n = x * 1.44269504088896341f + 12582912.0f - 12582912.0f;  // round to nearest
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  return y * bits_as<float>((static_cast<int32_t>(n) + 127) << 23);
}
// x / (1 + exp(-x)) needs no clamp of its own: exp is clamped where the sigmoid is 0 or 1 in fp32 anyway.
TF_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// sum of term(i) over [0, n), in the type of the terms
template <typename Term>
TF_INLINE auto sum_of(int64_t n, Term term) {
  using Sum = decltype(term(int64_t{0}));
  Sum lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  Sum sum = 0;
  for (; i < n; ++i) sum += term(i);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return sum + lanes[0];
}

template <typename T>
TF_INLINE void rms_forward_body(const T* __restrict x, const T* __restrict weight, T* __restrict y,
                                float* __restrict scale, int64_t rows, int64_t d, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += d, y += d) {
    const float squares = sum_of(d,
                                 [x](int64_t i) __attribute__((always_inline)) { return widen(x[i]) * widen(x[i]); });
    const float s = 1.0f / std::sqrt(squares / static_cast<float>(d) + eps);
    scale[row] = s;
    for (int64_t i = 0; i < d; ++i) narrow(widen(weight[i]) * rounded<T>(widen(x[i]) * s), y[i]);
  }
}

// With h = x * scale and g = grad * weight: grad_x = scale * (g - h * mean(g h)); grad_weight = sum of grad * h.
template <typename T>
TF_INLINE void rms_backward_body(const T* __restrict grad, const T* __restrict x, const T* __restrict weight,
                                 const float* __restrict scale, T* __restrict grad_x, float* __restrict grad_weight,
                                 int64_t rows, int64_t d) {
  for (int64_t row = 0; row < rows; ++row, grad += d, x += d, grad_x += d) {
    const float s = scale[row];
    const float dot = sum_of(
        d, [=](int64_t i) __attribute__((always_inline)) { return widen(grad[i]) * widen(weight[i]) * widen(x[i]); });
    const float pull = dot * s * s / static_cast<float>(d);
    for (int64_t i = 0; i < d; ++i) {
      const float g = widen(grad[i]), value = widen(x[i]);
      narrow(s * (g * widen(weight[i]) - value * pull), grad_x[i]);
      grad_weight[i] += g * rounded<T>(value * s);
    }
  }
}

template <typename T>
TF_INLINE void rope_body(const T* __restrict x, const float* __restrict cos, const float* __restrict sin,
                         T* __restrict y, int64_t tokens, int64_t heads, int64_t d, float sign) {
  const int64_t half = d / 2;
  for (int64_t token = 0; token < tokens; ++token, cos += half, sin += half) {
    for (int64_t head = 0; head < heads; ++head, x += d, y += d) {
      for (int64_t i = 0; i < half; ++i) {
        const float a = widen(x[i]), b = widen(x[half + i]), s = sign * sin[i];
        narrow(a * cos[i] - b * s, y[i]);
        narrow(b * cos[i] + a * s, y[half + i]);
      }
    }
  }
}

template <typename T>
TF_INLINE void swiglu_forward_body(const T* __restrict gate, const T* __restrict up, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = widen(gate[i]);
    narrow(rounded<T>(g * sigmoid(g)) * widen(up[i]), y[i]);
  }
}

template <typename T>
TF_INLINE void swiglu_backward_body(const T* __restrict grad, const T* __restrict gate, const T* __restrict up,
                                    T* __restrict grad_gate, T* __restrict grad_up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = widen(gate[i]), out = widen(grad[i]), s = sigmoid(g);
    narrow(out * widen(up[i]) * s * (1.0f + g * (1.0f - s)), grad_gate[i]);
    narrow(out * rounded<T>(g * s), grad_up[i]);
  }
}

template <bool kRounded>
TF_INLINE void adamw_body(gpu::AdamwFactors factors, float keep, const float* __restrict gradients,
                          float* __restrict first, float* __restrict second, float* __restrict masters,
                          uint16_t* __restrict weights, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    gpu::adamw_element<gpu::ExactMaths>(factors, keep, gradients[i], first[i], second[i], masters[i]);
    if constexpr (kRounded) narrow(masters[i], weights[i]);
  }
}

}  // namespace

#define TF_FOR_ELEMENT(T)                                                                                             \
  TF_CLONES void rms_forward(const T* x, const T* weight, T* y, float* scale, int64_t rows, int64_t d, float eps) {   \
    rms_forward_body(x, weight, y, scale, rows, d, eps);                                                              \
  }                                                                                                                   \
  TF_CLONES void rms_backward(const T* grad, const T* x, const T* weight, const float* scale, T* grad_x,              \
                              float* grad_weight, int64_t rows, int64_t d) {                                          \
    rms_backward_body(grad, x, weight, scale, grad_x, grad_weight, rows, d);                                          \
  }                                                                                                                   \
  TF_CLONES void rope_rows(const T* x, const float* cos, const float* sin, T* y, int64_t tokens, int64_t heads,       \
                           int64_t d, float sign) {                                                                   \
    rope_body(x, cos, sin, y, tokens, heads, d, sign);                                                                \
  }                                                                                                                   \
  TF_CLONES void swiglu_forward(const T* gate, const T* up, T* y, int64_t n) { swiglu_forward_body(gate, up, y, n); } \
  TF_CLONES void swiglu_backward(const T* grad, const T* gate, const T* up, T* grad_gate, T* grad_up, int64_t n) {    \
    swiglu_backward_body(grad, gate, up, grad_gate, grad_up, n);                                                      \
  }

TF_FOR_ELEMENT(float)
TF_FOR_ELEMENT(uint16_t)

TF_CLONES void add(float* __restrict to, const float* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

TF_CLONES void scale_rows(float* x, const float* factors, int64_t rows, int64_t n, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < n; ++i) x[row * stride + i] *= factors[row];
  }
}

TF_CLONES void dot_rows(const float* x, const float* y, float* sums, int64_t rows, int64_t n, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) {
    sums[row] = sum_of(
        n, [=](int64_t i) __attribute__((always_inline)) { return x[row * stride + i] * y[row * stride + i]; });
  }
}

TF_CLONES double sum_of_squares(const float* x, int64_t n) {
  return sum_of(n, [x](int64_t i) __attribute__((always_inline)) {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  });
}

TF_FMA_CLONES void adamw_row(const gpu::AdamwFactors& factors, float keep, const float* gradients, float* first,
                             float* second, float* masters, uint16_t* weights, int64_t n) {
  if (weights == nullptr) adamw_body<false>(factors, keep, gradients, first, second, masters, weights, n);
  else adamw_body<true>(factors, keep, gradients, first, second, masters, weights, n);
}

}  // namespace tritonforge::kernels
