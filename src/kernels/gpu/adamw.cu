// AdamW in one pass over flat arenas: gradients are read twice (norm, update), everything else once. What decides the
// step (norm, clip, whether it is skipped, how often it was done) stays on the device.
#include <algorithm>
#include <type_traits>

#include "kernels/gpu/adamw_math.h"
#include "kernels/gpu/device.cuh"
#include "kernels/gpu/train_args.h"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 512;

// SplitMix64's finaliser.
__device__ inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
// Rounds to bf16 up or down with the probability that makes the mean right: 16 random bits below the mantissa.
__device__ inline uint32_t rounded_at_random(float x, uint32_t bits16) {
  const uint32_t bits = __float_as_uint(x);
  return (bits & 0x7F800000u) == 0x7F800000u ? bits >> 16 : (bits + bits16) >> 16;
}
// Eight of them, from 16 bits of `random` each.
struct Random {
  uint64_t half[2];
};
__device__ inline void store_at_random(Bf16* to, int64_t i, const float (&from)[8], const Random& random) {
  Bf16x8 packed;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const auto bits = static_cast<uint32_t>(random.half[pair / 2] >> (pair % 2 * 32));
    packed.pair[pair] = rounded_at_random(from[2 * pair], bits & 0xFFFFu) |
                        rounded_at_random(from[2 * pair + 1], bits >> 16) << 16;
  }
  reinterpret_cast<Bf16x8*>(to)[i] = packed;
}
// Another one, as random for a value of its own; not as far from the first as mixed() would put it.
__device__ inline Random next(const Random& random) {
  constexpr uint64_t kOdd = 0xD6E8FEB86659FD93u;
  return {{(random.half[0] ^ (random.half[0] >> 32)) * kOdd, (random.half[1] ^ (random.half[1] >> 32)) * kOdd}};
}

// For what is rounded to bf16, whose kernel has the time for no more.
struct FastMaths {
  __device__ static float root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ static float quotient(float x, float y) { return __fdividef(x, y); }
};

__device__ inline float block_sum(float value) {
  __shared__ float sums[kThreads / kWarp];
  value = lane_sum(value);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  return lane_sum(lane < kThreads / kWarp ? sums[lane] : 0.0f);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) squares_kernel(float* partials, const T* gradients, int64_t vectors) {
  constexpr int kUnroll = 4;
  allow_next();
  wait_for_previous();
  float sum = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t base = blockIdx.x * int64_t{kThreads} + threadIdx.x; base < vectors; base += step * kUnroll) {
    float g[kUnroll][8];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u * step < vectors) load8(gradients, base + u * step, g[u]);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u * step >= vectors) continue;
#pragma unroll
      for (const float value : g[u]) sum += value * value;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) total_kernel(float* total, const float* partials, int64_t count) {
  wait_for_previous();
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

__global__ void decide_kernel(AdamwArgs a) {
  wait_for_previous();
  decide(*a.state, a);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) update_kernel(AdamwArgs a) {
  constexpr bool kFp32 = sizeof(T) == 4;
  using Maths = std::conditional_t<kFp32, ExactMaths, FastMaths>;
  allow_next();
  wait_for_previous();
  const AdamwState state = *a.state;
  if (state.skipped != 0) return;
  const uint64_t key = mixed(a.seed + static_cast<uint64_t>(state.steps) * 0x9E3779B97F4A7C15u);
  const AdamwFactors factors = factors_of(state, a);
  auto* first = static_cast<T*>(a.first);
  auto* second = static_cast<T*>(a.second);
  const auto* gradients = static_cast<const T*>(a.gradients);
  const int64_t vectors = a.count / 8, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < vectors; i += step) {
    float g[8], m[8], v[8], w[8];
    load8(gradients, i, g);
    load8(first, i, m);
    load8(second, i, v);
    if constexpr (kFp32) load8(a.master, i, w);
    else load8(a.weights, i, w);
    int64_t tensor = 0, above = a.tensors;  // the last one that begins at or before
    while (above - tensor > 1) {
      const int64_t middle = (tensor + above) / 2;
      if (a.begins[middle] <= a.place + 8 * i) tensor = middle;
      else above = middle;
    }
    const float keep = kept(a, a.decays[tensor]);
#pragma unroll
    for (int j = 0; j < 8; ++j) adamw_element<Maths>(factors, keep, g[j], m[j], v[j], w[j]);
    if constexpr (kFp32) {
      store8(first, i, m);
      store8(second, i, v);
      store8(a.master, i, w);
      store8(a.weights, i, w);
    } else {
      const uint64_t at = key + 2 * static_cast<uint64_t>(a.place / 8 + i) * 0x9E3779B97F4A7C15u;
      const Random for_weight{{mixed(at), mixed(at + 0x9E3779B97F4A7C15u)}}, for_first = next(for_weight);
      store_at_random(a.weights, i, w, for_weight);
      store_at_random(first, i, m, for_first);
      store_at_random(second, i, v, next(for_first));
    }
  }
}

}  // namespace

namespace {
unsigned blocks_for(int64_t vectors) {
  return static_cast<unsigned>(
      std::min<int64_t>({ceil_div<int64_t>(vectors, kThreads), int64_t{multiprocessors()} * 4, kAdamwPartials}));
}
}  // namespace

int adamw_squares(float* partials, const void* gradients, int64_t count, int fp32, Stream stream) {
  TF_REQUIRE(count > 0 && count % 8 == 0, "adamw_squares: %ld elements (a multiple of 8)", static_cast<long>(count));
  const int64_t vectors = count / 8;
  return fp32 != 0 ? launch("adamw_squares", squares_kernel<float>, dim3(blocks_for(vectors)), kThreads, 0, stream,
                            partials, static_cast<const float*>(gradients), vectors)
                   : launch("adamw_squares", squares_kernel<Bf16>, dim3(blocks_for(vectors)), kThreads, 0, stream,
                            partials, static_cast<const Bf16*>(gradients), vectors);
}
int adamw_total(float* total, const float* partials, int64_t count, Stream stream) {
  return launch("adamw_total", total_kernel, dim3(1), kThreads, 0, stream, total, partials, count);
}
int adamw_decide(const AdamwArgs* a, Stream stream) {
  return launch("adamw_decide", decide_kernel, dim3(1), 1, 0, stream, *a);
}
int adamw(const AdamwArgs* a, Stream stream) {
  TF_REQUIRE(a->count > 0 && a->count % 8 == 0 && a->place % 8 == 0 && a->tensors > 0,
             "adamw: %ld elements from %ld on (multiples of 8) of %ld tensors", static_cast<long>(a->count),
             static_cast<long>(a->place), static_cast<long>(a->tensors));
  return launch("adamw", a->fp32 ? update_kernel<float> : update_kernel<Bf16>, dim3(blocks_for(a->count / 8)), kThreads,
                0, stream, *a);
}

}  // namespace tritonforge::gpu
