// prefill_attention() on Hopper: the scheme of FlashAttention-3 (Shah et al. 2024) with pages of the cache fetched by
// the copy engine. One block a multiprocessor takes work item after work item: a tile of rows of one kv head of one
// sequence. A warp fetches queries, keys and values, also those of the next item while this one ends; two warpgroups
// compute 64 rows each: the scores of the next keys and the sum over the last values are in the tensor cores while the
// exponentials are taken.
//
// A row is a query head of a token: all heads that share a kv head stand in one tile. Long tiles of a sequence come
// first.
#include <cfloat>

#include "kernels/gpu/hopper.cuh"
#include "kernels/gpu/tensor_map.h"

namespace tritonforge::gpu {
namespace {

constexpr int kConsumers = 2, kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kRows = kConsumers * 64, kKeys = 128, kTilePages = kKeys / kPage, kStages = 2;
constexpr int kRowBytes = 128;  // 64 elements: what one column of boxes in shared memory is wide
constexpr int kMostSequences = 1024;

// What one block computes next, told by the warp that fetches. `row`: of q and out, of its first token, which is at
// `position` of the sequence. No tiles: nothing is left.
struct Item {
  int sequence, head, row, position, tokens, keys, tiles;
};

template <int kHeadDim>
struct Layout {  // of shared memory, in bytes
  static constexpr int kColumns = kHeadDim / 64;
  static constexpr int kQueryBytes = kRows * kHeadDim * 2, kTileBytes = kKeys * kHeadDim * 2;
  static constexpr int kKeysAt = kQueryBytes, kValuesAt = kKeysAt + kStages * kTileBytes;
  static constexpr int kBarriersAt = kValuesAt + kStages * kTileBytes;
  static constexpr int kItemsAt = kBarriersAt + 128, kFirstAt = kItemsAt + 64;
  static_assert(2 * sizeof(Item) <= 64);
  static constexpr int kBytes = kFirstAt + (kMostSequences + 1) * 4 + 1024;  // the start is put at a multiple of 1024
};

struct Maps {
  TensorMap queries, keys, values;
};

#if TF_HOPPER
// first[s] = tiles of rows of the sequences before s, by one warp.
__device__ inline void count_tiles(int* first, const PrefillAttentionArgs& a, int tile_tokens) {
  const int sequences = static_cast<int>(a.sequences), lane = threadIdx.x % kWarp;
  int before = 0;
  for (int base = 0; base < sequences; base += kWarp) {
    const int s = base + lane;
    const int own = s < sequences ? ceil_div(a.query_starts[s + 1] - a.query_starts[s], tile_tokens) : 0;
    int sum = own;
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, offset);
      if (lane >= offset) sum += other;
    }
    if (s < sequences) first[s] = before + sum - own;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  if (lane == 0) first[sequences] = before;
}

__device__ inline Item item_of(int index, const int* first, const PrefillAttentionArgs& a, int tile_tokens) {
  const int kv_heads = static_cast<int>(a.kv_heads), unit = index / kv_heads;
  int s = 0, above = static_cast<int>(a.sequences);
  while (above - s > 1) {
    const int middle = (s + above) / 2;
    if (first[middle] <= unit) s = middle;
    else above = middle;
  }
  const int count = a.query_starts[s + 1] - a.query_starts[s], length = a.lengths[s];
  const int first_token = (first[s + 1] - 1 - unit) * tile_tokens;
  Item item{.sequence = s, .head = index % kv_heads, .row = a.query_starts[s] + first_token};
  item.position = length - count + first_token;
  item.tokens = min(tile_tokens, count - first_token);
  item.keys = item.position + item.tokens;
  item.tiles = ceil_div(item.keys, kKeys);
  return item;
}

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct Barriers {
  uint32_t at;
  __device__ uint32_t queries_full() const { return at; }
  __device__ uint32_t queries_empty() const { return at + 8; }
  __device__ uint32_t keys_full(int stage) const { return at + 16 + stage * 8; }
  __device__ uint32_t keys_empty(int stage) const { return at + 16 + (kStages + stage) * 8; }
  __device__ uint32_t values_full(int stage) const { return at + 16 + (2 * kStages + stage) * 8; }
  __device__ uint32_t values_empty(int stage) const { return at + 16 + (3 * kStages + stage) * 8; }
};

// The n-th fill of a ring of kStages: where it lies and which phase of its barriers it is.
struct Turn {
  int n = 0;
  __device__ int stage() const { return n % kStages; }
  __device__ int parity() const { return n / kStages & 1; }
};

// One warp: queries, keys and values of every item of this block.
template <int kHeadDim>
__device__ void fetch_items(const PrefillAttentionArgs& a, const Maps& maps, int* first, Item* items, uint32_t shared,
                            Barriers barriers, int tile_tokens) {
  using L = Layout<kHeadDim>;
  const int kv_heads = static_cast<int>(a.kv_heads), group = static_cast<int>(a.heads) / kv_heads,
            lane = threadIdx.x % kWarp;
  count_tiles(first, a, tile_tokens);
  __syncwarp();
  const int total = first[a.sequences] * kv_heads;
  Turn turn;
  // Items differ in length: who is done takes the next one. The last block to end sets the counters back.
  int* const taken = a.workspace;
  int* const ended = a.workspace + 1;
  for (int index = blockIdx.x, next = 0, item_count = 0;; index = next, ++item_count) {
    if (lane == 0 && index < total) next = static_cast<int>(gridDim.x) + atomicAdd(taken, 1);
    next = __shfl_sync(kAllLanes, next, 0);
    const Item item = index < total ? item_of(index, first, a, tile_tokens) : Item{};
    const int32_t* table = a.block_tables + int64_t{item.sequence} * a.table_width;
    barrier_wait(barriers.queries_empty(), item_count & 1 ^ 1);
    if (lane == 0) items[item_count & 1] = item;  // read after queries_full(), and no more once the next one is full
    if (item.tiles == 0) {
      if (lane == 0) {
        barrier_arrive(barriers.queries_full());
        if (atomicAdd(ended, 1) == static_cast<int>(gridDim.x) - 1) *taken = *ended = 0;
      }
      return;
    }
    if (lane == 0) {
      barrier_expect(barriers.queries_full(), L::kColumns * kRowBytes * group * tile_tokens);
      for (int column = 0; column < L::kColumns; ++column)
        tensor_load(shared + column * kRows * kRowBytes, &maps.queries, barriers.queries_full(), column * 64,
                    item.head * group, item.row);
    }
    for (int tile = 0; tile < item.tiles; ++tile, ++turn.n) {
      const int pages = min(kTilePages, ceil_div(item.keys - tile * kKeys, kPage));
      const int row = lane < pages ? (table[tile * kTilePages + lane] * kv_heads + item.head) * kPage : 0;
      const auto fetch = [&](uint32_t to, const TensorMap& map, uint32_t full, uint32_t empty) {
        barrier_wait(empty, turn.parity() ^ 1);
        if (lane == 0) barrier_expect(full, pages * kPage * kHeadDim * 2);
        __syncwarp();
        if (lane >= pages) return;
        for (int column = 0; column < L::kColumns; ++column)
          tensor_load(to + column * kKeys * kRowBytes + lane * kPage * kRowBytes, &map, full, column * 64, row);
      };
      fetch(shared + L::kKeysAt + turn.stage() * L::kTileBytes, maps.keys, barriers.keys_full(turn.stage()),
            barriers.keys_empty(turn.stage()));
      __syncwarp();
      fetch(shared + L::kValuesAt + turn.stage() * L::kTileBytes, maps.values, barriers.values_full(turn.stage()),
            barriers.values_empty(turn.stage()));
      __syncwarp();
    }
  }
}

// One warpgroup: its 64 rows of every item.
template <int kHeadDim>
__device__ void compute_items(const PrefillAttentionArgs& a, const Item* items, uint32_t shared, Barriers barriers,
                              float scale) {
  using L = Layout<kHeadDim>;
  const int warpgroup = threadIdx.x / kWarpgroup - 1, thread = threadIdx.x % kWarpgroup, lane = threadIdx.x % kWarp,
            group = static_cast<int>(a.heads / a.kv_heads), warp_row = warpgroup * 64 + thread / kWarp * 16;
  const uint32_t queries = shared + warpgroup * 64 * kRowBytes;
  float s[kKeys / 2], o[kHeadDim / 2];  // layout: product()
  uint32_t p[kKeys / 16][4];
  float maximum[2], sum[2], factor[2];  // of rows lane / 4 and lane / 4 + 8; maximum of the scores before the scale
  Turn turn;
  const auto release = [&](uint32_t barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };
  const auto multiply_keys = [&](int stage) {
    barrier_wait(barriers.keys_full(stage), turn.parity());
    const uint32_t keys = shared + L::kKeysAt + stage * L::kTileBytes;
    hold(s);
    hold(o);
    hold(p);
    products_begin();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step)
      product(s, operand(queries + step / 4 * kRows * kRowBytes + step % 4 * 32),
              operand(keys + step / 4 * kKeys * kRowBytes + step % 4 * 32), step > 0);
    products_commit();
  };
  const auto multiply_values = [&](int stage) {
    const uint32_t values = shared + L::kValuesAt + stage * L::kTileBytes;
    products_begin();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
      add_product(o, p[step], operand(values + step * kPage * kRowBytes, kKeys * kRowBytes));
    products_commit();
  };

