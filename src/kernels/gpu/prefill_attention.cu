// Attention of several new tokens a sequence over the paged cache, causal, for sequences of different lengths in one
// launch: FlashAttention-2's scheme (Dao 2023) with keys and values read through the block table. On Hopper
// prefill_attention_hopper.cu computes it.
//
// A block computes kRows rows of (token, head of the group) pairs: all query heads that share a kv head stand in one
// tile, so keys are read once for the group and a short chunk still fills the tile. Four warps of 32 rows: every
// fragment of keys and values loaded from shared memory serves two row tiles, which is what mma.sync is short of.
// The longest rows start first: blocks are dealt from the end of each sequence.
#include <cfloat>

#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kRowTiles = 2;                    // of 16 rows, a warp
constexpr int kRows = kWarps * kRowTiles * 16;  // 128
constexpr int kKeys = 64;                       // of a tile: four pages
constexpr int kStages = 2;

template <int kHeadDim>
constexpr int kSharedBytes = (kRows + kStages * 2 * kKeys) * kHeadDim * 2;

// Keys [tile * kKeys, ...) of the sequence into shared memory; zeros from `length` on.
template <int kHeadDim>
__device__ void fetch_tile(uint32_t keys, const PrefillAttentionArgs& a, const int32_t* table, int head, int tile,
                           int length) {
  constexpr int kChunks = kHeadDim / 8, kTileBytes = kKeys * kHeadDim * 2, kRowsAtOnce = kThreads / kChunks;
  const int chunk = threadIdx.x % kChunks;
#pragma unroll
  for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
    const int row = i * kRowsAtOnce + threadIdx.x / kChunks, token = tile * kKeys + row;
    const bool valid = token < length;
    const int64_t block = valid ? table[token / kPage] : 0;
    const int64_t from = ((block * a.kv_heads + head) * kPage + row % kPage) * kHeadDim + chunk * 8;
    const uint32_t to = keys + swizzled<kChunks>(row, chunk);
    copy_async(to, static_cast<const Bf16*>(a.cache.keys) + from, valid ? 16 : 0);
    copy_async(to + kTileBytes, static_cast<const Bf16*>(a.cache.values) + from, valid ? 16 : 0);
  }
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    prefill_attention_kernel(const __grid_constant__ PrefillAttentionArgs a, float scale) {
  constexpr int kChunks = kHeadDim / 8, kSteps = kHeadDim / 16, kTileBytes = kKeys * kHeadDim * 2,
                kQueryBytes = kRows * kHeadDim * 2;
  extern __shared__ __align__(128) uint8_t shared[];
  allow_next();
  wait_for_previous();
  const int sequence = blockIdx.z, head = blockIdx.y, group = static_cast<int>(a.heads / a.kv_heads);
  const int start = a.query_starts[sequence], count = a.query_starts[sequence + 1] - start;
  const int tiles = ceil_div(count * group, kRows);
  if (static_cast<int>(blockIdx.x) >= tiles) return;
  const int first_row = (tiles - 1 - static_cast<int>(blockIdx.x)) * kRows,
            rows = min(count * group - first_row, kRows);
  const int length = a.lengths[sequence], before = length - count;  // keys before the first new token
  const int32_t* table = a.block_tables + int64_t{sequence} * a.table_width;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t queries = shared_address(shared), ring = queries + kQueryBytes;
  const auto offset = [&](int row) {  // of a row of this block in q and out
    return (int64_t{start + (first_row + row) / group} * a.heads + head * group + (first_row + row) % group) * kHeadDim;
  };

  // Queries and the first tile of keys and values.
#pragma unroll
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int row = (i * kThreads + static_cast<int>(threadIdx.x)) / kChunks, chunk = threadIdx.x % kChunks;
    copy_async(queries + swizzled<kChunks>(row, chunk), a.q + offset(min(row, rows - 1)) + chunk * 8);
  }
  const int keys_needed = before + (first_row + rows - 1) / group + 1, key_tiles = ceil_div(keys_needed, kKeys);
  fetch_tile<kHeadDim>(ring, a, table, head, 0, keys_needed);
  copy_commit();

  float o[kRowTiles][2 * kSteps][4] = {};
  float maximum[kRowTiles][2], sum[kRowTiles][2] = {};
  int last_key[kRowTiles][2];  // that a row of this thread attends to
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[r][half] = -FLT_MAX;
      last_key[r][half] = before + (first_row + warp * kRowTiles * 16 + r * 16 + half * 8 + lane / 4) / group;
    }
  }
  const int warp_row = warp * kRowTiles * 16, first_last_key = before + (first_row + warp_row) / group;

  for (int tile = 0; tile < key_tiles; ++tile) {
    const uint32_t keys = ring + tile % kStages * 2 * kTileBytes, values = keys + kTileBytes;
    if (tile + 1 < key_tiles)
      fetch_tile<kHeadDim>(ring + (tile + 1) % kStages * 2 * kTileBytes, a, table, head, tile + 1, keys_needed);
    copy_commit();
    copy_wait<1>();
    __syncthreads();

    // S = Q K^T.
    float s[kRowTiles][kKeys / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t q[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        load_matrices(q[r], queries + swizzled<kChunks>(warp_row + r * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t k[4];
        load_matrices(k, keys + swizzled<kChunks>(n * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mma(s[r][2 * n], q[r], k[0], k[1]);
          mma(s[r][2 * n + 1], q[r], k[2], k[3]);
        }
      }
    }

    // Running softmax of each row; masks only where the tile reaches beyond the warp's first row.
    const bool masked = (tile + 1) * kKeys > first_last_key + 1;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = maximum[r][half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& x = s[r][n][2 * half + j];
            x = masked && tile * kKeys + n * 8 + lane % 4 * 2 + j > last_key[r][half] ? -FLT_MAX : x * scale;
            top = fmaxf(top, x);
          }
        }
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
        const float factor = exp2f(maximum[r][half] - top);
        maximum[r][half] = top;
        float total = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& x = s[r][n][2 * half + j];
            x = exp2f(x - top);  // masked: 0, as every row has its own first key in an earlier or in this tile
            total += x;
          }
        }
        sum[r][half] = sum[r][half] * factor + total;
#pragma unroll
        for (int n = 0; n < 2 * kSteps; ++n) {
          o[r][n][2 * half] *= factor;
          o[r][n][2 * half + 1] *= factor;
        }
      }
    }

    // O += P V.
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t p[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        p[r][0] = pack(s[r][2 * n][0], s[r][2 * n][1]);
        p[r][1] = pack(s[r][2 * n][2], s[r][2 * n][3]);
        p[r][2] = pack(s[r][2 * n + 1][0], s[r][2 * n + 1][1]);
        p[r][3] = pack(s[r][2 * n + 1][2], s[r][2 * n + 1][3]);
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t v[4];
        load_matrices_transposed(v, values + swizzled<kChunks>(n * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mma(o[r][2 * step], p[r], v[0], v[1]);
          mma(o[r][2 * step + 1], p[r], v[2], v[3]);
        }
      }
    }
    __syncthreads();  // the tile's place is free again
  }

  // Each row divided by its sum, straight to memory.
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[r][half];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const int row = warp_row + r * 16 + half * 8 + lane / 4;
      if (row >= rows) continue;
      const float factor = 1.0f / total;
      Bf16* out = a.out + offset(row) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 2 * kSteps; ++n) {
        *reinterpret_cast<uint32_t*>(out + n * 8) = pack(o[r][n][2 * half] * factor, o[r][n][2 * half + 1] * factor);
      }
    }
  }
}

