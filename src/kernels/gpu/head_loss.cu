// The head's rows of logits, one block a row: what they say of the target in one read, their gradient in another.
#include <cfloat>
#include <cmath>

#include "kernels/gpu/device.cuh"
#include "kernels/gpu/train_args.h"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
constexpr int kUnroll = 4;  // vectors of four logits that a thread has in flight

// Of some of a row's logits: the largest, and sums over e = exp((x - maximum) f) of e and of e (x - maximum) f.
struct Part {
  float maximum, sum, weighted;
};
__device__ inline Part merged(const Part& a, const Part& b, float f) {
  const float top = fmaxf(a.maximum, b.maximum), down_a = (a.maximum - top) * f, down_b = (b.maximum - top) * f;
  const float share_a = __expf(down_a), share_b = __expf(down_b);
  // A part of nothing has maximum -FLT_MAX and sums of zero.
  return {top, a.sum * share_a + b.sum * share_b,
          (a.sum > 0 ? share_a * (a.weighted + a.sum * down_a) : 0) +
              (b.sum > 0 ? share_b * (b.weighted + b.sum * down_b) : 0)};
}
__device__ inline Part merged_over_warp(Part part, float f) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    part = merged(part,
                  {__shfl_xor_sync(kAllLanes, part.maximum, offset), __shfl_xor_sync(kAllLanes, part.sum, offset),
                   __shfl_xor_sync(kAllLanes, part.weighted, offset)},
                  f);
  }
  return part;
}

__global__ void __launch_bounds__(kThreads) head_scores_kernel(HeadScoresArgs a) {
  __shared__ Part parts[kWarps];
  allow_next();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const float* logits = a.logits + row * a.vocab;
  const float f = a.inverse_temperature == nullptr ? 1.0f : a.inverse_temperature[row];
  const int vectors = static_cast<int>(a.vocab / 4);
  Part part{-FLT_MAX, 0, 0};
  for (int base = threadIdx.x; base < vectors; base += kThreads * kUnroll) {
    float4 x[kUnroll];
    float top = part.maximum;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = base + u * kThreads;
      x[u] = i < vectors ? __ldcs(reinterpret_cast<const float4*>(logits) + i)
                         : make_float4(-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX);
      top = fmaxf(fmaxf(fmaxf(top, x[u].x), fmaxf(x[u].y, x[u].z)), x[u].w);
    }
    if (top > part.maximum) part = merged(part, {top, 0, 0}, f);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u * kThreads >= vectors) continue;
      const float values[4] = {x[u].x, x[u].y, x[u].z, x[u].w};
#pragma unroll
      for (const float value : values) {
        const float z = (value - part.maximum) * f, e = __expf(z);
        part.sum += e;
        part.weighted += e * z;
      }
    }
  }
  part = merged_over_warp(part, f);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) parts[warp] = part;
  __syncthreads();
  if (warp > 0) return;
  part = merged_over_warp(lane < kWarps ? parts[lane] : Part{-FLT_MAX, 0, 0}, f);
  if (lane > 0) return;
  const float log_total = logf(part.sum);
  const int target = a.targets[row];
  a.log_probs[row] = target < 0 ? NAN : (logits[target] - part.maximum) * f - log_total;
  a.entropy[row] = log_total - part.weighted / part.sum;
  a.maximum[row] = part.maximum;
  a.inverse_total[row] = 1.0f / part.sum;
}

// A round reads kThreads * kUnroll vectors before it writes the half as long gradients, which lie below what later
// rounds read.
__global__ void __launch_bounds__(kThreads) head_gradient_kernel(HeadGradientArgs a) {
  allow_next();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  float* logits = a.logits + row * a.vocab;
  const float f = a.inverse_temperature == nullptr ? 1.0f : a.inverse_temperature[row];
  const float maximum = a.maximum[row], share = a.inverse_total[row], of_log_prob = a.grad_log_probs[row];
  const float of_entropy = a.grad_entropy == nullptr ? 0.0f : a.grad_entropy[row];
  // log p + H = z - log total + H
  const float offset = a.entropy[row] + logf(share);
  const int target = a.targets[row], vectors = static_cast<int>(a.vocab / 4);
  for (int first = 0; first < vectors; first += kThreads * kUnroll) {
    const int base = first + threadIdx.x;
    float4 x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = base + u * kThreads;
      if (i < vectors) x[u] = reinterpret_cast<const float4*>(logits)[i];
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = base + u * kThreads;
      if (i >= vectors) continue;
      float values[4] = {x[u].x, x[u].y, x[u].z, x[u].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float z = (values[j] - maximum) * f, p = __expf(z) * share;
        values[j] = f * ((4 * i + j == target ? of_log_prob : 0.0f) - p * (of_log_prob + of_entropy * (z + offset)));
      }
      reinterpret_cast<uint2*>(logits)[i] = make_uint2(pack(values[0], values[1]), pack(values[2], values[3]));
    }
  }
}

}  // namespace

int head_scores(const HeadScoresArgs* a, Stream stream) {
  TF_REQUIRE(a->vocab % 4 == 0, "head_scores: %ld logits (a multiple of 4)", static_cast<long>(a->vocab));
  if (a->rows == 0) return 0;
  return launch("head_scores", head_scores_kernel, dim3(static_cast<unsigned>(a->rows)), kThreads, 0, stream, *a);
}

int head_gradient(const HeadGradientArgs* a, Stream stream) {
  TF_REQUIRE(a->vocab % 4 == 0, "head_gradient: %ld logits (a multiple of 4)", static_cast<long>(a->vocab));
  if (a->rows == 0) return 0;
  return launch("head_gradient", head_gradient_kernel, dim3(static_cast<unsigned>(a->rows)), kThreads, 0, stream, *a);
}

}  // namespace tritonforge::gpu
