// Attention of one new token a sequence over the paged cache. Bound by reading the keys and values once.
//
// Work: all pages of all sequences, of one kv head, stand in one line; a gang of blocks cuts the line into equal
// shares, whatever the lengths are. The grid therefore depends on the device alone, lengths and block tables are read
// by the kernel, and one CUDA graph serves every step. A share may begin and end inside a sequence: the pieces of such
// a sequence are merged, in order, by the block that finishes it last. Inside a block each warp streams its own pages
// through its own ring in shared memory (cp.async), so no barrier stands between two pages. Twelve rings of 16 KB
// a multiprocessor keep ~190 KB in flight: many times what latency needs.
//
// A few sequences on Hopper are decode_attention_cluster.cu's. Pages at a sequence's start that prefix_attention() has
// read are not in the line; its pieces are merged like those of blocks.
#include <algorithm>

#include "kernels/gpu/attention_page.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kMinPages = 2 * kWarps;  // of a share: two a warp, both in flight at once
constexpr int kMaxPieces = 256, kMaxGang = kMaxPieces - kPrefixPieces, kMaxSequences = 1024;

// A warp's ring: 16 KB of keys and values, in FP8 the scales besides.
template <typename Shape>
constexpr int kStages = 16 * 1024 / (2 * Shape::kPageBytes);
template <typename Shape>
constexpr int kRingBytes = kStages<Shape> * Shape::kBytes;

// What lies in shared memory, in this order: rings, pieces [kWarps, group, head_dim] fp32, maxima and sums
// [kWarps, 2 * 16], first_page [sequences + 1].
__host__ __device__ constexpr int pieces_bytes(int group, int head_dim) { return kWarps * group * head_dim * 4; }
constexpr int kStatBytes = kWarps * 2 * 16 * 4;
template <typename Shape>
int shared_bytes(int group, int head_dim, int sequences) {
  return kWarps * kRingBytes<Shape> + pieces_bytes(group, head_dim) + kStatBytes + (sequences + 1) * 4;
}

__device__ int skipped_pages(const DecodeAttentionArgs& a, int s) {
  return a.prefix_pages == nullptr ? 0 : a.prefix_pages[s];
}

// first[s] = pages in the line before those of s, by all threads of the block.
__device__ void count_pages(int* first, const DecodeAttentionArgs& a) {
  __shared__ int sums[kWarps];
  const auto sequences = static_cast<int>(a.sequences);
  const auto pages_of = [&](int s) { return ceil_div(a.lengths[s], kPage) - skipped_pages(a, s); };
  const int each = ceil_div(sequences, kThreads), begin = min(static_cast<int>(threadIdx.x) * each, sequences),
            end = min(begin + each, sequences);
  int own = 0;
  for (int s = begin; s < end; ++s) own += pages_of(s);
  int before = own;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int other = __shfl_up_sync(kAllLanes, before, offset);
    if (static_cast<int>(threadIdx.x % kWarp) >= offset) before += other;
  }
  if (threadIdx.x % kWarp == kWarp - 1) sums[threadIdx.x / kWarp] = before;
  __syncthreads();
  before -= own;
  for (int w = 0; w < static_cast<int>(threadIdx.x / kWarp); ++w) before += sums[w];
  for (int s = begin; s < end; ++s) {
    first[s] = before;
    before += pages_of(s);
  }
  if (begin < sequences && end == sequences) first[sequences] = before;
  __syncthreads();
}

// The sequence that holds a page: the last s with first[s] <= page.
__device__ int sequence_of(const int* first, int sequences, int page) {
  int s = 0, above = sequences;
  while (above - s > 1) {
    const int middle = (s + above) / 2;
    if (first[middle] <= page) s = middle;
    else above = middle;
  }
  return s;
}

// A warp's place in the line of pages, running kStages ahead of the arithmetic.
struct Prefetcher {
  const DecodeAttentionArgs& a;
  const int* first;
  int head, end, page, sequence, length, skipped;

  // kEarly: the kernel in front may still run. It is waited for before a page that it may write.
  template <typename Shape, bool kEarly = false>
  __device__ void fetch(uint32_t ring_slot) {
    if (page < end) {
      if (page >= first[sequence + 1]) {
        while (page >= first[sequence + 1]) ++sequence;
        length = a.lengths[sequence];
        skipped = skipped_pages(a, sequence);
      }
      const int in_sequence = skipped + page - first[sequence];
      if (kEarly && !is_old_page(in_sequence, length)) wait_for_previous();
      const int valid = length - in_sequence * kPage;  // tokens of this page
      const int64_t block = a.block_tables[int64_t{sequence} * a.table_width + in_sequence];
      fetch_page<Shape, kWarp>(ring_slot, a.cache, block * a.kv_heads + head, threadIdx.x % kWarp, valid);
      page += kWarps;
    }
    copy_commit();  // also where nothing was left to fetch: the ring counts groups
  }
};