template <int kHeadDim>
int run(const PrefillAttentionArgs& a, Stream stream) {
  const auto kernel = prefill_attention_kernel<kHeadDim>;
  if (const int error = check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes<kHeadDim>),
          "prefill_attention: shared memory"))
    return error;
  const int64_t tiles = ceil_div<int64_t>(a.longest_query * (a.heads / a.kv_heads), kRows);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.sequences));
  return launch("prefill_attention", kernel, grid, kThreads, kSharedBytes<kHeadDim>, stream, a,
                a.scale * 1.4426950408889634f);
}

}  // namespace

int prefill_attention(const PrefillAttentionArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "prefill_attention: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE(a->kv_heads > 0 && a->heads % a->kv_heads == 0, "prefill_attention: %ld heads over %ld kv heads",
             static_cast<long>(a->heads), static_cast<long>(a->kv_heads));
  TF_REQUIRE(a->cache.scales == nullptr, "prefill_attention: a bf16 cache, from widen_cache() where it is FP8");
  if (a->sequences == 0 || a->longest_query == 0) return 0;
  if (prefill_attention_hopper_can(*a)) return prefill_attention_hopper(*a, stream);
  TF_REQUIRE(a->statistics == nullptr && !a->full,
             "prefill_attention: statistics, and all keys for each query, are for Hopper and at most 128 heads a kv "
             "head");
  TF_REQUIRE(a->sequences <= 65535, "prefill_attention: %ld sequences (at most 65535)",
             static_cast<long>(a->sequences));
  return a->head_dim == 64 ? run<64>(*a, stream) : run<128>(*a, stream);
}

}  // namespace tritonforge::gpu
