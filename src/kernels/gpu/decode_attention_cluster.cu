// decode_attention() of a few sequences on Hopper, where latency is all: a cluster of blocks takes one kv head of one
// sequence, each block an equal share of its pages, and the shares are merged through the blocks' shared memory. No
// counters, no pieces in memory, one round trip for the length, one for the table, one for the pages.
#include <algorithm>

#include "kernels/gpu/attention_page.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kMostBlocks = 16, kLeastBlocks = 8;  // of a cluster; 16 are more than every device must allow

// A warp's ring: 16 KB of keys and values, in FP8 the scales besides.
template <typename Shape>
constexpr int kStages = 16 * 1024 / (2 * Shape::kPageBytes);
template <typename Shape>
constexpr int kRingBytes = kStages<Shape> * Shape::kBytes;

// What lies in shared memory behind the rings: o of the warps, later in the first one's place the block's own
// [kWarps, group, head_dim] fp32, maxima and sums of the warps [kWarps, 2, 16], of the block [2, 16].
template <typename Shape>
constexpr int kPiecesAt = kWarps * kRingBytes<Shape>;
template <typename Shape>
__host__ __device__ constexpr int stats_at(int group, int head_dim) {
  return kPiecesAt<Shape> + kWarps * group * head_dim * 4;
}
template <typename Shape>
__host__ __device__ constexpr int shared_bytes(int group, int head_dim) {
  return stats_at<Shape>(group, head_dim) + (kWarps + 1) * 2 * 16 * 4;
}

#if __CUDA_ARCH__ >= 900
// The float at `address` of this block's shared memory, in that of block `rank` of the cluster.
__device__ inline float of_block(uint32_t address, int rank) {
  uint32_t there;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  return value;
}
#endif

// Grid: (blocks of a cluster, kv heads, sequences).
template <int kHeadDim, int kTiles, bool kFp8>
__global__ void __launch_bounds__(kThreads, 2)
    decode_attention_cluster_kernel(const __grid_constant__ DecodeAttentionArgs a, float scale) {
#if __CUDA_ARCH__ >= 900
  using S = PageShape<kHeadDim, kFp8>;
  extern __shared__ __align__(128) uint8_t shared[];
  allow_next();
  const int sequence = blockIdx.z, head = blockIdx.y, me = blockIdx.x, blocks = gridDim.x,
            group = static_cast<int>(a.heads / a.kv_heads), warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int length = a.lengths[sequence], pages = ceil_div(length, kPage);
  const int begin = pages * me / blocks, end = pages * (me + 1) / blocks;
  const int32_t* table = a.block_tables + int64_t{sequence} * a.table_width;
  const uint32_t ring = shared_address(shared) + warp * kRingBytes<S>;

  // Each warp streams every fourth page of the share through its own ring.
  const auto fetch = [&](int page, int stage) {
    if (page < end) {
      fetch_page<S, kWarp>(ring + stage % kStages<S> * S::kBytes, a.cache, int64_t{table[page]} * a.kv_heads + head,
                           lane, length - page * kPage);
    }
    copy_commit();  // also where nothing was left to fetch: the ring counts groups
  };
#pragma unroll
  for (int stage = 0; stage < kStages<S>; ++stage) {
    const int page = begin + warp + stage * kWarps;
    if (page < end && !is_old_page(page, length)) wait_for_previous();
    fetch(page, stage);
  }
  wait_for_previous();
  const Bf16* queries = a.q + (int64_t{sequence} * a.heads + head * group) * kHeadDim;
  Running<kHeadDim, kTiles, kFp8> running;
  running.start([&](int column) { return column < group ? queries + column * kHeadDim : nullptr; });
  for (int page = begin + warp, stage = 0; page < end; page += kWarps, ++stage) {
    copy_wait<kStages<S> - 1>();
    __syncwarp();
    running.template pages<1>(ring + stage % kStages<S> * S::kBytes, length - page * kPage, scale);
    __syncwarp();
    fetch(page + kStages<S> * kWarps, stage);
  }

  // The warps' parts become the block's.
  auto* pieces = reinterpret_cast<float*>(shared + kPiecesAt<S>);
  auto* stats = reinterpret_cast<float*>(shared + stats_at<S>(group, kHeadDim));
  float* const own = stats + kWarps * 32;
  running.store([&](int column) -> PiecePlace {
    if (column >= group) return {nullptr, nullptr, nullptr};
    return {pieces + (warp * group + column) * kHeadDim, stats + warp * 32 + column, stats + warp * 32 + 16 + column};
  });
  __syncthreads();
  for (int at = threadIdx.x; at < group * kHeadDim; at += kThreads) {
    const int h = at / kHeadDim;
    float top = -FLT_MAX, sum = 0, o = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, stats[w * 32 + h]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2f(stats[w * 32 + h] - top);
      sum += weight * stats[w * 32 + 16 + h];
      o += weight * pieces[w * group * kHeadDim + at];
    }
    pieces[at] = o;
    if (at % kHeadDim == 0) {
      own[h] = top;
      own[16 + h] = sum;
    }
  }
  cluster_sync();

  // Each block merges its share of the elements over all blocks, in their order.
  const int elements = group * kHeadDim, from = elements * me / blocks, to = elements * (me + 1) / blocks;
  for (int at = from + static_cast<int>(threadIdx.x); at < to; at += kThreads) {
    const uint32_t maximum = shared_address(own + at / kHeadDim), piece = shared_address(pieces + at);
    float maxima[kMostBlocks], sums[kMostBlocks], o[kMostBlocks];
    float top = -FLT_MAX, total = 0, value = 0;
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      if (b >= blocks) break;
      maxima[b] = of_block(maximum, b);
      sums[b] = of_block(maximum + 64, b);
      o[b] = of_block(piece, b);
    }
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      if (b < blocks) top = fmaxf(top, maxima[b]);
    }
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      if (b >= blocks) break;
      const float weight = exp2f(maxima[b] - top);
      total += weight * sums[b];
      value += weight * o[b];
    }
    a.out[(int64_t{sequence} * a.heads + head * group) * kHeadDim + at] = __bfloat16_as_ushort(
        __float2bfloat16_rn(length > 0 ? value / total : 0.0f));
  }
  cluster_sync();  // nobody ends while another reads its shared memory
