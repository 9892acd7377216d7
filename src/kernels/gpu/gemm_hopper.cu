// Matrix products on Hopper (wgmma and the copy engine) that cuBLASLt does not do as fast: of few tokens, where all is
// bound by reading W, and of many with SwiGLU behind them.
//
// W's rows are the rows of the tensor cores' tiles and the tokens (rows of x) their columns, so that a tile is 64,
// 128 or 192 rows of W whatever the number of tokens. One warp fetches tiles of W and x, a warpgroup computes 64 rows
// of W. W is fetched before the kernel in front has ended. Two ways to memory:
//  - merge: each block of a cluster has a part of k; the parts meet in shared memory and are added in their order.
//  - store: a block computes tile after tile, and the copy engine writes what is done, or adds it to what is there: the
//    rounded product, in bf16, so the same bits as by a kernel of its own. Sums in fp32 go from registers, 32 bytes of
//    a token at a time. With many tokens, or tiles of 64 rows, two blocks compute neighbouring tiles of W's rows, and
//    each fetches half of the tokens for both.
//
// SwiGLU: the copy engine fetches eight rows of the gate's half, eight of the other, and so on, so that a thread holds
// both numbers of a pair.
#include <algorithm>

#include "kernels/gpu/gemm_hopper.cuh"

namespace tritonforge::gpu {
namespace {

#if TF_HOPPER
__device__ inline float4 of_block(uint32_t address, int rank) {
  uint32_t there;
  float4 value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(there)
               : "memory");
  return value;
}
// Four 8x8 matrices, transposed; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void store_matrices_transposed(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
__device__ inline float bias_of(const Bf16* bias, int64_t row, int64_t n) {
  return bias != nullptr && row < n ? low(bias[row]) : 0.0f;
}

// A warpgroup's tile to memory as it is. Eight lanes hold neighbours of a token.
template <typename T, int kCount>
__device__ void store_sums(const float (&c)[kCount], const HopperGemm& a, Place place, int group) {
  const int warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  const int64_t row = int64_t{place.rows} * T::kRows + group * 64 + warp * 16 + lane / 4,
                token = int64_t{place.tokens} * kCount * 2 + lane % 4 * 2;
  const float upper = bias_of(a.bias, row, a.n), lower = bias_of(a.bias, row + 8, a.n);
#pragma unroll
  for (int n = 0; n < kCount / 4; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t at = token + n * 8 + i;
      if (at >= a.m) continue;
      if (row < a.n) a.y32[at * a.n + row] = c[4 * n + i] + upper;
      if (row + 8 < a.n) a.y32[at * a.n + row + 8] = c[4 * n + 2 + i] + lower;
    }
  }
}

// A warpgroup's tile to memory: 64 tokens at a time, by the copy engine.
template <typename T, bool kSwiglu, int kCount>
__device__ void store(const float (&c)[kCount], const HopperGemm& a, const Maps& maps, uint32_t shared, Place place,
                      int group, int& stored) {
  const int warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp;
  const bool first = threadIdx.x % kWarpgroup == 0;
  const int64_t row = int64_t{place.rows} * T::kRows + group * 64 + warp * 16 + lane / 4;
  const float upper = bias_of(a.bias, row, a.n), lower = bias_of(a.bias, row + 8, a.n);
#pragma unroll
  for (int chunk = 0; chunk < kCount / 32; ++chunk) {
    const uint32_t to = shared + (group * 2 + stored++ % 2) * T::kOutBytes;
    if (first) stores_wait<1>();  // the last but one has left its place
    warpgroup_sync(1 + group);
    if constexpr (kSwiglu) {
#pragma unroll
      for (int n = 0; n < 8; n += 4) {  // eight tokens each
        uint32_t out[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* pair = c + chunk * 32 + (n + i) * 4;
          out[i] = pack(swiglu_of(rounded(pair[0]), rounded(pair[2])), swiglu_of(rounded(pair[1]), rounded(pair[3])));
        }
        const int token = n * 8 + lane;
        store_matrices_transposed(to + token * 64 + (warp ^ (token / 2 & 3)) * 16, out[0], out[1], out[2], out[3]);
      }
    } else {
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        const float* s = c + chunk * 32 + n * 4;
        const int token = n * 8 + lane / 16 * 8 + lane % 8, part = warp * 2 + lane / 8 % 2;
        store_matrices_transposed(to + token * 128 + (part ^ (token & 7)) * 16, pack(s[0] + upper, s[1] + upper),
                                  pack(s[2] + lower, s[3] + lower), pack(s[4] + upper, s[5] + upper),
                                  pack(s[6] + lower, s[7] + lower));
      }
    }
    fence_async_proxy();
    warpgroup_sync(1 + group);
    if (first) {
      const int x = (place.rows * T::kRows + group * 64) / (kSwiglu ? 2 : 1),
                y = place.tokens * kCount * 2 + chunk * 64;
      if (a.accumulate) tensor_add(&maps.y, to, x, y);
      else tensor_store(&maps.y, to, x, y);
    }
  }
}

