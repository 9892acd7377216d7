// Gradient of attention on Hopper (the scheme of FlashAttention-3's backward pass, Shah et al. 2024). One block
// a multiprocessor takes item after item: 128 keys of one kv head of a segment, and every tile of 64 rows of queries
// that sees them, those of segments that go on from it too, the last one first. A row is a query head of a token: all
// heads that share the kv head stand in one tile, so that gradients of keys and values stay in registers for a whole
// item. With S = Q K^T and P = softmax(S):
//   dV += P^T dO;   dS = P (dO V^T - D), D = sum over head_dim of O dO;   dK += dS^T Q;   dQ += dS K.
// Two warpgroups compute S^T, dP^T and the sums of 64 keys each; dS meets in shared memory, and each sums half of
// dQ's columns.
//
// dQ comes together from the blocks of keys, in fp32, in memory. A warp adds each block's part when the block of keys
// before has added its own, so that the sum has one order and the same bits in every run. Blocks go from the last tile
// to the first, each one a tile behind the one before: nobody waits for long, and nobody for one that was not begun.
#include <algorithm>
#include <cfloat>

#include "kernels/gpu/products.cuh"
#include "kernels/gpu/tensor_map.h"
#include "kernels/gpu/train_args.h"

namespace tritonforge::gpu {
namespace {

constexpr int kConsumers = 2, kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kRows = 64, kKeys = kAttentionKeys, kStages = 2, kParts = 2;  // kParts: of dQ on their way to memory
constexpr int kRowBytes = 128;                                              // 64 elements: a column of boxes is so wide
constexpr float kLog2E = 1.4426950408889634f;

template <int kHeadDim>
struct Layout {  // of shared memory, in bytes
  static constexpr int kColumns = kHeadDim / 64;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2, kRowsBytes = kRows * kHeadDim * 2;
  static constexpr int kStatisticsBytes = kRows * 8, kPartBytes = kRows * kHeadDim * 4;
  static constexpr int kKeysAt = 0, kValuesAt = kKeyBytes, kQueriesAt = 2 * kKeyBytes;
  static constexpr int kGradsAt = kQueriesAt + kStages * kRowsBytes;  // of the output
  static constexpr int kScoresAt = kGradsAt + kStages * kRowsBytes;   // dS^T: a row of 64 a key
  static constexpr int kPartsAt = kScoresAt + kKeys * kRowBytes;
  static constexpr int kStatisticsAt = kPartsAt + kParts * kPartBytes;
  static constexpr int kBarriersAt = kStatisticsAt + kStages * kStatisticsBytes;
  static constexpr int kItemAt = kBarriersAt + 128;
  static constexpr int kBytes = kItemAt + 64 + 1024;  // the start is put at a multiple of 1024
};

struct Maps {
  TensorMap queries, grads, keys, values;
};

// What a launch needs besides: places in the workspace.
struct Scratch {
  int* counters;       // items taken
  int* added;          // [kv_heads, tiles]: blocks of keys whose part of dQ is in
  float2* statistics;  // [tiles, kv_heads, kRows]: log2 of the row's sum, D; infinity and 0 where there is no row
  float* sums;         // [tiles, kv_heads, kRows * head_dim]: dQ as the parts lie in shared memory
};

struct Item {
  int row, key_row, keys, page, block, tile, order, head, full;
  int own;           // tiles of the segment itself; those after them see all of its keys
  int first, count;  // tiles, from the segment's first, that see the block: the first one, how many; 0: nothing is left
};
static_assert(sizeof(Item) <= 64);

// ---- D, before the blocks begin ----

// A block a tile and kv head, a warp a row at a time.
constexpr int kBeginThreads = 512;
__global__ void __launch_bounds__(kBeginThreads) begin_kernel(AttentionBackwardArgs a, float2* statistics) {
  allow_next();
  wait_for_previous();
  const AttentionBackwardTile tile = a.tiles[blockIdx.x];
  const int group = static_cast<int>(a.heads / a.kv_heads), lane = threadIdx.x % kWarp, head = blockIdx.y;
#pragma unroll
  for (int round = 0; round < kRows * kWarp / kBeginThreads; ++round) {
    const int row = round * (kBeginThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp, token = row / group;
    float2 made = make_float2(INFINITY, 0);
    if (token < tile.tokens) {
      const int64_t index = int64_t{tile.row + token} * a.heads + head * group + row % group;
      if (4 * lane < a.head_dim) {
        const uint2 out = reinterpret_cast<const uint2*>(a.out + index * a.head_dim)[lane],
                    grad = reinterpret_cast<const uint2*>(a.d_out + index * a.head_dim)[lane];
        made.y = low(out.x) * low(grad.x) + high(out.x) * high(grad.x) + low(out.y) * low(grad.y) +
                 high(out.y) * high(grad.y);
      }
      made = make_float2(a.statistics[index], lane_sum(made.y));
    }
    if (lane == 0) statistics[(int64_t{blockIdx.x} * a.kv_heads + head) * kRows + row] = made;
  }
}

#if TF_HOPPER
struct Barriers {
  uint32_t at;
  __device__ uint32_t keys_full() const { return at; }
  __device__ uint32_t keys_empty() const { return at + 8; }
  __device__ uint32_t rows_full(int stage) const { return at + 16 + stage * 8; }
  __device__ uint32_t rows_empty(int stage) const { return at + 16 + (kStages + stage) * 8; }
  __device__ uint32_t part_full(int part) const { return at + 16 + (2 * kStages + part) * 8; }
  __device__ uint32_t part_empty(int part) const { return at + 16 + (2 * kStages + kParts + part) * 8; }
};

// The n-th use of a ring of two.
struct Turn {
  int n = 0;
  __device__ int stage() const { return n % 2; }
  __device__ int parity() const { return n / 2 & 1; }
};
static_assert(kStages == 2 && kParts == 2);

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline Item item_of(int index, const AttentionBackwardArgs& a, int tile_tokens) {
  const int kv_heads = static_cast<int>(a.kv_heads);
  if (index >= static_cast<int>(a.item_count) * kv_heads) return Item{};
  const AttentionBackwardItem& of = a.items[index / kv_heads];
  const int first = of.full ? 0 : of.block * kKeys / tile_tokens;
  return {.row = of.row,
          .key_row = of.key_row,
          .keys = of.keys,
          .page = of.page,
          .block = of.block,
          .tile = of.tile,
          .order = of.order,
          .head = index % kv_heads,
          .full = of.full,
          .own = ceil_div(of.tokens, tile_tokens),
          .first = first,
          .count = of.tiles - first};
}

// One warp: which items this block computes, their keys and values, and the rows of every tile.
template <int kHeadDim>
__device__ void fetch(const AttentionBackwardArgs& a, const Maps& maps, const Scratch& scratch, Item* told,
                      uint32_t shared, Barriers barriers, int tile_tokens) {
  using L = Layout<kHeadDim>;
  const int group = static_cast<int>(a.heads / a.kv_heads), lane = threadIdx.x % kWarp;
  Turn turn;
  for (int index = blockIdx.x, items = 0;; ++items) {
    int next = 0;
    if (lane == 0) next = static_cast<int>(gridDim.x) + atomicAdd(scratch.counters, 1);
    const Item item = item_of(index, a, tile_tokens);
    barrier_wait(barriers.keys_empty(), items & 1 ^ 1);
    if (lane == 0) {
      *told = item;  // read after keys_full(), before keys_empty()
      if (item.count == 0) {
        barrier_arrive(barriers.keys_full());
      } else {
        barrier_expect(barriers.keys_full(), 2 * L::kKeyBytes);
        for (int column = 0; column < L::kColumns; ++column) {
          const uint32_t at = shared + column * kKeys * kRowBytes;
          const int page = item.page + item.block * (kKeys / kPage);
          tensor_load(at + L::kKeysAt, &maps.keys, barriers.keys_full(), column * 64, 0, item.head, page);
          tensor_load(at + L::kValuesAt, &maps.values, barriers.keys_full(), column * 64, 0, item.head, page);
        }
      }
    }
    __syncwarp();
    if (item.count == 0) return;
    for (int tile = item.first + item.count - 1; tile >= item.first; --tile, ++turn.n) {
      const int stage = turn.stage(),
                row = tile < item.own ? item.row + tile * tile_tokens : a.tiles[item.tile + tile].row;
      const uint32_t full = barriers.rows_full(stage);
      barrier_wait(barriers.rows_empty(stage), turn.parity() ^ 1);
      if (lane == 0) {
        barrier_expect(full, 2 * L::kColumns * kRowBytes * group * tile_tokens + L::kStatisticsBytes);
        for (int column = 0; column < L::kColumns; ++column) {
          const uint32_t at = shared + stage * L::kRowsBytes + column * kRows * kRowBytes;
          tensor_load(at + L::kQueriesAt, &maps.queries, full, column * 64, item.head * group, row);
          tensor_load(at + L::kGradsAt, &maps.grads, full, column * 64, item.head * group, row);
        }
        bulk_load(shared + L::kStatisticsAt + stage * L::kStatisticsBytes,
                  scratch.statistics + ((item.tile + tile) * a.kv_heads + item.head) * kRows, L::kStatisticsBytes,
                  full);
      }
      __syncwarp();
    }
    index = __shfl_sync(kAllLanes, next, 0);
  }
}

// One thread: adds the parts of dQ to memory, each after the block of keys before has added its own.
template <int kHeadDim>
__device__ void add_parts(const AttentionBackwardArgs& a, const Scratch& scratch, const Item* told, uint32_t shared,
                          Barriers barriers) {
  using L = Layout<kHeadDim>;
  Turn turn;
  int* written = nullptr;  // of the part before: said when it is
  int order_before = 0;
  const auto say = [&] {
    __threadfence();
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(written), "r"(order_before + 1) : "memory");
  };
  for (int items = 0;; ++items) {
    barrier_wait(barriers.keys_full(), items & 1);
    const Item item = *told;
    barrier_arrive(barriers.keys_empty());
    if (item.count == 0) return;
    for (int tile = item.first + item.count - 1; tile >= item.first; --tile, ++turn.n) {
      const int64_t at = item.tile + tile;
      int* added = scratch.added + item.head * a.tile_count + at;
      float* to = scratch.sums + (at * a.kv_heads + item.head) * (kRows * kHeadDim);
      const uint32_t part = shared + L::kPartsAt + turn.stage() * L::kPartBytes;
      barrier_wait(barriers.part_full(turn.stage()), turn.parity());
      if (item.order == 0) {
        bulk_store(to, part, L::kPartBytes);
      } else {
        int before = 0;
        do {
          asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(before) : "l"(added) : "memory");
        } while (before < item.order);
        asm volatile("fence.proxy.async.global;" ::: "memory");
        bulk_add(to, part, L::kPartBytes);
      }
      if (written != nullptr) {
        stores_written<1>();
        barrier_arrive(barriers.part_empty(turn.stage() ^ 1));
        say();
      }
      written = added;
      order_before = item.order;
    }
    // The next item's first part may wait for this one's last.
    stores_written<0>();
    barrier_arrive(barriers.part_empty(turn.stage() ^ 1));
    say();
    written = nullptr;
  }
}

// A warpgroup has read all of dS, and waits until the other one has.
__device__ inline void scores_are_read(int warpgroup) {
  asm volatile("bar.arrive %0, %1;" ::"r"(2 + warpgroup), "n"(kConsumers * kWarpgroup) : "memory");
}
__device__ inline void await_readers(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(3 - warpgroup), "n"(kConsumers * kWarpgroup) : "memory");
}
__device__ inline void consumers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * kWarpgroup) : "memory"); }

