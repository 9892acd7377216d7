// prefill_attention() on Hopper: the scheme of FlashAttention-3 (Shah et al. 2024) with pages of the cache fetched by
// the copy engine. One block a multiprocessor takes work item after work item: a tile of rows of one kv head of one
// sequence. A warp fetches queries and keys, another one values, both as far ahead as there is room, also those of the
// next item. Two warpgroups compute 64 rows each, in turn: while one's products are in the tensor cores (the scores of
// the next keys, of the next item's first ones too, and the sum over the last values) the other takes exponentials.
//
// A row is a query head of a token: all heads that share a kv head stand in one tile. Long tiles of a sequence come
// first.
#include <algorithm>
#include <cfloat>

#include "kernels/gpu/hopper.cuh"
#include "kernels/gpu/tensor_map.h"

namespace tritonforge::gpu {
namespace {

constexpr int kConsumers = 2, kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kRows = kConsumers * 64, kKeys = 128, kTilePages = kKeys / kPage, kStages = 2;
constexpr int kRowBytes = 128;        // 64 elements: what one column of boxes in shared memory is wide
constexpr int kMostSequences = 2048;  // of a launch: the table of their tiles is in shared memory

// What one block computes next, told by the warp that fetches. `row`: of q and out, of its first token, which sees the
// keys up to `position`, and each further one one key more, at most all `keys`. No tiles: nothing is left.
struct Item {
  int sequence, head, row, position, tokens, keys, tiles;
};

template <int kHeadDim>
struct Layout {  // of shared memory, in bytes
  static constexpr int kColumns = kHeadDim / 64;
  static constexpr int kQueryBytes = kRows * kHeadDim * 2, kTileBytes = kKeys * kHeadDim * 2;
  static constexpr int kPageBytes = kPage * kHeadDim * 2;  // of values: one page after another, columns within a page
  static constexpr int kKeysAt = 2 * kQueryBytes, kValuesAt = kKeysAt + kStages * kTileBytes;
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
    const bool any = s < sequences && !(a.full && a.lengths[s] == 0);
    const int own = any ? ceil_div(a.query_starts[s + 1] - a.query_starts[s], tile_tokens) : 0;
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
  item.position = a.full ? length - 1 : length - count + first_token;
  item.tokens = min(tile_tokens, count - first_token);
  item.keys = a.full ? length : item.position + item.tokens;
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
  __device__ uint32_t queries_full(int stage) const { return at + stage * 8; }
  __device__ uint32_t queries_empty(int stage) const { return at + (kStages + stage) * 8; }
  __device__ uint32_t keys_full(int stage) const { return at + (2 * kStages + stage) * 8; }
  __device__ uint32_t keys_empty(int stage) const { return at + (3 * kStages + stage) * 8; }
  __device__ uint32_t values_full(int stage) const { return at + (4 * kStages + stage) * 8; }
  __device__ uint32_t values_empty(int stage) const { return at + (5 * kStages + stage) * 8; }
};

// The n-th fill of a ring of kStages (items with their queries, keys, values): where it lies and which phase of its
// barriers it is.
struct Turn {
  int n = 0;
  __device__ int stage() const { return n % kStages; }
  __device__ int parity() const { return n / kStages & 1; }
};

// A tile's pages of keys or values, by one warp: load(page, row) fetches what lies from that row of the cache on. Pages
// beyond the item's keys repeat the tile's first one, so that the last products need not know how many there are.
template <int kHeadDim, typename Load>
__device__ void fetch_tile(const PrefillAttentionArgs& a, const Item& item, int tile, uint32_t full, uint32_t empty,
                           int parity, Load load) {
  const int pages = ceil_div(item.keys - tile * kKeys, kPage), page = threadIdx.x % kWarp;
  const int32_t* table = a.block_tables + int64_t{item.sequence} * a.table_width + tile * kTilePages;
  const int row = (table[page < min(pages, kTilePages) ? page : 0] * static_cast<int>(a.kv_heads) + item.head) * kPage;
  barrier_wait(empty, parity ^ 1);
  if (page == 0) barrier_expect(full, Layout<kHeadDim>::kTileBytes);
  __syncwarp();
  if (page < kTilePages) load(page, row);
  __syncwarp();
}

// One warp: which items this block computes, their queries and keys.
template <int kHeadDim>
__device__ void fetch_keys(const PrefillAttentionArgs& a, const Maps& maps, int* first, Item* items, uint32_t shared,
                           Barriers barriers, int tile_tokens) {
  using L = Layout<kHeadDim>;
  const int kv_heads = static_cast<int>(a.kv_heads), group = static_cast<int>(a.heads) / kv_heads,
            lane = threadIdx.x % kWarp;
  count_tiles(first, a, tile_tokens);
  __syncwarp();
  const int total = first[a.sequences] * kv_heads;
  Turn turn, items_turn;
  // Items differ in length: who is done takes the next one. The last block to end sets the counters back.
  int* const taken = a.workspace;
  int* const ended = a.workspace + 1;
  for (int index = blockIdx.x;; ++items_turn.n) {
    int next = 0;
    if (lane == 0 && index < total) next = static_cast<int>(gridDim.x) + atomicAdd(taken, 1);  // looked at below
    const Item item = index < total ? item_of(index, first, a, tile_tokens) : Item{};
    const uint32_t full = barriers.queries_full(items_turn.stage());
    barrier_wait(barriers.queries_empty(items_turn.stage()), items_turn.parity() ^ 1);
    if (lane == 0) items[items_turn.stage()] = item;  // read after queries_full(), before queries_empty()
    if (item.tiles == 0) {
      if (lane == 0) {
        barrier_arrive(full);
        if (atomicAdd(ended, 1) == static_cast<int>(gridDim.x) - 1) *taken = *ended = 0;
      }
      return;
    }
    if (lane == 0) {
      barrier_expect(full, L::kColumns * kRowBytes * group * tile_tokens);
      for (int column = 0; column < L::kColumns; ++column)
        tensor_load(shared + items_turn.stage() * L::kQueryBytes + column * kRows * kRowBytes, &maps.queries, full,
                    column * 64, item.head * group, item.row);
    }
    __syncwarp();
    for (int tile = 0; tile < item.tiles; ++tile, ++turn.n) {
      const uint32_t to = shared + L::kKeysAt + turn.stage() * L::kTileBytes, keys = barriers.keys_full(turn.stage());
      fetch_tile<kHeadDim>(a, item, tile, keys, barriers.keys_empty(turn.stage()), turn.parity(),
                           [&](int page, int row) {
                             for (int column = 0; column < L::kColumns; ++column)
                               tensor_load(to + column * kKeys * kRowBytes + page * kPage * kRowBytes, &maps.keys, keys,
                                           column * 64, row);
                           });
    }
    index = __shfl_sync(kAllLanes, next, 0);
  }
}

// Another warp: the values of the same items.
template <int kHeadDim>
__device__ void fetch_values(const PrefillAttentionArgs& a, const Maps& maps, const Item* items, uint32_t shared,
                             Barriers barriers) {
  using L = Layout<kHeadDim>;
  for (Turn turn, items_turn;; ++items_turn.n) {
    barrier_wait(barriers.queries_full(items_turn.stage()), items_turn.parity());
    const Item item = items[items_turn.stage()];
    __syncwarp();
    if (threadIdx.x % kWarp == 0) barrier_arrive(barriers.queries_empty(items_turn.stage()));
    if (item.tiles == 0) return;
    for (int tile = 0; tile < item.tiles; ++tile, ++turn.n) {
      const uint32_t to = shared + L::kValuesAt + turn.stage() * L::kTileBytes,
                     values = barriers.values_full(turn.stage());
      fetch_tile<kHeadDim>(
          a, item, tile, values, barriers.values_empty(turn.stage()), turn.parity(),
          [&](int page, int row) { tensor_load(to + page * L::kPageBytes, &maps.values, values, 0, row, 0); });
    }
  }
}

// The two warpgroups queue their products in turn, so that one takes exponentials while the other multiplies.
static_assert(kConsumers == 2);
__device__ inline void take_turn(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + kConsumers + warpgroup), "n"(kConsumers * kWarpgroup) : "memory");
}
__device__ inline void give_turn(int warpgroup) {
  asm volatile("bar.arrive %0, %1;" ::"r"(1 + kConsumers + warpgroup), "n"(kConsumers * kWarpgroup) : "memory");
}