// The sums of the cluster's blocks become one: each block writes its own to shared memory, then adds a share of all.
template <typename T, bool kSwiglu, int kCount>
__device__ void merge(const float (&c)[kCount], const HopperGemm& a, uint8_t* ring, Place place, int group, int rank,
                      int split) {
  const int warp = threadIdx.x % kWarpgroup / kWarp, lane = threadIdx.x % kWarp, thread = threadIdx.x - kWarpgroup;
  const int tokens = static_cast<int>(min(int64_t{kCount} * 2, a.m - int64_t{place.tokens} * kCount * 2));
  asm volatile("bar.sync 1, %0;" ::"n"(T::kThreads - kWarpgroup) : "memory");  // all have read what was fetched
  auto* sums = reinterpret_cast<float*>(ring);
  const int row = group * 64 + warp * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < kCount / 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = n * 8 + lane % 4 * 2 + i % 2;
      if (token < tokens) sums[token * T::kStride + row + i / 2 * 8] = c[4 * n + i];
    }
  }
  cluster_sync();
  // Four neighbours of a token's results at a time.
  constexpr int kQuads = T::kRows / (kSwiglu ? 8 : 4);
  const int64_t width = kSwiglu ? a.n / 2 : a.n;
  const auto sum_of = [&](int token, int at) {
    const uint32_t address = shared_address(sums + token * T::kStride + at);
    float4 sum = of_block(address, 0);
    for (int other = 1; other < split; ++other) {
      const float4 next = of_block(address, other);
      sum.x += next.x;
      sum.y += next.y;
      sum.z += next.z;
      sum.w += next.w;
    }
    return sum;
  };
  const int quads = tokens * kQuads;
  for (int at = quads * rank / split + thread; at < quads * (rank + 1) / split; at += T::kThreads - kWarpgroup) {
    const int token = at / kQuads, quad = at % kQuads * 4;
    const int64_t column = int64_t{place.rows} * (kQuads * 4) + quad;
    const int64_t to = (int64_t{place.tokens} * kCount * 2 + token) * width + column;
    uint2 out;
    if constexpr (kSwiglu) {
      const int gate_row = quad / 8 * 16 + quad % 8;
      const float4 gate = sum_of(token, gate_row), up = sum_of(token, gate_row + 8);
      out.x = pack(swiglu_of(rounded(gate.x), rounded(up.x)), swiglu_of(rounded(gate.y), rounded(up.y)));
      out.y = pack(swiglu_of(rounded(gate.z), rounded(up.z)), swiglu_of(rounded(gate.w), rounded(up.w)));
    } else {
      const float4 sum = sum_of(token, quad);
      if (a.y32 != nullptr) {
        const auto with_bias = [&](float value, int i) { return value + bias_of(a.bias, column + i, a.n); };
        if (column < width)
          *reinterpret_cast<float4*>(a.y32 + to) = make_float4(with_bias(sum.x, 0), with_bias(sum.y, 1),
                                                               with_bias(sum.z, 2), with_bias(sum.w, 3));
        continue;
      }
      out.x = pack(sum.x + bias_of(a.bias, column, a.n), sum.y + bias_of(a.bias, column + 1, a.n));
      out.y = pack(sum.z + bias_of(a.bias, column + 2, a.n), sum.w + bias_of(a.bias, column + 3, a.n));
    }
    if (column < width) *reinterpret_cast<uint2*>(a.y + to) = out;
  }
  cluster_sync();  // nobody ends while another reads its shared memory
}
#endif

