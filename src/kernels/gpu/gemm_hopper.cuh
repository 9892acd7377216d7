#pragma once
// How gemm_hopper.cu fetches tiles of W and x, and multiplies them.
//
// W in FP8 (in lane order, kernels/fp8_matrix.h): half the bytes are fetched; a thread reads the 16 of each of its two
// rows that are its part of four products, widens them in registers, from which the tensor cores take them, and
// multiplies the rows' scales, powers of two, into its sums: the bits of the same numbers in bfloat16.
#include "kernels/gpu/gemm_hopper.h"
#include "kernels/gpu/products.cuh"
#include "kernels/gpu/tensor_map.h"

namespace tritonforge::gpu {

constexpr int kDepth = 64;  // of k, fetched at once: rows of 128 bytes
constexpr int kRowBytes = 2 * kDepth;
constexpr int kSharedBytes = 227 * 1024, kAlignment = 1024, kMostStages = 24;
constexpr int kBand = 8;  // tiles of tokens that are computed beside each other, to share W in the L2 cache

struct Maps {
  TensorMap w, x, y;
};

template <int kGroups, int kTokens, bool kSwiglu, bool kMerge, bool kIsFp8>
struct Tile {
  static constexpr bool kFp8 = kIsFp8;
  static constexpr bool kPair = !kMerge && (kTokens >= 128 || kGroups == 1);
  static constexpr int kRows = kGroups * 64, kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr int kWeightBytes = kRows * kDepth * (kFp8 ? 1 : 2), kStageBytes = kWeightBytes + kTokens * kRowBytes;
  // Store: 64 tokens of a warpgroup's 64 rows (32 with SwiGLU), twice.
  static constexpr int kOutRowBytes = kSwiglu ? 64 : 128, kOutBytes = kMerge ? 0 : 64 * kOutRowBytes;
  static constexpr int kRingAt = kGroups * 2 * kOutBytes;
  static constexpr int kFit = (kSharedBytes - kAlignment - kRingAt - 2 * kMostStages * 8) / kStageBytes;
  static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;
  static constexpr int kBarriersAt = kRingAt + kStages * kStageBytes, kBytes = kBarriersAt + kStages * 16 + kAlignment;
  // Merge: sums [token][row] in the ring's place, rows apart so that no two lanes meet in a bank.
  static constexpr int kStride = kRows + 4;
  static_assert(!kMerge || kTokens * kStride * 4 <= kStages * kStageBytes);
};

#if TF_HOPPER
// Which tile of W's rows and which of tokens. Tiles that run at once share both.
struct Place {
  int rows, tokens;
};
template <typename T>
__device__ inline Place place_of(int tile, const HopperGemm& a, int rank) {
  const int band = tile / (a.row_tiles * kBand), first = band * kBand, width = min(kBand, a.token_tiles - first),
            at = tile - band * a.row_tiles * kBand, rows = at / width;
  return {T::kPair ? 2 * rows + rank : rows, first + at % width};
}

struct Ring {
  uint32_t at, barriers;
  int stages, stage_bytes;
  __device__ uint32_t full(int stage) const { return barriers + stage * 8; }
  __device__ uint32_t empty(int stage) const { return barriers + (stages + stage) * 8; }
  __device__ uint32_t stage(int n) const { return at + n * stage_bytes; }
};
struct Turn {  // of the ring
  int stage = 0, parity = 0;
  __device__ void next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// One thread: every tile's parts of W and x, those of W that fit before the kernel in front has ended.
template <typename T, bool kSwiglu>
__device__ void fetch_tiles(const HopperGemm& a, const Maps& maps, const Ring& ring, int first, int rank, int begin,
                            int end) {
  Turn turn, ahead;
  const auto fetch_w = [&](int rows, int step) {
    barrier_wait(ring.empty(ahead.stage), ahead.parity ^ 1);
    barrier_expect(ring.full(ahead.stage), T::kStageBytes);
    if constexpr (kSwiglu)
      tensor_load(ring.stage(ahead.stage), &maps.w, ring.full(ahead.stage), step * kDepth, 0, 0,
                  rows * (T::kRows / 16));
    else tensor_load(ring.stage(ahead.stage), &maps.w, ring.full(ahead.stage), step * kDepth, rows * T::kRows);
    ahead.next(T::kStages);
  };
  const auto fetch_x = [&](int tokens, int step) {
    constexpr int kTokens = (T::kStageBytes - T::kWeightBytes) / kRowBytes;
    const uint32_t to = ring.stage(turn.stage) + T::kWeightBytes;
    if constexpr (T::kPair)
      tensor_load_to_both(to + rank * kTokens / 2 * kRowBytes, &maps.x, ring.full(turn.stage), step * kDepth,
                          tokens * kTokens + rank * kTokens / 2);
    else tensor_load(to, &maps.x, ring.full(turn.stage), step * kDepth, tokens * kTokens);
    turn.next(T::kStages);
  };
  int early = 0;
  if (first < a.tiles) {
    const Place place = place_of<T>(first, a, rank);
    for (; early < min(T::kStages, end - begin); ++early) fetch_w(place.rows, begin + early);
  }
  wait_for_previous();
  for (int tile = first; tile < a.tiles; tile += a.workers) {
    const Place place = place_of<T>(tile, a, rank);
    for (int step = begin; step < end; ++step) {
      if (early > 0) --early;
      else fetch_w(place.rows, step);
      fetch_x(place.tokens, step);
    }
  }
}

template <typename T>
__device__ inline void release(const Ring& ring, int stage) {
  const int lane = threadIdx.x % kWarp;
  if constexpr (T::kPair) {
    if (lane < 2) barrier_arrive_at(ring.empty(stage), lane);
  } else if (lane == 0) {
    barrier_arrive(ring.empty(stage));
  }
}

// One warpgroup's sums of a tile: c [64 rows of W, kTokens].
template <typename T, int kCount>
__device__ void multiply(float (&c)[kCount], const Ring& ring, Turn& turn, int group, int steps) {
  Turn last;
  for (int step = 0; step < steps; ++step) {
    barrier_wait(ring.full(turn.stage), turn.parity);
    const uint32_t w = ring.stage(turn.stage) + group * 64 * kRowBytes, x = ring.stage(turn.stage) + T::kWeightBytes;
    hold(c);
    products_begin();
#pragma unroll
    for (int part = 0; part < kDepth / 16; ++part)
      product(c, operand(w + part * 32), operand(x + part * 32), step > 0 || part > 0);
    products_commit();
    if (step > 0) {
      products_wait<1>();
      release<T>(ring, last.stage);
    }
    last = turn;
    turn.next(T::kStages);
  }
  products_wait<0>();
  hold(c);
  release<T>(ring, last.stage);
}

__device__ inline void load_shared(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// A thread's part of 64 rows of W in FP8 at `w`, widened: two rows, four steps of 16.
__device__ inline void widen_rows(uint32_t (&a)[kDepth / 16][4], uint32_t w) {
  const int warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t row = w + (warp * 16 + lane / 4) * kDepth + lane % 4 * 16;
  uint32_t upper[4], lower[4];
  load_shared(upper, row);
  load_shared(lower, row + 8 * kDepth);
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    a[part][0] = even_bytes(upper[part]);
    a[part][1] = even_bytes(lower[part]);
    a[part][2] = odd_bytes(upper[part]);
    a[part][3] = odd_bytes(lower[part]);
  }
}

// The same of W in FP8. A warpgroup widens while others' products run.
template <typename T, int kCount>
__device__ void multiply_fp8(float (&c)[kCount], const Ring& ring, Turn& turn, int group, int steps) {
  for (int step = 0; step < steps; ++step) {
    barrier_wait(ring.full(turn.stage), turn.parity);
    const uint32_t w = ring.stage(turn.stage) + group * 64 * kDepth, x = ring.stage(turn.stage) + T::kWeightBytes;
    uint32_t a[kDepth / 16][4];
    widen_rows(a, w);
    hold(a);
    hold(c);
    products_begin();
#pragma unroll
    for (int part = 0; part < kDepth / 16; ++part) product(c, a[part], operand(x + part * 32), step > 0 || part > 0);
    products_commit();
    products_wait<0>();
    hold(a);
    hold(c);
    release<T>(ring, turn.stage);
    turn.next(T::kStages);
  }
}

// Times the rows' scales. first: the warpgroup's, of the tiles' rows.
template <bool kSwiglu, int kCount>
__device__ void scale_rows(float (&c)[kCount], const HopperGemm& a, int64_t first) {
  const int warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  first += warp * 16;
  const int64_t row = (kSwiglu ? first / 2 : first) + lane / 4, other = kSwiglu ? a.n / 2 + row : row + 8;
  const float upper = row < (kSwiglu ? a.n / 2 : a.n) ? a.scales[row] : 0, lower = other < a.n ? a.scales[other] : 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) c[i] *= i % 4 < 2 ? upper : lower;
}

#endif

}  // namespace tritonforge::gpu