// The pieces of a sequence's prefix, added to four elements of head `at / kHeadDim` of the rest. A few at once are on
// their way before the first is used.
template <int kHeadDim>
__device__ void merge_prefix(const float* prefix, int count, int group, int at, float& top, float& sum, float4& o) {
  constexpr int kAtOnce = 4;
  const int h = at / kHeadDim;
  const int64_t size = piece_floats(group, kHeadDim);
  for (int base = 0; base < count; base += kAtOnce) {
    float4 x[kAtOnce];
    float maxima[kAtOnce], sums[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float* piece = prefix + min(base + i, count - 1) * size;
      x[i] = __ldcg(reinterpret_cast<const float4*>(piece + at));
      maxima[i] = __ldcg(piece + group * kHeadDim + h);
      sums[i] = __ldcg(piece + group * kHeadDim + 16 + h);
    }
    float highest = top;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) highest = fmaxf(highest, maxima[i]);
    const float shrink = exp2f(top - highest);
    sum *= shrink;
    o = make_float4(o.x * shrink, o.y * shrink, o.z * shrink, o.w * shrink);
    top = highest;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (base + i >= count) break;
      const float weight = exp2f(maxima[i] - top);
      sum += weight * sums[i];
      o = make_float4(o.x + weight * x[i].x, o.y + weight * x[i].y, o.z + weight * x[i].z, o.w + weight * x[i].w);
    }
  }
}

// Merges the pieces of a sequence: those of its prefix, then those that blocks [from, to] of the gang left in the
// workspace, in that order.
template <int kHeadDim>
__device__ void merge_pieces(const float* prefix, int prefix_count, const float* pieces, float* weights, int group,
                             int from, int to, bool from_second, Bf16* out) {
  const int count = prefix_count + to - from + 1, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t size = piece_floats(group, kHeadDim);
  const auto piece = [&](int i) {
    if (i < prefix_count) return prefix + i * size;
    i -= prefix_count;
    return pieces + (2 * int64_t{from + i} + (i == 0 && from_second ? 1 : 0)) * size;
  };
  // All loads of up to kAtOnce pieces go out before the first is used: a round trip to L2 each would be the longest
  // part.
  constexpr int kAtOnce = 16;
  float4 x[kAtOnce];
  const auto load = [&](int at, int base) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (base + i < count && at < group * kHeadDim)
        x[i] = __ldcg(reinterpret_cast<const float4*>(piece(base + i) + at));
    }
  };
  load(threadIdx.x * 4, 0);
  for (int head = warp; head < group; head += kWarps) {
    float top = -FLT_MAX, total = 0;
    for (int i = lane; i < count; i += kWarp) top = fmaxf(top, __ldcg(piece(i) + group * kHeadDim + head));
    for (int offset = kWarp / 2; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, offset));
    for (int i = lane; i < count; i += kWarp) {
      const float weight = exp2f(__ldcg(piece(i) + group * kHeadDim + head) - top);
      total += weight * __ldcg(piece(i) + group * kHeadDim + 16 + head);
      weights[head * kMaxPieces + i] = weight;
    }
    total = 1.0f / lane_sum(total);
    for (int i = lane; i < count; i += kWarp) weights[head * kMaxPieces + i] *= total;
  }
  __syncthreads();
  for (int at = threadIdx.x * 4; at < group * kHeadDim; at += kThreads * 4) {
    const float* weight = weights + at / kHeadDim * kMaxPieces;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int base = 0; base < count; base += kAtOnce) {
      if (base > 0 || at != static_cast<int>(threadIdx.x) * 4) load(at, base);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (base + i >= count) break;
        const float w = weight[base + i];
        sum = make_float4(sum.x + w * x[i].x, sum.y + w * x[i].y, sum.z + w * x[i].z, sum.w + w * x[i].w);
      }
    }
    *reinterpret_cast<uint2*>(out + at) = make_uint2(pack(sum.x, sum.y), pack(sum.z, sum.w));
  }
}