#endif
}

int blocks_for(const DecodeAttentionArgs& a) {
  int blocks = kMostBlocks;
  while (blocks >= kLeastBlocks && blocks * a.kv_heads * a.sequences > 2 * multiprocessors()) blocks /= 2;
  return blocks;
}

// Whether this device has room for a cluster of so many blocks anywhere: 8 are promised, 16 are not.
template <typename Kernel>
bool holds(Kernel kernel, int blocks, int bytes) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  return cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess && clusters > 0;
}

template <int kHeadDim, int kTiles, bool kFp8>
int run(const DecodeAttentionArgs& a, Stream stream) {
  const auto kernel = decode_attention_cluster_kernel<kHeadDim, kTiles, kFp8>;
  const int bytes = shared_bytes<PageShape<kHeadDim, kFp8>>(static_cast<int>(a.heads / a.kv_heads), kHeadDim);
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                              "decode_attention: shared memory"))
    return error;
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                              "decode_attention: cluster"))
    return error;
  int blocks = blocks_for(a);
  if (blocks > kLeastBlocks && !holds(kernel, blocks, bytes)) {
    cudaGetLastError();  // told here: the next launch must not find it again
    blocks = kLeastBlocks;
  }
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.sequences));
  return launch_clusters("decode_attention", kernel, grid, blocks, kThreads, static_cast<size_t>(bytes), stream, a,
                         a.scale * 1.4426950408889634f);
}

}  // namespace

bool decode_attention_cluster_can(const DecodeAttentionArgs& a) {
  return compute_major() == 9 && a.prefix_pages == nullptr && blocks_for(a) >= kLeastBlocks;
}

int decode_attention_cluster(const DecodeAttentionArgs& a, Stream stream) {
  return with_decode_shape(
      a, [&](auto head_dim, auto tiles, auto fp8) { return run<head_dim(), tiles(), fp8()>(a, stream); });
}

}  // namespace tritonforge::gpu