// Grid: workers clusters of split blocks, or of a pair. kMerge: one tile a cluster.
template <int kGroups, int kTokens, bool kSwiglu, bool kMerge, bool kFp8>
__global__ void __launch_bounds__((kGroups + 1) * kWarpgroup, 1)
    gemm_hopper_kernel(const __grid_constant__ HopperGemm a, const __grid_constant__ Maps maps) {
#if TF_HOPPER
  using T = Tile<kGroups, kTokens, kSwiglu, kMerge, kFp8>;
  extern __shared__ uint8_t shared_bytes[];
  const uint32_t shared = (shared_address(shared_bytes) + kAlignment - 1) / kAlignment * kAlignment;
  const Ring ring{shared + T::kRingAt, shared + T::kBarriersAt, T::kStages, T::kStageBytes};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      barrier_init(ring.full(stage), 1);
      barrier_init(ring.empty(stage), kGroups * (T::kPair ? 8 : 4));
    }
    barrier_init_done();
  }
  allow_next();
  if constexpr (T::kPair) cluster_sync();  // the other's barriers are there
  else __syncthreads();
  const int split = a.split, cluster = T::kPair ? 2 : split, rank = static_cast<int>(blockIdx.x) % cluster,
            first = static_cast<int>(blockIdx.x) / cluster;
  const int steps = static_cast<int>((a.k + kDepth - 1) / kDepth), part = T::kPair ? 0 : rank,
            begin = steps * part / split, end = steps * (part + 1) / split;
  if (threadIdx.x < kWarpgroup) {
    if constexpr (kTokens > 128) registers_down<40>();  // all together no more than at the start, 168 a thread
    if (threadIdx.x == 0) fetch_tiles<T, kSwiglu>(a, maps, ring, first, rank, begin, end);
    __syncwarp();
    if constexpr (kMerge) {
      cluster_sync();
      cluster_sync();
    }
  } else {
    if constexpr (kTokens > 128) registers_up<232>();
    const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
    float c[kTokens / 2];
    Turn turn;
    const auto multiply_at = [&](Place place) {
      if constexpr (kFp8) {
        multiply_fp8<T>(c, ring, turn, group, end - begin);
        scale_rows<kSwiglu>(c, a, int64_t{place.rows} * T::kRows + group * 64);
      } else {
        multiply<T>(c, ring, turn, group, end - begin);
      }
    };
    if constexpr (kMerge) {
      const Place place = place_of<T>(first, a, rank);
      multiply_at(place);
      merge<T, kSwiglu>(c, a, shared_bytes + (ring.at - shared_address(shared_bytes)), place, group, rank, split);
    } else {
      int stored = 0;
      for (int tile = first; tile < a.tiles; tile += a.workers) {
        const Place place = place_of<T>(tile, a, rank);
        multiply_at(place);
        if (!kSwiglu && a.y32 != nullptr) store_sums<T>(c, a, place, group);
        else store<T, kSwiglu>(c, a, maps, shared, place, group, stored);
      }
      if (threadIdx.x % kWarpgroup == 0) stores_wait<0>();
    }
  }
  if constexpr (T::kPair) cluster_sync();  // nobody ends while the other fetches for it
