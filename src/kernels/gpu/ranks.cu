// What tensor-parallel ranks on several GPUs do together, but for join_ranks() (rows.cu): each reads what it needs from
// the others' memory, one shot, no ring. Two ranks move no more bytes so than by any other way. And what data-parallel
// ranks do with what the copy engines brought.
#include <algorithm>

#include "kernels/gpu/ranks.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kAdded = 4;  // times eight values of a thread of add_parts_kernel

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(
      std::min<int64_t>(ceil_div<int64_t>(threads, kThreads), int64_t{multiprocessors()} * 16));
}

__global__ void embed_ranks_kernel(const __grid_constant__ EmbedRanksArgs a) {
  allow_next();
  wait_for_previous();
  const int64_t vectors = a.hidden / 8, total = a.tokens * vectors;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t token = i / vectors, id = a.ids[token], rank = id / a.table_rows;
    const auto* row = reinterpret_cast<const uint4*>(a.tables[rank]) + (id - rank * a.table_rows) * vectors;
    reinterpret_cast<uint4*>(a.out)[i] = row[i - token * vectors];  // weights: nobody writes them meanwhile
  }
}

__global__ void gather_logits_kernel(const __grid_constant__ GatherLogitsArgs a) {
  allow_next();
  wait_for_previous();
  meet(a.meeting);
  const int64_t part = a.part / 4, row_vectors = part * a.meeting.ranks, total = a.rows * row_vectors;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / row_vectors, column = i - row * row_vectors, rank = column / part;
    reinterpret_cast<uint4*>(a.logits)[i] = read_peer(a.parts[rank] + 4 * (row * part + column - rank * part));
  }
}

__global__ void meet_kernel(const __grid_constant__ RankMeeting m) {
  allow_next();
  wait_for_previous();
  meet(m);
}

// In small blocks that end soon: they come onto multiprocessors that the last blocks of a product leave.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_parts_kernel(const __grid_constant__ AddPartsArgs a) {
  allow_next();
  wait_for_previous();
  const int64_t vectors = a.count / 8, begin = blockIdx.x * int64_t{kThreads * kAdded} + threadIdx.x;
  float sums[kAdded][8];
  for (int rank = 0; rank < a.ranks; ++rank) {
    const T* part = static_cast<const T*>(a.parts[rank]);
#pragma unroll
    for (int u = 0; u < kAdded; ++u) {
      const int64_t i = begin + u * kThreads;
      float values[8] = {};
      if (i < vectors) load8(part, i, values);
#pragma unroll
      for (int e = 0; e < 8; ++e) sums[u][e] = rank == 0 ? values[e] : sums[u][e] + values[e];
    }
  }
#pragma unroll
  for (int u = 0; u < kAdded; ++u) {
    const int64_t i = begin + u * kThreads;
    if (i < vectors) store8(static_cast<T*>(a.x), i, sums[u]);
  }
}

}  // namespace

int embed_ranks(const EmbedRanksArgs* a, Stream stream) {
  TF_REQUIRE(a->hidden % 8 == 0, "embed_ranks: rows of %ld (a multiple of 8)", static_cast<long>(a->hidden));
  if (a->tokens == 0) return 0;
  return launch("embed_ranks", embed_ranks_kernel, dim3(blocks_for(a->tokens * (a->hidden / 8))), kThreads, 0, stream,
                *a);
}

int gather_logits(const GatherLogitsArgs* a, Stream stream) {
  TF_REQUIRE(a->part % 4 == 0, "gather_logits: parts of %ld (a multiple of 4)", static_cast<long>(a->part));
  TF_REQUIRE(a->rows > 0, "gather_logits: no rows");
  return launch("gather_logits", gather_logits_kernel, dim3(blocks_for(a->rows * a->part / 4 * a->meeting.ranks)),
                kThreads, 0, stream, *a);
}

int add_parts(const AddPartsArgs* a, Stream stream) {
  TF_REQUIRE(a->ranks > 0 && a->ranks <= kMostRanks, "add_parts: %d ranks (1 to %d)", a->ranks, kMostRanks);
  TF_REQUIRE(a->count % 8 == 0, "add_parts: %ld elements (a multiple of 8)", static_cast<long>(a->count));
  if (a->count == 0) return 0;
  const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(a->count, 8 * kThreads * kAdded)));
  return launch("add_parts", a->fp32 ? add_parts_kernel<float> : add_parts_kernel<Bf16>, blocks, kThreads, 0, stream,
                *a);
}

int meet_ranks(const RankMeeting* m, Stream stream) {
  return launch("meet_ranks", meet_kernel, dim3(1), kWarp, 0, stream, *m);
}

}  // namespace tritonforge::gpu
