// What tensor-parallel ranks on several GPUs do together, but for join_ranks() (rows.cu): each reads what it needs from
// the others' memory, one shot, no ring. Two ranks move no more bytes so than by any other way.
#include <algorithm>

#include "kernels/gpu/ranks.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256;

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

int meet_ranks(const RankMeeting* m, Stream stream) {
  return launch("meet_ranks", meet_kernel, dim3(1), kWarp, 0, stream, *m);
}

}  // namespace tritonforge::gpu
