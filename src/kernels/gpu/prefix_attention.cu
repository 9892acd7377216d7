// The first part of a decode's attention where several sequences begin with the same pages of the cache (the samples of
// one prompt): their queries stand side by side as columns, so each page is read once for all of them. What comes out
// are pieces that decode_attention() merges with the rest of each sequence.
//
// Work: a group's prefix is cut into pieces by its length alone; a block takes piece after piece, its four warps eight
// columns each over the same pages. The pages come through one ring of the block (cp.async), four at once, a barrier
// between two fetches. The grid depends on the device, groups and lengths are read on it: one CUDA graph serves every
// step. No column's result depends on the other columns: who reads alone gets the same bits.
#include <algorithm>

#include "kernels/gpu/attention_page.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kWarps = kPrefixColumns / kColumnsPerTile, kThreads = kWarps * kWarp;
constexpr int kPagesAtOnce = 4;
template <bool kFp8>
constexpr int kStages = kFp8 ? 4 : 2;  // as many bytes on their way

template <typename Shape>
constexpr int kStageBytes = kPagesAtOnce * Shape::kBytes;

// Pages [page, page + kPagesAtOnce) into a slot of the ring, by all threads; zeros from `end` on.
template <typename Shape>
__device__ void fetch_pages(uint32_t slot, const PrefixAttentionArgs& a, const int32_t* table, int head, int page,
                            int end) {
#pragma unroll
  for (int p = 0; p < kPagesAtOnce; ++p) {
    const bool there = page + p < end;
    fetch_page<Shape, kThreads>(slot + p * Shape::kBytes, a.cache,
                                int64_t{there ? table[page + p] : 0} * a.kv_heads + head, static_cast<int>(threadIdx.x),
                                there ? kPage : 0);
  }
  copy_commit();
}

template <int kHeadDim, bool kFp8>
__global__ void __launch_bounds__(kThreads, 3)
    prefix_attention_kernel(const __grid_constant__ PrefixAttentionArgs a, float scale) {
  using S = PageShape<kHeadDim, kFp8>;
  extern __shared__ __align__(128) uint8_t shared[];
  allow_next();
  wait_for_previous();
  const uint32_t ring = shared_address(shared);
  const int groups = static_cast<int>(a.groups), kv_heads = static_cast<int>(a.kv_heads),
            heads = static_cast<int>(a.heads) / kv_heads, head = blockIdx.y, warp = threadIdx.x / kWarp;
  const auto slot_of = [&](int stage) { return ring + stage % kStages<kFp8> * kStageBytes<S>; };

  // Piece by piece of all groups, first pieces first.
  for (int item = blockIdx.x; item < groups * kPrefixPieces; item += gridDim.x) {
    const int group = item % groups, piece = item / groups;
    const int32_t* members = a.members + a.group_starts[group];
    const int count = a.group_starts[group + 1] - a.group_starts[group];
    if (count == 0) continue;
    const int pages = a.prefix_pages[members[0]], pieces = prefix_pieces(pages);
    if (piece >= pieces) continue;
    const int begin = pages * piece / pieces, end = pages * (piece + 1) / pieces,
              stages = ceil_div(end - begin, kPagesAtOnce);
    const int32_t* table = a.block_tables + int64_t{members[0]} * a.table_width;
    const auto fetch = [&](int stage) {
      fetch_pages<S>(slot_of(stage), a, table, head, begin + stage * kPagesAtOnce, end);
    };
    for (int stage = 0; stage < kStages<kFp8> - 1; ++stage) fetch(stage);

    // A column is a head of a member.
    const int first_column = warp * kColumnsPerTile;
    const bool busy = first_column < count * heads;
    Running<kHeadDim, 1, kFp8> running;
    running.start([&](int column) -> const Bf16* {
      const int member = (first_column + column) / heads, h = (first_column + column) % heads;
      if (member >= count) return nullptr;
      return a.q + (int64_t{members[member]} * a.heads + head * heads + h) * kHeadDim;
    });
    for (int stage = 0; stage < stages; ++stage) {
      copy_wait<kStages<kFp8> - 2>();
      __syncthreads();  // this stage is there for all warps, and all are done with the one before
      fetch(stage + kStages<kFp8> - 1);
      const int valid = (end - begin - stage * kPagesAtOnce) * kPage;
      if (busy) running.template pages<kPagesAtOnce>(slot_of(stage), valid, scale);
    }
    running.store([&](int column) -> PiecePlace {
      const int member = (first_column + column) / heads, h = (first_column + column) % heads;
      if (member >= count) return {nullptr, nullptr, nullptr};
      float* to = a.pieces + prefix_piece_at(members[member], kv_heads, head, piece, heads, kHeadDim);
      return {to + h * kHeadDim, to + heads * kHeadDim + h, to + heads * kHeadDim + 16 + h};
    });
    copy_wait<0>();   // what was fetched beyond the piece's end
    __syncthreads();  // the ring is free again
  }
}

template <int kHeadDim, bool kFp8>
int run(const PrefixAttentionArgs& a, Stream stream) {
  const auto kernel = prefix_attention_kernel<kHeadDim, kFp8>;
  constexpr int kBytes = kStages<kFp8> * kStageBytes<PageShape<kHeadDim, kFp8>>;
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                              "prefix_attention: shared memory"))
    return error;
  int blocks = 0;
  if (const int error = check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, kBytes),
                              "prefix_attention: occupancy"))
    return error;
  // One wave of blocks, shared among the kv heads; no more than there can be pieces.
  const int64_t wave = ceil_div<int64_t>(int64_t{blocks} * multiprocessors(), a.kv_heads);
  const dim3 grid(static_cast<unsigned>(std::min(wave, a.groups * kPrefixPieces)), static_cast<unsigned>(a.kv_heads));
  return launch("prefix_attention", kernel, grid, kThreads, kBytes, stream, a, a.scale * 1.4426950408889634f);
}

}  // namespace

size_t prefix_attention_pieces(int64_t max_sequences, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return static_cast<size_t>(max_sequences * kv_heads * kPrefixPieces *
                             piece_floats(static_cast<int>(heads / kv_heads), static_cast<int>(head_dim)) * 4);
}

int prefix_attention(const PrefixAttentionArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "prefix_attention: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE(a->kv_heads > 0 && a->heads % a->kv_heads == 0 && a->heads / a->kv_heads <= 16,
             "prefix_attention: %ld heads over %ld kv heads (at most 16 to one)", static_cast<long>(a->heads),
             static_cast<long>(a->kv_heads));
  if (a->groups == 0) return 0;
  if (a->cache.scales != nullptr) return a->head_dim == 64 ? run<64, true>(*a, stream) : run<128, true>(*a, stream);
  return a->head_dim == 64 ? run<64, false>(*a, stream) : run<128, false>(*a, stream);
}

}  // namespace tritonforge::gpu