#endif
}

template <int kGroups, int kTokens, bool kSwiglu, bool kMerge, bool kFp8>
int run(const GemmArgs& g, int split, Stream stream) {
  using T = Tile<kGroups, kTokens, kSwiglu, kMerge, kFp8>;
  const auto kernel = gemm_hopper_kernel<kGroups, kTokens, kSwiglu, kMerge, kFp8>;
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kBytes),
                              "gemm_hopper: shared memory"))
    return error;
  TF_REQUIRE(split <= ceil_div<int64_t>(g.k, kDepth), "gemm_hopper: k %ld for %d blocks", static_cast<long>(g.k),
             split);
  HopperGemm a{.y = static_cast<Bf16*>(g.y),
               .y32 = g.fp32_out ? static_cast<float*>(g.y) : nullptr,
               .bias = g.bias,
               .scales = g.fp8.scales,
               .m = g.m,
               .n = g.n,
               .k = g.k,
               .split = split};
  constexpr int kTogether = T::kPair ? 2 : 1;  // tiles of rows
  a.accumulate = g.accumulate;
  a.row_tiles = static_cast<int>(ceil_div<int64_t>(g.n, T::kRows * kTogether));
  a.token_tiles = static_cast<int>(ceil_div<int64_t>(g.m, kTokens));
  a.tiles = a.row_tiles * a.token_tiles;
  a.workers = kMerge ? a.tiles : std::min(a.tiles, multiprocessors() / kTogether);
  Maps maps;
  const auto k = static_cast<uint64_t>(g.k), n = static_cast<uint64_t>(g.n), m = static_cast<uint64_t>(g.m);
  const uint64_t width = kSwiglu ? n / 2 : n;
  const auto map_w = kFp8 ? byte_map : tensor_map;
  const void* w = kFp8 ? static_cast<const void*>(g.fp8.values) : g.w;
  int error = kSwiglu
                  ? map_w(&maps.w, w, {{k, 0}, {8, k}, {2, n / 2 * k}, {n / 16, 8 * k}}, {kDepth, 8, 2, T::kRows / 16})
                  : map_w(&maps.w, w, {k, n}, {kDepth, T::kRows});
  if (error == 0) error = tensor_map(&maps.x, g.x, {k, m}, {kDepth, kTokens / kTogether});
  if (error == 0 && !kMerge && !g.fp32_out)
    error = tensor_map(&maps.y, g.y, {width, m}, {static_cast<uint32_t>(T::kOutRowBytes) / 2, 64});
  if (error != 0) return error;
  const int cluster = split * kTogether;
  const dim3 grid(static_cast<unsigned>(a.workers * cluster));
  return launch_clusters("gemm_hopper", kernel, grid, cluster > 1 ? cluster : 0, T::kThreads, T::kBytes, stream, a,
                         maps);
}

template <int kGroups, int kTokens, bool kSwiglu, bool kFp8>
int run(const GemmArgs& g, int split, Stream stream) {
  if constexpr (kTokens <= 128) {
    if (split > 1 || kTokens < 64) return run<kGroups, kTokens, kSwiglu, true, kFp8>(g, split, stream);
  }
  if constexpr (kTokens >= 64) {
    if (split == 1) return run<kGroups, kTokens, kSwiglu, false, kFp8>(g, split, stream);
  }
  return set_error(kBadArgument, "gemm_hopper: %d tokens cannot be split", kTokens);
}