template <int kHeadDim, int kTiles, bool kFp8>
__global__ void __launch_bounds__(kThreads, kTiles == 1 ? 3 : 2)
    decode_attention_kernel(const __grid_constant__ DecodeAttentionArgs a, float* pieces, int* counters, float scale) {
  using S = PageShape<kHeadDim, kFp8>;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ bool last_to_arrive;
  const int sequences = static_cast<int>(a.sequences), kv_heads = static_cast<int>(a.kv_heads),
            group = static_cast<int>(a.heads) / kv_heads;
  const int head = blockIdx.y, warp = threadIdx.x / kWarp;
  auto* own_pieces = reinterpret_cast<float*>(shared + kWarps * kRingBytes<S>);
  auto* stats = reinterpret_cast<float*>(shared + kWarps * kRingBytes<S> +
                                         pieces_bytes(group, kHeadDim));  // [kWarps, maxima and sums, 16]
  auto* first = reinterpret_cast<int*>(reinterpret_cast<uint8_t*>(stats) + kStatBytes);
  const auto output = [&](int s) { return a.out + (int64_t{s} * a.heads + head * group) * kHeadDim; };

  // This block's share of the line.
  allow_next();
  count_pages(first, a);
  const auto clear_padded_rows = [&] {
    for (int s = blockIdx.x; s < sequences; s += gridDim.x) {
      if (first[s + 1] != first[s]) continue;
      for (int i = threadIdx.x; i < group * kHeadDim / 2; i += kThreads) reinterpret_cast<uint32_t*>(output(s))[i] = 0;
    }
  };
  const int64_t total = first[sequences];
  const int gang = static_cast<int>(min(int64_t{gridDim.x}, (total + kMinPages - 1) / kMinPages)), me = blockIdx.x;
  if (me >= gang) {
    wait_for_previous();
    clear_padded_rows();
    return;
  }
  const int begin = static_cast<int>(total * me / gang), end = static_cast<int>(total * (me + 1) / gang);

  const uint32_t ring = shared_address(shared) + warp * kRingBytes<S>;
  int sequence = sequence_of(first, sequences, begin);
  Prefetcher ahead{a, first, head, end, begin + warp, sequence, a.lengths[sequence], skipped_pages(a, sequence)};
#pragma unroll
  for (int stage = 0; stage < kStages<S>; ++stage) ahead.fetch<S, true>(ring + stage * S::kBytes);
  wait_for_previous();
  clear_padded_rows();

  Running<kHeadDim, kTiles, kFp8> running;
  uint32_t slot = ring;
  for (int segment = begin, page = begin + warp; segment < end; ++sequence) {
    const int segment_end = min(end, first[sequence + 1]);
    if (segment_end <= segment) continue;  // a padded row
    const Bf16* queries = a.q + (int64_t{sequence} * a.heads + head * group) * kHeadDim;
    running.start([&](int column) { return column < group ? queries + column * kHeadDim : nullptr; });
    const int skipped = skipped_pages(a, sequence), length = a.lengths[sequence] - skipped * kPage;
    for (; page < segment_end; page += kWarps) {
      copy_wait<kStages<S> - 1>();
      __syncwarp();
      running.template pages<1>(slot, length - (page - first[sequence]) * kPage, scale);
      __syncwarp();
      ahead.fetch<S>(slot);
      slot += S::kBytes;
      if (slot == ring + kRingBytes<S>) slot = ring;
    }

    // The four warps' parts become one.
    running.store([&](int column) -> PiecePlace {
      if (column >= group) return {nullptr, nullptr, nullptr};
      return {own_pieces + (warp * group + column) * kHeadDim, stats + warp * 32 + column,
              stats + warp * 32 + 16 + column};
    });
    __syncthreads();
    const bool whole = first[sequence] >= begin && first[sequence + 1] <= end;
    const float* prefix = a.prefix_pieces + prefix_piece_at(sequence, kv_heads, head, 0, group, kHeadDim);
    float* piece = pieces +
                   ((int64_t{head} * kMaxGang + me) * 2 + (segment == begin ? 0 : 1)) * piece_floats(group, kHeadDim);
    for (int at = threadIdx.x * 4; at < group * kHeadDim; at += kThreads * 4) {
      const int h = at / kHeadDim;
      float top = -FLT_MAX, sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) top = fmaxf(top, stats[w * 32 + h]);
      float4 o = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float weight = exp2f(stats[w * 32 + h] - top);
        const float4 x = *reinterpret_cast<const float4*>(own_pieces + w * group * kHeadDim + at);
        sum += weight * stats[w * 32 + 16 + h];
        o = make_float4(o.x + weight * x.x, o.y + weight * x.y, o.z + weight * x.z, o.w + weight * x.w);
      }
      if (whole && skipped > 0) merge_prefix<kHeadDim>(prefix, prefix_pieces(skipped), group, at, top, sum, o);
      if (whole) {
        const float scale_out = 1.0f / sum;
        *reinterpret_cast<uint2*>(output(sequence) + at) = make_uint2(pack(o.x * scale_out, o.y * scale_out),
                                                                      pack(o.z * scale_out, o.w * scale_out));
      } else {
        *reinterpret_cast<float4*>(piece + at) = o;
        if (at % kHeadDim == 0) {
          piece[group * kHeadDim + h] = top;
          piece[group * kHeadDim + 16 + h] = sum;
        }
      }
    }
    // A shared sequence: the last of its blocks to arrive merges all pieces and sets the counter back.
    if (!whole) {
      const int from = static_cast<int>(((first[sequence] + int64_t{1}) * gang - 1) /
                                        total);  // the blocks of its first and last page
      const int to = static_cast<int>((int64_t{first[sequence + 1]} * gang - 1) / total);
      __syncthreads();
      if (threadIdx.x == 0) {
        __threadfence();  // of all threads' stores, which the barrier put before it
        int* counter = counters + sequence * kv_heads + head;
        last_to_arrive = atomicAdd(counter, 1) == to - from;
        if (last_to_arrive) *counter = 0;
        __threadfence();
      }
      __syncthreads();
      if (last_to_arrive) {
        const bool from_second = first[sequence] != total * from / gang;
        merge_pieces<kHeadDim>(prefix, prefix_pieces(skipped),
                               pieces + int64_t{head} * kMaxGang * 2 * piece_floats(group, kHeadDim), own_pieces, group,
                               from, to, from_second, output(sequence));
      }
    }
    __syncthreads();  // own_pieces is free again
    segment = segment_end;
  }
}