// One warpgroup: its 64 keys of every item.
template <int kHeadDim>
__device__ void compute(const AttentionBackwardArgs& a, const Item* told, uint32_t shared, const uint8_t* base,
                        Barriers barriers, int tile_tokens, float scale) {
  using L = Layout<kHeadDim>;
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0),
            thread = threadIdx.x % kWarpgroup, warp = thread / kWarp, lane = threadIdx.x % kWarp,
            group = static_cast<int>(a.heads / a.kv_heads);
  const int key = warpgroup * 64 + warp * 16 + lane / 4;  // of the block, and the one 8 further on
  float dk[kHeadDim / 2], dv[kHeadDim / 2], s[kRows / 2], dp[kRows / 2], dq[kHeadDim / 4];
  uint32_t p[kRows / 16][4];
  Turn turn;
  const auto release = [&](uint32_t barrier) {
    __syncwarp();
    if (lane == 0) barrier_arrive(barrier);
  };
  // Both [64 keys, 64 rows] = a matrix of keys times one of rows, transposed.
  const auto multiply = [&](float(&c)[kRows / 2], uint32_t keys, uint32_t rows) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step)
      product(c, operand(keys + warpgroup * 64 * kRowBytes + step / 4 * kKeys * kRowBytes + step % 4 * 32),
              operand(rows + step / 4 * kRows * kRowBytes + step % 4 * 32), step > 0);
    products_commit();
  };
  const auto multiply_queries = [&] {  // of the tile whose turn it is
    barrier_wait(barriers.rows_full(turn.stage()), turn.parity());
    hold(s);
    products_begin();
    multiply(s, shared + L::kKeysAt, shared + L::kQueriesAt + turn.stage() * L::kRowsBytes);
  };
  // A matrix of this warpgroup's keys to memory.
  const auto store = [&](Bf16* to, const float(&c)[kHeadDim / 2], const Item& item, float factor) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = item.block * kKeys + key + 8 * half;
      auto* out = reinterpret_cast<uint4*>(to + (int64_t{item.key_row + token} * a.kv_heads + item.head) * kHeadDim) +
                  lane % 4;
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; n += 4) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          pairs[i] = pack(c[4 * (n + i) + 2 * half] * factor, c[4 * (n + i) + 2 * half + 1] * factor);
        const uint4 eight = transpose_in_quad(pairs);  // all lanes take part
        if (token < item.keys) out[n] = eight;
      }
    }
  };

  scores_are_read(warpgroup);
  for (int items = 0;; ++items) {
    barrier_wait(barriers.keys_full(), items & 1);
    const Item item = *told;
    if (item.count == 0) return await_readers(warpgroup);
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) dk[i] = dv[i] = 0;
    // What a tile's products leave: its rows are free again, and dQ's part goes on, as it lies in the registers,
    // sixteen bytes a thread at a time.
    const auto hand_over = [&](const Turn& of) {
      release(barriers.rows_empty(of.stage()));
      barrier_wait(barriers.part_empty(of.stage()), of.parity() ^ 1);
      const uint32_t to = shared + L::kPartsAt + of.stage() * L::kPartBytes + warpgroup * (L::kPartBytes / 2) +
                          thread * 16;
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * kWarpgroup * 16), "f"(dq[4 * i]),
                     "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                     : "memory");
      }
      fence_async_proxy();
      release(barriers.part_full(of.stage()));
    };
    multiply_queries();
    products_wait<0>();
    hold(s);
    for (int tile = item.first + item.count - 1;; --tile) {
      const int stage = turn.stage();
      const uint32_t queries = shared + L::kQueriesAt + stage * L::kRowsBytes,
                     grads = shared + L::kGradsAt + stage * L::kRowsBytes;
      hold(dp);
      products_begin();
      multiply(dp, shared + L::kValuesAt, grads);

      // P. A thread's rows are neighbours in pairs.
      const auto* statistics = reinterpret_cast<const float4*>(base + L::kStatisticsAt + stage * L::kStatisticsBytes) +
                               lane % 4;
      // Of the block's keys, those that the tile's first token sees; each further one sees one more, or none.
      const bool all = item.full != 0 || tile >= item.own;
      const int seen = (all ? item.keys : tile * tile_tokens + 1) - item.block * kKeys;
      if (seen < kKeys) {
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) {
          const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key + i / 2 % 2 * 8 >= seen + (all ? 0 : row / group)) s[i] = -FLT_MAX;
        }
      }
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
        const float4 of = statistics[4 * n];
