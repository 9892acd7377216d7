#pragma once
// Matrix products on Hopper by an own kernel (gemm_hopper.cu): which tiles it may be cut into, and its launch.
#include "kernels/gpu/internal.h"

namespace tritonforge::gpu {

// groups * 64 rows of W by `tokens` rows of x; `split` blocks share k.
struct HopperTile {
  int groups, tokens, split;
  bool operator==(const HopperTile&) const = default;
};
constexpr int kMostHopperTiles = 16;

struct HopperGemm {  // what the kernel is told
  Bf16* y;
  float* y32 = nullptr;  // instead, where the sums are not rounded
  const Bf16* bias;
  const float* scales;  // of W's rows, where it is FP8
  int64_t m, n, k;
  int split = 1, row_tiles = 0, token_tiles = 0, tiles = 0, workers = 0;
  bool accumulate = false;
};

bool gemm_hopper_can(const GemmArgs&);
// Those that are worth timing for this shape, at most kMostHopperTiles; how many. Of a batch-invariant product those
// that have k in one part: all of them give the same bits.
int gemm_hopper_tiles(const GemmArgs&, HopperTile* out);
int gemm_hopper(const GemmArgs&, const HopperTile&, Stream);

}  // namespace tritonforge::gpu