template <int kGroups, bool kSwiglu, bool kFp8>
int run(const GemmArgs& g, const HopperTile& tile, Stream stream) {
  switch (tile.tokens) {
    case 8: return run<kGroups, 8, kSwiglu, kFp8>(g, tile.split, stream);
    case 16: return run<kGroups, 16, kSwiglu, kFp8>(g, tile.split, stream);
    case 32: return run<kGroups, 32, kSwiglu, kFp8>(g, tile.split, stream);
    case 64: return run<kGroups, 64, kSwiglu, kFp8>(g, tile.split, stream);
    case 128:  // of 64 rows of W it is mostly tokens that are fetched
      if constexpr (kGroups > 1) return run<kGroups, 128, kSwiglu, kFp8>(g, tile.split, stream);
      break;
    case 256:  // elsewhere too few registers
      if constexpr (kGroups == 2 && !kFp8) return run<kGroups, 256, kSwiglu, kFp8>(g, tile.split, stream);
      break;
    default: break;
  }
  return set_error(kBadArgument, "gemm_hopper: a tile of %d x %d", kGroups * 64, tile.tokens);
}

template <bool kSwiglu, bool kFp8>
int run(const GemmArgs& a, const HopperTile& tile, Stream stream) {
  if (tile.groups == 1) return run<1, kSwiglu, kFp8>(a, tile, stream);
  return tile.groups == 2 ? run<2, kSwiglu, kFp8>(a, tile, stream) : run<3, kSwiglu, kFp8>(a, tile, stream);
}

}  // namespace

bool gemm_hopper_can(const GemmArgs& a) {
  return compute_major() == 9 && !(a.fp32_out && a.accumulate) && !(a.accumulate && a.swiglu_scratch) && a.m > 0 &&
         a.n % (a.swiglu_scratch ? 16 : 8) == 0 &&
         (a.swiglu_scratch == nullptr || (a.bias == nullptr && !a.fp32_out)) &&
         (a.fp8.values == nullptr || a.k % kDepth == 0);
}

int gemm_hopper_tiles(const GemmArgs& a, HopperTile* out) {
  int count = 0;
  const int most = multiprocessors(), steps = static_cast<int>(ceil_div<int64_t>(a.k, kDepth));
  for (const int tokens : {8, 16, 32, 64, 128, 256}) {
    // The smallest that holds all tokens; for many, the two largest.
    const bool holds = tokens >= a.m && (tokens == 8 || tokens / 2 < a.m);
    if ((!holds && !(a.m > 128 && tokens >= 128)) || (tokens > 128 && a.fp8.values != nullptr)) continue;
    for (const int groups : {1, 2, 3}) {
      if ((groups == 3 && tokens == 256) || (groups == 1 && tokens > 64)) continue;
      const int64_t tiles = ceil_div<int64_t>(a.n, groups * 64) * ceil_div<int64_t>(a.m, tokens);
      for (const int split : {1, 2, 4, 8}) {
        if (split > 1 && (a.batch_invariant || tokens > 128 || tiles * split > 3 * most || steps / split < 4)) continue;
        if (a.accumulate && (split > 1 || tokens < 64)) continue;  // what is stored is added, what is merged is not
        if (!a.accumulate && !a.batch_invariant && tiles * split * 2 < most && split < 8 && tokens <= 128 &&
            steps / (2 * split) >= 4)
          continue;  // half idle
        if (count < kMostHopperTiles) out[count++] = {groups, tokens, split};
      }
    }
  }
  return count;
}

int gemm_hopper(const GemmArgs& a, const HopperTile& tile, Stream stream) {
  TF_REQUIRE(tile.groups >= 1 && tile.groups <= 3 && tile.split >= 1 && tile.split <= 8,
             "gemm_hopper: tiles of %d warpgroups, %d blocks", tile.groups, tile.split);
  TF_REQUIRE(!a.accumulate || (tile.split == 1 && tile.tokens >= 64), "gemm_hopper: parts of k are not accumulated");
  const bool fp8 = a.fp8.values != nullptr;
  if (a.swiglu_scratch != nullptr) return fp8 ? run<true, true>(a, tile, stream) : run<true, false>(a, tile, stream);
  return fp8 ? run<false, true>(a, tile, stream) : run<false, false>(a, tile, stream);
}

}  // namespace tritonforge::gpu