#pragma unroll
        for (int i = 4 * n; i < 4 * n + 4; ++i) s[i] = power_of_two(fmaf(s[i], scale, i % 2 == 0 ? -of.x : -of.z));
      }
#pragma unroll
      for (int step = 0; step < kRows / 16; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) p[step][i] = pack(s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
      }
      hold(p);
      hold(dv);
      products_begin();
#pragma unroll
      for (int step = 0; step < kRows / 16; ++step)
        add_product(dv, p[step], operand(grads + step * 16 * kRowBytes, kRows * kRowBytes));
      products_commit();
      products_wait<1>();
      hold(dp);

      // dS^T, to where both warpgroups and the products find it.
      await_readers(warpgroup);
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
        const float4 less = statistics[4 * n];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = 4 * n + 2 * half, of = key + 8 * half;
          const uint32_t pair = pack(s[i] * (dp[i] - less.y), s[i + 1] * (dp[i + 1] - less.w));
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + L::kScoresAt + of * kRowBytes +
                                                       ((n ^ (of & 7)) * 16 + lane % 4 * 4)),
                       "r"(pair)
                       : "memory");
        }
      }
      fence_async_proxy();
      consumers_meet();
      hold(dk);
      hold(dq);
      products_begin();
#pragma unroll
      for (int step = 0; step < kRows / 16; ++step)
        add_product(dk, operand(shared + L::kScoresAt + warpgroup * 64 * kRowBytes + step * 32),
                    operand(queries + step * 16 * kRowBytes, kRows * kRowBytes));