  int token[2];  // of this thread's two rows, from the tile's first
#pragma unroll
  for (int half = 0; half < 2; ++half) token[half] = (warp_row + half * 8 + lane / 4) / group;
  const int first_token = warp_row / group;
  for (int item_count = 0;; ++item_count) {
    barrier_wait(barriers.queries_full(), item_count & 1);
    const Item item = items[item_count & 1];
    if (item.tiles == 0) return;
    int last_key[2];  // that a row of this thread attends to
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[half] = -FLT_MAX;
      sum[half] = 0;
      last_key[half] = item.position + token[half];
    }
    const int first_last_key = item.position + first_token;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) o[i] = 0;

    // s becomes exp2(s * scale - maximum), the sums go on, factor says what the earlier ones shrink by.
    const auto soften = [&](int tile) {
      const bool masked = (tile + 1) * kKeys > first_last_key + 1;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = maximum[half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& x = s[4 * n + 2 * half + j];
            if (masked && tile * kKeys + n * 8 + lane % 4 * 2 + j > last_key[half]) x = -FLT_MAX;
            top = fmaxf(top, x);
          }
        }
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
        factor[half] = power_of_two((maximum[half] - top) * scale);
        maximum[half] = top;
        const float offset = top * scale;
        float added = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& x = s[4 * n + 2 * half + j];
            x = power_of_two(fmaf(x, scale, -offset));
            added += x;
          }
        }
        sum[half] = sum[half] * factor[half] + added;
      }
    };
    const auto to_operand = [&] {  // of the next products, none of which is in flight
#pragma unroll
      for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) p[step][i] = pack(s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
      }
    };

    multiply_keys(turn.stage());
    products_wait<0>();
    hold(s);
    release(barriers.keys_empty(turn.stage()));
    if (item.tiles == 1) release(barriers.queries_empty());
    soften(0);
    to_operand();
    for (int tile = 1; tile < item.tiles; ++tile) {
      const Turn last = turn;
      ++turn.n;
      multiply_keys(turn.stage());
      barrier_wait(barriers.values_full(last.stage()), last.parity());
      multiply_values(last.stage());
      products_wait<1>();
      hold(s);
      release(barriers.keys_empty(turn.stage()));
      if (tile + 1 == item.tiles) release(barriers.queries_empty());
      soften(tile);
      products_wait<0>();
      hold(o);
      release(barriers.values_empty(last.stage()));
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) o[i] *= factor[i / 2 % 2];
      to_operand();
    }

    // The last values: rows of nobody become zeros, as what lies there may be NaN, and 0 * NaN is NaN.
    barrier_wait(barriers.values_full(turn.stage()), turn.parity());
    if (const int valid = item.keys - (item.tiles - 1) * kKeys; valid < kKeys) {
      const uint32_t values = shared + L::kValuesAt + turn.stage() * L::kTileBytes;
      for (int column = 0; column < L::kColumns; ++column) {
        for (int at = valid * kRowBytes + thread * 16; at < kKeys * kRowBytes; at += kWarpgroup * 16)
          asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(values + column * kKeys * kRowBytes + at),
                       "r"(0)
                       : "memory");
      }
      fence_async_proxy();
      warpgroup_sync(1 + warpgroup);
    }
    multiply_values(turn.stage());
    products_wait<0>();
    hold(o);
    release(barriers.values_empty(turn.stage()));
    ++turn.n;

    // Each row divided by its sum, straight to memory.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float whole = sum[half];
      whole += __shfl_xor_sync(kAllLanes, whole, 1);
      whole += __shfl_xor_sync(kAllLanes, whole, 2);
      const int row = warp_row + half * 8 + lane / 4;
      // Rows of one token are neighbours, as are its heads.
      const int64_t at = int64_t{item.row} * a.heads + token[half] * (a.heads - group) + item.head * group + row;
      auto* out = reinterpret_cast<uint4*>(a.out + at * kHeadDim) + lane % 4;
      const float share = 1.0f / whole;
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; n += 4) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          pairs[i] = pack(o[4 * (n + i) + 2 * half] * share, o[4 * (n + i) + 2 * half + 1] * share);
        const uint4 eight = transpose_in_quad(pairs);  // all lanes take part
        if (row < item.tokens * group) out[n] = eight;
      }
    }
  }
}
#endif

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_attention_hopper_kernel(const __grid_constant__ PrefillAttentionArgs a, const __grid_constant__ Maps maps,
                                    float scale) {
#if TF_HOPPER
  using L = Layout<kHeadDim>;
  extern __shared__ uint8_t shared_bytes[];
  const uint32_t shared = (shared_address(shared_bytes) + 1023) / 1024 * 1024;
  uint8_t* const base = shared_bytes + (shared - shared_address(shared_bytes));
  int* first = reinterpret_cast<int*>(base + L::kFirstAt);
  Item* items = reinterpret_cast<Item*>(base + L::kItemsAt);  // two, in turn
  const Barriers barriers{shared + L::kBarriersAt};
  const int tile_tokens = kRows / static_cast<int>(a.heads / a.kv_heads);
  if (threadIdx.x == 0) {
    constexpr int kWarps = kConsumers * kWarpgroup / kWarp;
    barrier_init(barriers.queries_full(), 1);
    barrier_init(barriers.queries_empty(), kWarps);
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(barriers.keys_full(stage), 1);
      barrier_init(barriers.values_full(stage), 1);
      barrier_init(barriers.keys_empty(stage), kWarps);
      barrier_init(barriers.values_empty(stage), kWarps);
    }
    barrier_init_done();
  }
  allow_next();
  wait_for_previous();
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    registers_down<24>();
    if (threadIdx.x < kWarp) fetch_items<kHeadDim>(a, maps, first, items, shared, barriers, tile_tokens);
  } else {
    registers_up<240>();
    compute_items<kHeadDim>(a, items, shared, barriers, scale);
  }