// One warpgroup: its 64 rows of every item. Items follow each other without a gap: the first scores of one are in the
// tensor cores together with the last sum of the one before.
template <int kHeadDim>
__device__ void compute_items(const PrefillAttentionArgs& a, const Item* items, uint32_t shared, Barriers barriers,
                              float scale) {
  using L = Layout<kHeadDim>;
  // From one lane, so that the compiler knows it to be the same in all: descriptors stay in uniform registers.
  const int warpgroup = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0),
            thread = threadIdx.x % kWarpgroup, lane = threadIdx.x % kWarp,
            group = static_cast<int>(a.heads / a.kv_heads), warp_row = warpgroup * 64 + thread / kWarp * 16;
  float s[kKeys / 2], o[kHeadDim / 2];  // layout: product()
  uint32_t p[kKeys / 16][4];
  float maximum[2], sum[2], factor[2];  // of rows lane / 4 and lane / 4 + 8; maximum of the scores before the scale
  int token[2];                         // of this thread's two rows, from the tile's first
#pragma unroll
  for (int half = 0; half < 2; ++half) token[half] = (warp_row + half * 8 + lane / 4) / group;
  const int first_token = warp_row / group;
  Turn turn, items_turn;  // of keys and values; of items
  const auto release = [&](uint32_t barrier) {
    if (lane == 0) barrier_arrive(barrier);
  };
  const auto next_item = [&] {
    barrier_wait(barriers.queries_full(items_turn.stage()), items_turn.parity());
    return items[items_turn.stage()];
  };
  const auto multiply_keys = [&] {
    barrier_wait(barriers.keys_full(turn.stage()), turn.parity());
    const uint32_t queries = shared + items_turn.stage() * L::kQueryBytes + warpgroup * 64 * kRowBytes,
                   keys = shared + L::kKeysAt + turn.stage() * L::kTileBytes;
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
  const auto keys_are_read = [&](bool last_of_item) {
    hold(s);
    release(barriers.keys_empty(turn.stage()));
    if (last_of_item) release(barriers.queries_empty(items_turn.stage()));
  };
  const auto multiply_values = [&](int stage) {
    const uint32_t values = shared + L::kValuesAt + stage * L::kTileBytes;
    products_begin();
#pragma unroll
    for (int page = 0; page < kTilePages; ++page)
      add_product(o, p[page], operand(values + page * L::kPageBytes, kPage * kRowBytes));
    products_commit();
  };
  // The values of a tile are there. From an item's last page on (what follows repeats the tile's first one) rows of
  // nobody become zeros, as what lies there may be NaN, and 0 * NaN is NaN.
  const auto await_values = [&](const Item& item, int tile) {
    barrier_wait(barriers.values_full(turn.stage()), turn.parity());
    const int valid = item.keys % kPage;
    if (valid == 0 || tile + 1 < item.tiles) return;
    const uint32_t values = shared + L::kValuesAt + turn.stage() * L::kTileBytes;
    static_assert(kWarpgroup * 16 == kPage * kRowBytes);  // a column of a page at once
    for (int column = (item.keys - tile * kKeys) / kPage * L::kColumns; column < kTilePages * L::kColumns; ++column) {
      if (thread / (kRowBytes / 16) >= valid)
        asm volatile(
            "st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(values + column * kPage * kRowBytes + thread * 16), "r"(0)
            : "memory");
    }
    fence_async_proxy();
    warpgroup_sync(1 + warpgroup);
  };

  // s becomes exp2(s * scale - maximum), the sums go on, factor says what the earlier ones shrink by.
  const auto soften = [&](const Item& item, int tile) {
    if (tile == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum[half] = -FLT_MAX;
        sum[half] = 0;
      }
    }
    if ((tile + 1) * kKeys > min(item.position + first_token + 1, item.keys)) {
      const int last[2] = {min(item.position + token[0], item.keys - 1), min(item.position + token[1], item.keys - 1)};
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        if (tile * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2 > last[i / 2 % 2]) s[i] = -FLT_MAX;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = maximum[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) top = fmaxf(top, fmaxf(s[4 * n + 2 * half], s[4 * n + 2 * half + 1]));
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
  // Each row of an item divided by its sum, straight to memory.
  const auto store = [&](const Item& item, const float(&maxima)[2], const float(&sums)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float whole = sums[half];
      whole += __shfl_xor_sync(kAllLanes, whole, 1);
      whole += __shfl_xor_sync(kAllLanes, whole, 2);
      const int row = warp_row + half * 8 + lane / 4;
      // Rows of one token are neighbours, as are its heads.
      const int64_t at = int64_t{item.row} * a.heads + token[half] * (a.heads - group) + item.head * group + row;
      auto* out = reinterpret_cast<uint4*>(a.out + at * kHeadDim) + lane % 4;
      const float share = __fdividef(1.0f, whole);
      if (a.statistics != nullptr && lane % 4 == 0 && row < item.tokens * group) {
        a.statistics[int64_t{item.row} * a.heads + token[half] * (a.heads - group) + item.head * group + row] =
            maxima[half] * scale + log2f(whole);
      }
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
  };

  Item item = next_item();
  if (item.tiles == 0) return;
#pragma unroll
  for (float& x : o) x = 0;
  if (warpgroup == 1) give_turn(0);
  take_turn(warpgroup);
  multiply_keys();
  give_turn(1 - warpgroup);
  products_wait<0>();
  keys_are_read(item.tiles == 1);
  soften(item, 0);
  await_values(item, 0);
  to_operand();
  for (int tile = 0;;) {
    // p is of this tile, o is the sum over the tiles before.
    const bool ends = tile + 1 == item.tiles;
    Item next = item;
    int next_tile = tile + 1;
    if (ends) {
      ++items_turn.n;
      next = next_item();
      next_tile = 0;
      if (next.tiles == 0) break;
    }
    const float maxima[2] = {maximum[0], maximum[1]}, sums[2] = {sum[0], sum[1]};
    const Turn values = turn;
    ++turn.n;
    take_turn(warpgroup);
    multiply_keys();
    multiply_values(values.stage());
    give_turn(1 - warpgroup);
    products_wait<1>();
    keys_are_read(next_tile + 1 == next.tiles);
    soften(next, next_tile);
    hold(s);  // and the branch behind it: no exponential is left for after the wait
    await_values(next, next_tile);
    products_wait<0>();
    hold(o);
    release(barriers.values_empty(values.stage()));
    if (ends) {
      store(item, maxima, sums);
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) o[i] = 0;
    } else {
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) o[i] *= factor[i / 2 % 2];
    }
    to_operand();
    item = next;
    tile = next_tile;
  }
  multiply_values(turn.stage());
  products_wait<0>();
  hold(o);
  store(item, maximum, sum);
  if (warpgroup == 0) take_turn(0);  // the other's last giving
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
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(barriers.queries_full(stage), 1);
      barrier_init(barriers.queries_empty(stage), kWarps + 1);  // and who fetches values
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
    registers_down<32>();  // all together no more than at the start, 168 a thread: registers_up() would wait for ever
    if (threadIdx.x < kWarp) fetch_keys<kHeadDim>(a, maps, first, items, shared, barriers, tile_tokens);
    else if (threadIdx.x < 2 * kWarp) fetch_values<kHeadDim>(a, maps, items, shared, barriers);
  } else {
    registers_up<232>();
    compute_items<kHeadDim>(a, items, shared, barriers, scale);
  }
