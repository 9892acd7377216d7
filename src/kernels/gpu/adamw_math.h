#pragma once
// AdamW's arithmetic, compiled for the host and for the device. Every product that is added is an explicit fma, so no
// compiler contracts by its own choice: with ExactMaths both give the same bits.
#include <cfloat>
#include <cmath>

#include "kernels/gpu/train_args.h"

#if defined(__CUDACC__)
#define TF_HOST_DEVICE __host__ __device__ inline
#else
#define TF_HOST_DEVICE inline __attribute__((always_inline))  // into functions of any instruction set
#endif

namespace tritonforge::gpu {

// From the squares of all gradients: whether the step is taken, and with which factors.
TF_HOST_DEVICE void decide(AdamwState& state, const AdamwArgs& a) {
  state.norm = sqrtf(state.squares);
  const bool finite = state.norm <= FLT_MAX;
  state.skipped = finite ? 0.0f : 1.0f;
  if (!finite) return;
  state.steps += 1;
  state.scale = a.clip > 0 && state.norm > a.clip ? a.clip / state.norm : 1.0f;
  state.correction1 = static_cast<float>(1.0 - pow(static_cast<double>(a.beta1), static_cast<double>(state.steps)));
  state.correction2 = static_cast<float>(1.0 - pow(static_cast<double>(a.beta2), static_cast<double>(state.steps)));
}

// What is the same for all weights of a step.
struct AdamwFactors {
  float scale, beta1, beta2, rate, root, eps;
};
TF_HOST_DEVICE AdamwFactors factors_of(const AdamwState& state, const AdamwArgs& a) {
  return {state.scale, a.beta1, a.beta2, a.learning_rate / state.correction1, 1.0f / sqrtf(state.correction2), a.eps};
}
// Of the weight before the step, by its decay.
TF_HOST_DEVICE float kept(const AdamwArgs& a, float decay) { return fmaf(-a.learning_rate, decay, 1.0f); }

struct ExactMaths {  // rounded as IEEE 754 says
  TF_HOST_DEVICE static float root(float x) { return sqrtf(x); }
  TF_HOST_DEVICE static float quotient(float x, float y) { return x / y; }
};

template <typename Maths>
TF_HOST_DEVICE void adamw_element(const AdamwFactors& f, float keep, float gradient, float& first, float& second,
                                  float& weight) {
  const float g = gradient * f.scale;
  first = fmaf(f.beta1, first, (1.0f - f.beta1) * g);
  second = fmaf(f.beta2, second, (1.0f - f.beta2) * g * g);
  weight = fmaf(weight, keep, -Maths::quotient(f.rate * first, fmaf(Maths::root(second), f.root, f.eps)));
}

}  // namespace tritonforge::gpu