template <int kHeadDim, int kTiles, bool kFp8>
int run(const DecodeAttentionArgs& a, Stream stream) {
  const auto kernel = decode_attention_kernel<kHeadDim, kTiles, kFp8>;
  const int group = static_cast<int>(a.heads / a.kv_heads),
            bytes = shared_bytes<PageShape<kHeadDim, kFp8>>(group, kHeadDim, static_cast<int>(a.sequences));
  int blocks = 0;
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                              "decode_attention: shared memory"))
    return error;
  if (const int error = check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, bytes),
                              "decode_attention: occupancy"))
    return error;
  // One wave of blocks, all resident: as many as fit, shared among the kv heads.
  const int gang = std::clamp(blocks * multiprocessors() / static_cast<int>(a.kv_heads), 1, kMaxGang);
  const int64_t counters = ceil_div<int64_t>(kMaxSequences * a.kv_heads * 4, 256) * 256;
  return launch("decode_attention", kernel, dim3(static_cast<unsigned>(gang), static_cast<unsigned>(a.kv_heads)),
                kThreads, static_cast<size_t>(bytes), stream, a,
                reinterpret_cast<float*>(static_cast<uint8_t*>(a.workspace) + counters), static_cast<int*>(a.workspace),
                a.scale * 1.4426950408889634f);
}

}  // namespace

size_t decode_attention_workspace(int64_t, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const int64_t counters = ceil_div<int64_t>(kMaxSequences * kv_heads * 4, 256) * 256;
  return static_cast<size_t>(counters +
                             kv_heads * kMaxGang * 2 *
                                 piece_floats(static_cast<int>(heads / kv_heads), static_cast<int>(head_dim)) * 4);
}

int decode_attention(const DecodeAttentionArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "decode_attention: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE(a->kv_heads > 0 && a->heads % a->kv_heads == 0 && a->heads / a->kv_heads <= 2 * kColumnsPerTile,
             "decode_attention: %ld heads over %ld kv heads (at most 16 to one)", static_cast<long>(a->heads),
             static_cast<long>(a->kv_heads));
  TF_REQUIRE(a->sequences <= kMaxSequences, "decode_attention: %ld sequences (at most %d)",
             static_cast<long>(a->sequences), kMaxSequences);
  if (a->sequences == 0) return 0;
  if (decode_attention_cluster_can(*a)) return decode_attention_cluster(*a, stream);
  return with_decode_shape(
      *a, [&](auto head_dim, auto tiles, auto fp8) { return run<head_dim(), tiles(), fp8()>(*a, stream); });
}

}  // namespace tritonforge::gpu