#endif
}

PrefillAttentionArgs part_of(const PrefillAttentionArgs& whole, int64_t begin) {
  PrefillAttentionArgs part = whole;
  part.sequences = std::min<int64_t>(whole.sequences - begin, kMostSequences);
  part.query_starts += begin;  // rows of the whole, as are those of q, out and statistics
  part.lengths += begin;
  part.block_tables += begin * whole.table_width;
  return part;
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
  // Both columns of a page at once.
  if (const int error = tensor_map(&maps.values, a.cache.values, {64, {kCacheRows, kHeadDim}, {kHeadDim / 64, 64}},
                                   {64, kPage, kHeadDim / 64}))
    return error;
  const dim3 grid(static_cast<unsigned>(multiprocessors()));
  int error = 0;
  for (int64_t begin = 0; begin < a.sequences && error == 0; begin += kMostSequences)
    error = launch("prefill_attention", kernel, grid, kThreads, kBytes, stream, part_of(a, begin), maps,
                   a.scale * 1.4426950408889634f);
  return error;
}

}  // namespace

bool prefill_attention_hopper_can(const PrefillAttentionArgs& a) {
  return compute_major() == 9 && a.heads / a.kv_heads <= kRows;
}

int prefill_attention_hopper(const PrefillAttentionArgs& a, Stream stream) {
  return a.head_dim == 64 ? run<64>(a, stream) : run<128>(a, stream);
}

}  // namespace tritonforge::gpu
