// Row by row work: embedding, gather, RMSNorm with and without the residual sum, SwiGLU, the next step's inputs.
// All are bound by memory at prefill sizes and by launch latency at decode sizes: 16 bytes a thread and access.
#include <algorithm>

#include "kernels/gpu/ranks.cuh"

namespace tritonforge::gpu {
namespace {

__global__ void copy_rows_kernel(Bf16x8* out, const Bf16x8* from, const int32_t* rows, int64_t vectors, int64_t total) {
  allow_next();
  wait_for_previous();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / vectors;
    out[i] = from[int64_t{rows[row]} * vectors + i - row * vectors];
  }
}

// What is added to x before its norm: nothing, a tensor, or the sum of the ranks' tensors, in their order.
struct Nothing {
  static constexpr bool kAdds = false;
  __device__ void begin() const {}
};
struct Delta {
  static constexpr bool kAdds = true;
  const Bf16x8* delta;
  __device__ void begin() const {}
  __device__ void read(int64_t at, float (&to)[8]) const { unpack(delta[at], to); }
};
template <int kRanks>
struct RankDeltas {
  static constexpr bool kAdds = true;
  RankMeeting meeting;
  const Bf16x8* deltas[kRanks];
  __device__ void begin() const { meet(meeting); }
  __device__ void read(int64_t at, float (&to)[8]) const {
    uint4 parts[kRanks];  // all on their way before the first is used
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) parts[rank] = read_peer(deltas[rank] + at);
    unpack(reinterpret_cast<const Bf16x8&>(parts[0]), to);
#pragma unroll
    for (int rank = 1; rank < kRanks; ++rank) {
      float part[8];
      unpack(reinterpret_cast<const Bf16x8&>(parts[rank]), part);
#pragma unroll
      for (int j = 0; j < 8; ++j) to[j] += part[j];
    }
  }
};

// One block a row. kVectors a thread: one where there are few rows (latency), four where there are many (throughput).
// Squares are summed in one order either way, 32 neighbouring vectors at a time: a row's bits are the same whatever
// stands beside it.
template <int kVectors, typename Added>
__global__ void __launch_bounds__(1024) rms_norm_kernel(Bf16x8* out, Bf16x8* x, const __grid_constant__ Added added,
                                                        const Bf16x8* weight, int vectors, float eps) {
  __shared__ float sums[kVectors * kWarp];
  allow_next();
  // The weights, which no kernel of a step writes, come from memory, the rows from the cache.
  Bf16x8 w[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i < vectors) w[v] = weight[i];
  }
  wait_for_previous();
  added.begin();
  const int64_t row = int64_t{blockIdx.x} * vectors;
  float value[kVectors][8] = {};
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i >= vectors) continue;
    unpack(x[row + i], value[v]);
    if constexpr (Added::kAdds) {
      float more[8];
      added.read(row + i, more);
#pragma unroll
      for (int j = 0; j < 8; ++j) value[v][j] = rounded(value[v][j] + more[j]);
      x[row + i] = pack(value[v]);
    }
  }
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += value[v][j] * value[v][j];
    squares = lane_sum(squares);
    if (lane == 0) sums[v * warps + warp] = squares;
  }
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {  // those of 32 warps at a time
    const int at = v * kWarp + lane;
    total += lane_sum(at < kVectors * warps ? sums[at] : 0.0f);
  }
  const float scale = 1.0f / sqrtf(total / static_cast<float>(8 * vectors) + eps);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i >= vectors) continue;
    float scaled[8];
    unpack(w[v], scaled);
#pragma unroll
    for (int j = 0; j < 8; ++j) scaled[j] *= rounded(value[v][j] * scale);
    out[row + i] = pack(scaled);
  }
}

template <typename Added>
int launch_rms_norm(Bf16* out, Bf16* x, const Added& added, const Bf16* weight, int64_t rows, int64_t d, float eps,
                    Stream stream) {
  TF_REQUIRE(d % 8 == 0 && d > 0 && d <= 32768, "rms_norm: rows of %ld (a multiple of 8, at most 32768)",
             static_cast<long>(d));
  if (rows == 0) return 0;
  const int vectors = static_cast<int>(d / 8);
  const bool many = rows >= 4 * multiprocessors() || vectors > 1024;
  const int threads = ceil_div(ceil_div(vectors, many ? 4 : 1), kWarp) * kWarp;
  return launch("rms_norm", many ? rms_norm_kernel<4, Added> : rms_norm_kernel<1, Added>,
                dim3(static_cast<unsigned>(rows)), threads, 0, stream, reinterpret_cast<Bf16x8*>(out),
                reinterpret_cast<Bf16x8*>(x), added, reinterpret_cast<const Bf16x8*>(weight), vectors, eps);
}

__global__ void swiglu_kernel(Bf16x8* out, const Bf16x8* gate_up, int64_t vectors, int64_t total) {
  allow_next();
  wait_for_previous();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / vectors, at = i + row * vectors;  // 2 * row * vectors + column
    float gate[8], up[8];
    unpack(gate_up[at], gate);
    unpack(gate_up[at + vectors], up);
#pragma unroll
    for (int j = 0; j < 8; ++j) gate[j] = swiglu_of(gate[j], up[j]);
    out[i] = pack(gate);
  }
}

