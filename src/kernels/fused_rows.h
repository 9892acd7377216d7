#pragma once
// The loops of fused_ops.cpp and adamw.cpp over raw rows, for one thread; compiled for several instruction sets and
// chosen at load time (target_clones), without ATen. Element: float, or uint16_t holding bfloat16.
#include <cstdint>

#include "kernels/gpu/adamw_math.h"

namespace tritonforge::kernels {

// scale[row] = 1 / sqrt(mean(x^2) + eps)
void rms_forward(const float* x, const float* weight, float* y, float* scale, int64_t rows, int64_t d, float eps);
void rms_forward(const uint16_t* x, const uint16_t* weight, uint16_t* y, float* scale, int64_t rows, int64_t d,
                 float eps);
// grad_weight [d] fp32 is added to.
void rms_backward(const float* grad, const float* x, const float* weight, const float* scale, float* grad_x,
                  float* grad_weight, int64_t rows, int64_t d);
void rms_backward(const uint16_t* grad, const uint16_t* x, const uint16_t* weight, const float* scale, uint16_t* grad_x,
                  float* grad_weight, int64_t rows, int64_t d);

// sign -1 turns back: the gradient. cos, sin [tokens, d / 2].
void rope_rows(const float* x, const float* cos, const float* sin, float* y, int64_t tokens, int64_t heads, int64_t d,
               float sign);
void rope_rows(const uint16_t* x, const float* cos, const float* sin, uint16_t* y, int64_t tokens, int64_t heads,
               int64_t d, float sign);

void swiglu_forward(const float* gate, const float* up, float* y, int64_t n);
void swiglu_forward(const uint16_t* gate, const uint16_t* up, uint16_t* y, int64_t n);
void swiglu_backward(const float* grad, const float* gate, const float* up, float* grad_gate, float* grad_up,
                     int64_t n);
void swiglu_backward(const uint16_t* grad, const uint16_t* gate, const uint16_t* up, uint16_t* grad_gate,
                     uint16_t* grad_up, int64_t n);

// to += from
void add(float* to, const float* from, int64_t n);
// Each of `rows` rows, `stride` apart, times its factor.
void scale_rows(float* x, const float* factors, int64_t rows, int64_t n, int64_t stride);
// sums[r] of x times y over each row.
void dot_rows(const float* x, const float* y, float* sums, int64_t rows, int64_t n, int64_t stride);

double sum_of_squares(const float* x, int64_t n);

// AdamW of n weights of one tensor. weights: the masters in bfloat16; null: not wanted.
void adamw_row(const gpu::AdamwFactors& factors, float keep, const float* gradients, float* first, float* second,
               float* masters, uint16_t* weights, int64_t n);

}  // namespace tritonforge::kernels