#endif
}

template <int kHeadDim>
int run(const PrefillAttentionArgs& a, Stream stream) {
  const auto kernel = prefill_attention_hopper_kernel<kHeadDim>;
  constexpr int kBytes = Layout<kHeadDim>::kBytes;
  if (const int error = check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                              "prefill_attention: shared memory"))
    return error;
  // A block of the cache and one head: kPage rows. How many there are is not told and not asked: none beyond is read.
  constexpr uint64_t kCacheRows = uint64_t{1} << 31;
  const auto group = static_cast<uint32_t>(a.heads / a.kv_heads);
  Maps maps;
  if (const int error = tensor_map(&maps.queries, a.q,
                                   {kHeadDim, static_cast<uint64_t>(a.heads), static_cast<uint64_t>(a.tokens)},
                                   {64, group, kRows / group}))
    return error;
  if (const int error = tensor_map(&maps.keys, a.cache.keys, {kHeadDim, kCacheRows}, {64, kPage})) return error;
  if (const int error = tensor_map(&maps.values, a.cache.values, {kHeadDim, kCacheRows}, {64, kPage})) return error;
  return launch("prefill_attention", kernel, dim3(static_cast<unsigned>(multiprocessors())), kThreads, kBytes, stream,
                a, maps, a.scale * 1.4426950408889634f);
}

}  // namespace

bool prefill_attention_hopper_can(const PrefillAttentionArgs& a) {
  return compute_major() == 9 && a.sequences <= kMostSequences && a.heads / a.kv_heads <= kRows;
}

int prefill_attention_hopper(const PrefillAttentionArgs& a, Stream stream) {
  return a.head_dim == 64 ? run<64>(a, stream) : run<128>(a, stream);
}

}  // namespace tritonforge::gpu