#pragma unroll
      for (int step = 0; step < kKeys / 16; ++step) {
        const uint32_t columns = shared + L::kKeysAt + warpgroup * (kHeadDim == 128 ? kKeys * kRowBytes : 64);
        product_of_rows(dq, operand(shared + L::kScoresAt + step * 16 * kRowBytes),
                        operand(columns + step * 16 * kRowBytes), step > 0);
      }
      products_commit();

      const Turn done = turn;
      ++turn.n;
      products_wait<0>();
      hold(dq);
      hold(dk);
      hold(dv);
      scores_are_read(warpgroup);
      if (tile == item.first) {
        hand_over(done);
        break;
      }
      multiply_queries();
      hand_over(done);
      products_wait<0>();  // nothing is in flight from one round to the next: the compiler would serialise all products
      hold(s);
    }
    release(barriers.keys_empty());
    store(a.dk, dk, item, a.scale);
    store(a.dv, dv, item, 1);
  }
}
#endif

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    attention_backward_kernel(const __grid_constant__ AttentionBackwardArgs a, const __grid_constant__ Maps maps,
                              const __grid_constant__ Scratch scratch, float scale) {
#if TF_HOPPER
  using L = Layout<kHeadDim>;
  extern __shared__ uint8_t shared_bytes[];
  const uint32_t shared = (shared_address(shared_bytes) + 1023) / 1024 * 1024;
  uint8_t* const base = shared_bytes + (shared - shared_address(shared_bytes));
  Item* told = reinterpret_cast<Item*>(base + L::kItemAt);
  const Barriers barriers{shared + L::kBarriersAt};
  const int tile_tokens = kRows / static_cast<int>(a.heads / a.kv_heads);
  // Rows that no box writes, where a tile has fewer than 64, are zeros.
  for (int i = threadIdx.x; i < 2 * kStages * L::kRowsBytes / 16; i += kThreads)
    reinterpret_cast<uint4*>(base + L::kQueriesAt)[i] = make_uint4(0, 0, 0, 0);
  fence_async_proxy();
  if (threadIdx.x == 0) {
    constexpr int kWarps = kConsumers * kWarpgroup / kWarp;
    barrier_init(barriers.keys_full(), 1);
    barrier_init(barriers.keys_empty(), kWarps + 1);  // and who adds the parts
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(barriers.rows_full(stage), 1);
      barrier_init(barriers.rows_empty(stage), kWarps);
      barrier_init(barriers.part_full(stage), kWarps);
      barrier_init(barriers.part_empty(stage), 1);
    }
    barrier_init_done();
  }
  wait_for_previous();
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    registers_down<24>();  // all together no more than at the start, 168 a thread
    if (threadIdx.x < kWarp) fetch<kHeadDim>(a, maps, scratch, told, shared, barriers, tile_tokens);
    else if (threadIdx.x == kWarp) add_parts<kHeadDim>(a, scratch, told, shared, barriers);
  } else {
    registers_up<240>();
    compute<kHeadDim>(a, told, shared, base, barriers, tile_tokens, scale);
  }