__global__ void advance_kernel(AdvanceArgs a) {  // without allow_next(): attention reads lengths before it waits
  wait_for_previous();
  const int64_t s = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (s >= a.sequences || a.lengths[s] == 0) return;
  const int32_t position = a.lengths[s], page = position / kPage;
  a.ids[s] = a.tokens[s];
  a.positions[s] = position;
  a.slots[s] = page < a.table_width ? a.block_tables[s * a.table_width + page] * kPage + position % kPage : 0;
  a.lengths[s] = position + 1;
}

__global__ void pick_ids_kernel(int32_t* ids, const int32_t* tokens, const int32_t* sources, int64_t count) {
  allow_next();
  wait_for_previous();
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count && sources[i] >= 0) ids[i] = max(tokens[sources[i]], 0);
}

// Enough blocks to fill the device, few enough that each does several rounds.
unsigned blocks_for(int64_t threads, int block) {
  return static_cast<unsigned>(std::min<int64_t>(ceil_div<int64_t>(threads, block), int64_t{multiprocessors()} * 16));
}
constexpr int kThreads = 256;

int copy_rows(const char* name, Bf16* out, const Bf16* from, const int32_t* rows, int64_t count, int64_t hidden,
              Stream stream) {
  TF_REQUIRE(hidden % 8 == 0, "%s: rows of %ld (a multiple of 8)", name, static_cast<long>(hidden));
  const int64_t total = count * (hidden / 8);
  if (total == 0) return 0;
  return launch(name, copy_rows_kernel, dim3(blocks_for(total, kThreads)), kThreads, 0, stream,
                reinterpret_cast<Bf16x8*>(out), reinterpret_cast<const Bf16x8*>(from), rows, hidden / 8, total);
}

}  // namespace

int embed(Bf16* out, const Bf16* table, const int32_t* ids, int64_t tokens, int64_t hidden, Stream stream) {
  return copy_rows("embed", out, table, ids, tokens, hidden, stream);
}
int gather_rows(Bf16* out, const Bf16* x, const int32_t* rows, int64_t count, int64_t hidden, Stream stream) {
  return copy_rows("gather_rows", out, x, rows, count, hidden, stream);
}
int rms_norm(Bf16* out, const Bf16* x, const Bf16* weight, int64_t rows, int64_t d, float eps, Stream stream) {
  return launch_rms_norm(out, const_cast<Bf16*>(x), Nothing(), weight, rows, d, eps, stream);
}
int add_rms_norm(Bf16* out, Bf16* x, const Bf16* delta, const Bf16* weight, int64_t rows, int64_t d, float eps,
                 Stream stream) {
  return launch_rms_norm(out, x, Delta{reinterpret_cast<const Bf16x8*>(delta)}, weight, rows, d, eps, stream);
}
int join_ranks(const JoinRanksArgs* a, Stream stream) {
  const auto join = [&]<int kRanks>(RankDeltas<kRanks> added) {
    for (int rank = 0; rank < kRanks; ++rank) added.deltas[rank] = reinterpret_cast<const Bf16x8*>(a->deltas[rank]);
    return launch_rms_norm(a->out, a->x, added, a->weight, a->rows, a->d, a->eps, stream);
  };
  switch (a->meeting.ranks) {
    case 2: return join(RankDeltas<2>{a->meeting, {}});
    case 4: return join(RankDeltas<4>{a->meeting, {}});
    case 8: return join(RankDeltas<8>{a->meeting, {}});
    default: return set_error(kBadArgument, "join_ranks: %d ranks (2, 4 or 8)", a->meeting.ranks);
  }
}
int swiglu(Bf16* out, const Bf16* gate_up, int64_t rows, int64_t intermediate, Stream stream) {
  TF_REQUIRE(intermediate % 8 == 0, "swiglu: rows of %ld (a multiple of 8)", static_cast<long>(intermediate));
  const int64_t total = rows * (intermediate / 8);
  if (total == 0) return 0;
  return launch("swiglu", swiglu_kernel, dim3(blocks_for(total, kThreads)), kThreads, 0, stream,
                reinterpret_cast<Bf16x8*>(out), reinterpret_cast<const Bf16x8*>(gate_up), intermediate / 8, total);
}
int advance(const AdvanceArgs* a, Stream stream) {
  if (a->sequences == 0) return 0;
  return launch("advance", advance_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(a->sequences, kThreads))),
                kThreads, 0, stream, *a);
}

int pick_ids(int32_t* ids, const int32_t* tokens, const int32_t* sources, int64_t count, Stream stream) {
  if (count == 0) return 0;
  return launch("pick_ids", pick_ids_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(count, kThreads))), kThreads,
                0, stream, ids, tokens, sources, count);
}

}  // namespace tritonforge::gpu