#endif
}

// dQ from the order in which parts lie, scaled and rounded. A block a tile and kv head.
template <int kHeadDim>
__global__ void __launch_bounds__(kConsumers* kWarpgroup) end_kernel(AttentionBackwardArgs a, const float* sums) {
  allow_next();
  wait_for_previous();
  const AttentionBackwardTile tile = a.tiles[blockIdx.x];
  const int group = static_cast<int>(a.heads / a.kv_heads), head = blockIdx.y;
  const int warpgroup = threadIdx.x / kWarpgroup, thread = threadIdx.x % kWarpgroup, lane = threadIdx.x % kWarp;
  const auto* from = reinterpret_cast<const float4*>(sums +
                                                     (int64_t{blockIdx.x} * a.kv_heads + head) * (kRows * kHeadDim)) +
                     warpgroup * (kRows * kHeadDim / 8) + thread;
  float4 c[kHeadDim / 16];
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) c[i] = from[i * kWarpgroup];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = thread / kWarp * 16 + lane / 4 + 8 * half, token = row / group;
    auto* out = reinterpret_cast<uint4*>(a.dq +
                                         (int64_t{tile.row + token} * a.heads + head * group + row % group) * kHeadDim +
                                         warpgroup * (kHeadDim / 2)) +
                lane % 4;
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; n += 4) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4& x = c[n + i];
        pairs[i] = half == 0 ? pack(x.x * a.scale, x.y * a.scale) : pack(x.z * a.scale, x.w * a.scale);
      }
      const uint4 eight = transpose_in_quad(pairs);  // all lanes take part
      if (token < tile.tokens) out[n] = eight;
    }
  }
}

size_t aligned(size_t bytes) { return ceil_div<size_t>(bytes, 256) * 256; }
size_t counter_bytes(const AttentionBackwardArgs& a) {
  return aligned(sizeof(int) * static_cast<size_t>(4 + a.kv_heads * a.tile_count));
}
size_t statistics_bytes(const AttentionBackwardArgs& a) {
  return aligned(sizeof(float2) * static_cast<size_t>(a.tile_count * a.kv_heads * kRows));
}

template <int kHeadDim>
int run(const AttentionBackwardArgs& a, Stream stream) {
  auto* bytes = static_cast<uint8_t*>(a.workspace);
  auto* counters = reinterpret_cast<int*>(bytes);
  const Scratch scratch{.counters = counters,
                        .added = counters + 4,
                        .statistics = reinterpret_cast<float2*>(bytes + counter_bytes(a)),
                        .sums = reinterpret_cast<float*>(bytes + counter_bytes(a) + statistics_bytes(a))};
  int error = check(cudaMemsetAsync(counters, 0, counter_bytes(a), stream), "attention_backward");
  if (error != 0) return error;
  const dim3 tiles(static_cast<unsigned>(a.tile_count), static_cast<unsigned>(a.kv_heads));
  error = launch("attention_backward: begin", begin_kernel, tiles, kBeginThreads, 0, stream, a, scratch.statistics);
  if (error != 0) return error;

  const auto kernel = attention_backward_kernel<kHeadDim>;
  constexpr int kBytes = Layout<kHeadDim>::kBytes;
  error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                "attention_backward: shared memory");
  const auto group = static_cast<uint32_t>(a.heads / a.kv_heads);
  const auto heads = static_cast<uint64_t>(a.heads), kv_heads = static_cast<uint64_t>(a.kv_heads),
             tokens = static_cast<uint64_t>(a.tokens), pages = static_cast<uint64_t>(a.pages);
  Maps maps;
  for (const auto& [map, tensor] : {std::pair{&maps.queries, a.q}, std::pair{&maps.grads, a.d_out}}) {
    if (error == 0) error = tensor_map(map, tensor, {kHeadDim, heads, tokens}, {64, group, kRows / group});
  }
  for (const auto& [map, tensor] : {std::pair{&maps.keys, a.keys}, std::pair{&maps.values, a.values}}) {
    if (error == 0) error = tensor_map(map, tensor, {kHeadDim, kPage, kv_heads, pages}, {64, kPage, 1, kKeys / kPage});
  }
  if (error != 0) return error;
  const int64_t items = a.item_count * a.kv_heads;
  error = launch("attention_backward", kernel, dim3(static_cast<unsigned>(std::min<int64_t>(items, multiprocessors()))),
                 kThreads, kBytes, stream, a, maps, scratch, a.scale * kLog2E);
  if (error != 0) return error;
  return launch("attention_backward: end", end_kernel<kHeadDim>, tiles, kConsumers * kWarpgroup, 0, stream, a,
                scratch.sums);
}

}  // namespace

size_t attention_backward_workspace(const AttentionBackwardArgs* a) {
  return counter_bytes(*a) + statistics_bytes(*a) +
         sizeof(float) * static_cast<size_t>(a->tile_count * a->kv_heads * kRows * a->head_dim);
}

int attention_backward(const AttentionBackwardArgs* a, Stream stream) {
  TF_REQUIRE(compute_major() == 9, "attention_backward: for Hopper alone");
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "attention_backward: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE(a->kv_heads > 0 && a->heads % a->kv_heads == 0 && a->heads / a->kv_heads <= 16,
             "attention_backward: %ld heads over %ld kv heads", static_cast<long>(a->heads),
             static_cast<long>(a->kv_heads));
  if (a->item_count == 0) return 0;
  return a->head_dim == 64 ? run<64>(*a, stream) : run<128>(*a, stream);
}

}  // namespace tritonforge::gpu
