// One token from each row of logits: the GPU half of kernels/sample.h.
//
// First kernel, all rows: one read of the logits gives the largest logit, the sum of exponentials and, where no cut is
// asked for, the winner of the exponential race. Several blocks share a row; the last of them to finish merges the
// parts in order. Second kernel, only where a row may ask for cuts: one block a row, which leaves at once if its row
// does not. top_k, top_p and min_p each keep the first so many tokens of one order (most likely first, ties: lower id),
// so a cut is a number of tokens, found by a radix search over the bits of p without sorting.
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>

#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
constexpr int kThreads = 256, kMaxSplits = 64;
constexpr int kUnroll = 4;                     // Philox blocks of four tokens that a thread has in flight
constexpr int kMinQuads = kThreads * kUnroll;  // of a block

struct Part {     // of a row: what a range of its tokens comes to
  float maximum;  // logit; -FLT_MAX: none above it
  float sum;      // of exp((x - maximum) / T)
  float best;     // score of the race, relative to `maximum` too
  int token;      // that has it
  int top;        // lowest id of the largest logit
};
struct RowStats {
  float maximum, sum;
};

// Philox4x32-10 (Salmon et al., SC 2011) of counter (quad, position), key seed. Word w is the noise of token
// quad / 16 * 64 + quad % 16 + 16 w: the order that kernels/sample.h laid down for vectors of 16.
__device__ uint4 philox(uint32_t quad, uint64_t position, uint64_t seed) {
  uint32_t c0 = quad, c1 = static_cast<uint32_t>(position), c2 = static_cast<uint32_t>(position >> 32), c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c0, b = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return make_uint4(c0, c1, c2, c3);
}
__device__ uint32_t word(const uint4& block, int w) {
  return w == 0 ? block.x : w == 1 ? block.y : w == 2 ? block.z : block.w;
}

// Exponential(1) noise: -log(1 - w), w uniform on the centres of 2^32 intervals; fine near 0, where races are won.
__device__ float uniform(uint32_t bits) {
  // Integers below 2^16 as floats through the mantissa: conversions run on the slow unit that exp2 needs.
  const float upper = __uint_as_float(0x4B000000u | (bits >> 16)) - 0x1.0p23f,
              lower = __uint_as_float(0x4B000000u | (bits & 0xFFFFu)) - 0x1.0p23f;
  return fminf(upper * 0x1.0p-16f + (lower + 0.5f) * 0x1.0p-32f, 0x1.FFFFFEp-1f);
}
__device__ float noise_of(float uniform) { return -log1pf(-uniform); }
__device__ float noise(uint32_t bits) { return noise_of(uniform(bits)); }

__device__ bool wins(float score, int token, float best, int best_token) {
  return score > best || (score == best && token < best_token);
}

// `factor` = log2 e / T. Parts may come in any order: the result is that of all their tokens.
__device__ Part merged(const Part& a, const Part& b, float factor) {
  const float top = fmaxf(a.maximum, b.maximum);
  const float fa = exp2f((a.maximum - top) * factor), fb = exp2f((b.maximum - top) * factor);
  Part both{top, a.sum * fa + b.sum * fb, a.best * fa, a.token, a.top};
  if (wins(b.best * fb, b.token, both.best, both.token)) {
    both.best = b.best * fb;
    both.token = b.token;
  }
  if (b.maximum > a.maximum || (b.maximum == a.maximum && b.top < a.top)) both.top = b.top;
  return both;
}
__device__ Part shuffled(const Part& a, int offset) {
  return {__shfl_xor_sync(kAllLanes, a.maximum, offset), __shfl_xor_sync(kAllLanes, a.sum, offset),
          __shfl_xor_sync(kAllLanes, a.best, offset), __shfl_xor_sync(kAllLanes, a.token, offset),
          __shfl_xor_sync(kAllLanes, a.top, offset)};
}
__device__ Part merged_over_warp(Part part, float factor) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) part = merged(part, shuffled(part, offset), factor);
  return part;
}
__device__ Part empty_part() { return {-FLT_MAX, 0, 0, INT_MAX, INT_MAX}; }

__device__ bool has_cuts(const SampleArgs& a, int64_t row) {
  return a.temperature[row] != 0 &&
         ((a.top_k[row] > 0 && a.top_k[row] < a.vocab) || a.top_p[row] < 1 || a.min_p[row] > 0);
}
__device__ float factor_of(const SampleArgs& a, int64_t row) {
  return a.temperature[row] == 0 ? kLog2E : kLog2E * (1.0f / a.temperature[row]);
}

__device__ void write_result(const SampleArgs& a, int64_t row, const RowStats& stats, int token) {
  const bool finite = stats.maximum > -FLT_MAX && isfinite(stats.maximum) && isfinite(stats.sum) && token >= 0 &&
                      token < a.vocab;
  a.tokens[row] = finite ? token : -1;
  const float divisor = a.temperature[row] == 0 ? 1.0f : 1.0f / a.temperature[row];
  a.log_probs[row] = finite ? (a.logits[row * a.vocab + token] - stats.maximum) * divisor - logf(stats.sum) : NAN;
}

// The largest of the warp's values, none of them NaN: as integers floats order the same, negative ones the other way
// round.
__device__ float warp_maximum(float x) {
  const int bits = __float_as_int(x), ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF);
  const int top = __reduce_max_sync(kAllLanes, ordered);
  return __int_as_float(top ^ ((top >> 31) & 0x7FFFFFFF));
}

template <bool kRace>
__device__ Part scan(const float* logits, int vocab, int begin, int end, float factor, uint64_t seed,
                     uint64_t position) {
  Part part = empty_part();
  // A token's noise is at least its uniform number w, so p / w bounds its score: the logarithm and the division are
  // done for the few tokens alone that this bound lets pass the warp's best so far. All lanes share one maximum, so
  // that their scores compare; whole warps go round the loop, lanes beyond the end with logits of -infinity.
  float best = 0, lane_maximum = -FLT_MAX;  // of the warp; of this lane, whose token part.top is
  for (int round = begin; round < end; round += kThreads * kUnroll) {
    const int quad = round + static_cast<int>(threadIdx.x);
    float x[kUnroll][4];
    float top = -INFINITY;
    int top_token = INT_MAX;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int at = quad + u * kThreads, token = at / 16 * 64 + at % 16;
#pragma unroll
      for (int w = 0; w < 4; ++w)
        x[u][w] = at < end && token + 16 * w < vocab ? __ldg(logits + token + 16 * w) : -INFINITY;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int at = quad + u * kThreads, token = at / 16 * 64 + at % 16;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        if (x[u][w] > top) {
          top = x[u][w];
          top_token = token + 16 * w;
        }
      }
    }
    if (top > lane_maximum) {
      lane_maximum = top;
      part.top = top_token;
    }
    top = fmaxf(part.maximum, warp_maximum(top));
    const float rescale = exp2f((part.maximum - top) * factor);
    part.maximum = top;
    part.sum *= rescale;
    part.best *= rescale;
    best = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(part.best)));
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int at = quad + u * kThreads, token = at / 16 * 64 + at % 16;
      uint4 random;
      if constexpr (kRace) random = philox(static_cast<uint32_t>(at), position, seed);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float p = exp2f((x[u][w] - top) * factor);
        part.sum += p;
        if constexpr (kRace) {
          const float from = uniform(word(random, w));
          if (p >= best * from * 0.999999f && p > 0) {
            const float score = __fdividef(p, noise_of(from));
            if (score > part.best) {  // tokens come in ascending order: the first of equals stays
              part.best = score;
              part.token = token + 16 * w;
              best = fmaxf(best, score);
            }
          }
        }
      }
    }
  }
  if (lane_maximum < part.maximum) part.top = INT_MAX;  // another lane has the largest
  return part;
}

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const __grid_constant__ SampleArgs a, Part* parts, int* counters, RowStats* stats, int each) {
  __shared__ Part warps[kThreads / kWarp];
  __shared__ bool last_to_arrive;
  allow_next();
  wait_for_previous();
  const int64_t row = blockIdx.y;
  const int quads = static_cast<int>((a.vocab + 63) / 64 * 16), begin = blockIdx.x * each,
            end = min(begin + each, quads);
  const bool race = a.temperature[row] != 0 && !(a.cuts && has_cuts(a, row));
  const float factor = factor_of(a, row);
  const float* logits = a.logits + row * a.vocab;
  Part part = race ? scan<true>(logits, static_cast<int>(a.vocab), begin, end, factor, a.seed[row], a.position[row])
                   : scan<false>(logits, static_cast<int>(a.vocab), begin, end, factor, 0, 0);
  part = merged_over_warp(part, factor);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) warps[warp] = part;
  __syncthreads();
  if (warp != 0) return;

  part = merged_over_warp(lane < kThreads / kWarp ? warps[lane] : empty_part(), factor);
  if (gridDim.x > 1) {
    if (lane == 0) {
      parts[row * kMaxSplits + blockIdx.x] = part;
      __threadfence();
      last_to_arrive = atomicAdd(counters + row, 1) == static_cast<int>(gridDim.x) - 1;
      __threadfence();
    }
    __syncwarp();
    if (!last_to_arrive) return;
    part = empty_part();
    for (int i = lane; i < static_cast<int>(gridDim.x); i += kWarp) {
      const Part* other = parts + row * kMaxSplits + i;
      part = merged(part,
                    {__ldcg(&other->maximum), __ldcg(&other->sum), __ldcg(&other->best), __ldcg(&other->token),
                     __ldcg(&other->top)},
                    factor);
    }
    part = merged_over_warp(part, factor);
  }
  if (lane != 0) return;
  if (gridDim.x > 1) counters[row] = 0;
  stats[row] = {part.maximum, part.sum};
  write_result(a, row, stats[row], race ? part.token : part.top);
}

// --- rows with cuts ---

constexpr int kCutThreads = 1024, kCutWarps = kCutThreads / kWarp;
constexpr int kBins = 256;
constexpr int kTopBins = 32;      // binary orders of p, the last one for all below 2^-31
using Mass = unsigned long long;  // p in units of 2^-40: sums are exact, whatever their order

struct Histogram {
  union {
    struct {
      unsigned count[kTopBins][kWarp];  // a column a lane: neighbours in p do not meet at one address
      Mass mass[kTopBins][kWarp];
    } top;
    struct {
      unsigned count[kBins];
      Mass mass[kBins];
    } bin;
  };
  unsigned counts[kBins];  // by bin, most likely first
  Mass masses[kBins];
  int found;
  unsigned count_before;
  Mass mass_before;
};

// The tokens that a cut keeps: those above `key` and the first `ties` of those equal to it.
struct Cut {
  uint32_t key;
  unsigned ties, tied;  // kept of, and in all
  Mass mass;            // of what is kept
};

struct CutRow {
  const float* logits;
  int vocab;
  float maximum, factor;
  // The bits of p: they order as p does.
  __device__ uint32_t key_of(float logit) const { return __float_as_uint(exp2f((logit - maximum) * factor)); }
  __device__ uint32_t key(int token) const { return key_of(logits[token]); }
};
// f(token, key) for every token of the row, each by one thread: kKeysAhead logits are loaded before the first is used.
constexpr int kKeysAhead = 8;
template <typename F>
__device__ void for_each_key(const CutRow& row, const F& f) {
  for (int begin = threadIdx.x; begin < row.vocab; begin += kCutThreads * kKeysAhead) {
    float x[kKeysAhead];
#pragma unroll
    for (int i = 0; i < kKeysAhead; ++i)
      x[i] = begin + i * kCutThreads < row.vocab ? __ldg(row.logits + begin + i * kCutThreads) : 0.0f;
#pragma unroll
    for (int i = 0; i < kKeysAhead; ++i) {
      if (begin + i * kCutThreads < row.vocab) f(begin + i * kCutThreads, row.key_of(x[i]));
    }
  }
}
__device__ Mass mass_of(uint32_t key) { return static_cast<Mass>(__uint_as_float(key) * 0x1.0p40f); }
__device__ int order_of(uint32_t key) { return min(127 - static_cast<int>(key >> 23), kTopBins - 1); }

// The first bin at which the tokens so far reach `count` or `mass`; what lies before it goes to *_before.
__device__ void find_bin(Histogram& h, int bins, unsigned count, Mass mass) {
  if (threadIdx.x < kWarp) {
    const int each = bins / kWarp, lane = threadIdx.x;
    unsigned own_count = 0;
    Mass own_mass = 0;
    for (int i = lane * each; i < (lane + 1) * each; ++i) {
      own_count += h.counts[i];
      own_mass += h.masses[i];
    }
    unsigned c = own_count;
    Mass m = own_mass;
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const unsigned other_count = __shfl_up_sync(kAllLanes, c, offset);
      const Mass other_mass = __shfl_up_sync(kAllLanes, m, offset);
      if (lane >= offset) {
        c += other_count;
        m += other_mass;
      }
    }
    c += h.count_before;
    m += h.mass_before;
    const unsigned reached = __ballot_sync(kAllLanes, c >= count || m >= mass);
    const int owner = reached != 0 ? __ffs(reached) - 1 : kWarp - 1;
    if (lane == owner) {
      c -= own_count;
      m -= own_mass;
      int i = lane * each;
      for (; i < (lane + 1) * each - 1 && c + h.counts[i] < count && m + h.masses[i] < mass; ++i) {
        c += h.counts[i];
        m += h.masses[i];
      }
      h.found = i;
      h.count_before = c;
      h.mass_before = m;
    }
  }
  __syncthreads();
}

// Keeps the first `count` tokens, or the fewest whose mass reaches `share` of `total` (0: of all tokens' mass).
__device__ Cut find_cut(Histogram& h, const CutRow& row, unsigned count, double share, Mass total) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  // The binary order of p of the last token that is kept.
  h.top.count[warp][lane] = 0;
  h.top.mass[warp][lane] = 0;
  if (threadIdx.x == 0) {
    h.count_before = 0;
    h.mass_before = 0;
  }
  __syncthreads();
  for_each_key(row, [&](int, uint32_t key) {
    atomicAdd(&h.top.count[order_of(key)][lane], 1u);
    atomicAdd(&h.top.mass[order_of(key)][lane], mass_of(key));
  });
  __syncthreads();
  unsigned c = h.top.count[warp][lane];
  Mass m = h.top.mass[warp][lane];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    c += __shfl_xor_sync(kAllLanes, c, offset);
    m += __shfl_xor_sync(kAllLanes, m, offset);
  }
  if (lane == 0) {
    h.counts[warp] = c;
    h.masses[warp] = m;
  }
  __syncthreads();
  if (total == 0) {
    for (int i = 0; i < kTopBins; ++i) total += h.masses[i];
  }
  const Mass wanted = share < 1 ? max(Mass{1}, static_cast<Mass>(ceil(share * static_cast<double>(total)))) : ~Mass{0};
  find_bin(h, kTopBins, count, wanted);
  const bool rest = h.found == kTopBins - 1;
  uint32_t prefix = rest ? 0 : static_cast<uint32_t>(127 - h.found) << 23;

  // Then its bits, eight at a time; below 2^-31 the exponent itself is not known yet.
  for (int shift = rest ? 23 : 15, known = 23; shift >= 0; known = shift, shift = shift > 7    ? shift - 8
                                                                                  : shift == 7 ? 0
                                                                                               : -1) {
    const bool exponent = shift == 23;
    const int width = shift == 0 ? 7 : 8, bins = 1 << width;
    __syncthreads();
    for (int i = threadIdx.x; i < kBins; i += kCutThreads) {
      h.bin.count[i] = 0;
      h.bin.mass[i] = 0;
    }
    __syncthreads();
    for_each_key(row, [&](int, uint32_t key) {
      if (exponent ? order_of(key) != kTopBins - 1 : key >> known != prefix >> known) return;
      const int bin = bins - 1 - static_cast<int>((key >> shift) & (bins - 1));
      atomicAdd(&h.bin.count[bin], 1u);
      atomicAdd(&h.bin.mass[bin], mass_of(key));
    });
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += kCutThreads) {
      h.counts[i] = h.bin.count[i];
      h.masses[i] = h.bin.mass[i];
    }
    __syncthreads();
    find_bin(h, bins, count, wanted);
    prefix |= static_cast<uint32_t>(bins - 1 - h.found) << shift;
  }

  // All tokens of the last bin have the same p.
  const unsigned tied = h.counts[h.found];
  const Mass each = mass_of(prefix);
  unsigned ties = count > h.count_before ? count - h.count_before : 1;
  if (share < 1 && each > 0 && wanted > h.mass_before)
    ties = static_cast<unsigned>(min(Mass{ties}, (wanted - h.mass_before + each - 1) / each));
  ties = min(max(ties, 1u), tied);
  const Cut cut{prefix, ties, tied, h.mass_before + ties * each};
  __syncthreads();
  return cut;
}

// The id of the last kept one of the tokens that have the cut's key.
__device__ int last_tie(Histogram& h, const CutRow& row, const Cut& cut) {
  if (cut.ties == cut.tied) return row.vocab;
  const int each = (row.vocab + kCutThreads - 1) / kCutThreads, begin = threadIdx.x * each,
            end = min(begin + each, row.vocab);
  unsigned own = 0;
  for (int token = begin; token < end; ++token) own += row.key(token) == cut.key ? 1 : 0;
  unsigned before = own;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, before, offset);
    if (lane >= offset) before += other;
  }
  if (lane == kWarp - 1) h.counts[warp] = before;
  __syncthreads();
  for (int w = 0; w < warp; ++w) before += h.counts[w];
  before -= own;
  if (before < cut.ties && cut.ties <= before + own) {
    for (int token = begin; token < end; ++token) {
      if (row.key(token) == cut.key && ++before == cut.ties) h.found = token;
    }
  }
  __syncthreads();
  return h.found;
}

__global__ void __launch_bounds__(kCutThreads)
    sample_cuts_kernel(const __grid_constant__ SampleArgs a, const RowStats* stats) {
  __shared__ Histogram h;
  __shared__ Part warps[kCutWarps];
  allow_next();
  wait_for_previous();
  const int64_t row_index = blockIdx.x;
  if (!has_cuts(a, row_index) || a.tokens[row_index] < 0) return;
  const RowStats row_stats = stats[row_index];
  const CutRow row{a.logits + row_index * a.vocab, static_cast<int>(a.vocab), row_stats.maximum,
                   factor_of(a, row_index)};

  // top_k, then top_p of what it left: both keep a beginning of the same order.
  const int top_k = a.top_k[row_index];
  const float top_p = a.top_p[row_index], min_p = a.min_p[row_index];
  Cut cut{0, 1, 1, 0};
  bool every = true;
  if (top_k > 0 && top_k < row.vocab) {
    cut = find_cut(h, row, static_cast<unsigned>(top_k), 1.0, 0);
    every = false;
  }
  if (top_p < 1) {
    cut = find_cut(h, row, UINT_MAX, top_p, cut.mass);
    every = false;
  }
  const int last = every ? row.vocab : last_tie(h, row, cut);

  // The race among what is left.
  Part part = empty_part();
  const uint64_t seed = a.seed[row_index], position = a.position[row_index];
  for_each_key(row, [&](int token, uint32_t key) {
    const float p = __uint_as_float(key);
    if (p < min_p || (!every && (key < cut.key || (key == cut.key && token > last)))) return;
    const float score = __fdividef(
        p, noise(word(philox(static_cast<uint32_t>(token / 64 * 16 + token % 16), position, seed), token / 16 % 4)));
    if (wins(score, token, part.best, part.token)) {
      part.best = score;
      part.token = token;
    }
  });
  part = merged_over_warp(part, row.factor);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  part = merged_over_warp(warps[threadIdx.x], row.factor);
  if (threadIdx.x == 0) write_result(a, row_index, row_stats, part.token);
}

struct Workspace {  // counters first: they must be zero before the first launch
  int* counters;
  RowStats* stats;
  Part* parts;
};
// The counters lie in one place whatever the launch's rows are: they must be found as zeros, and the rest need not.
constexpr int64_t kMaxRows = 65536, kCounterBytes = kMaxRows * 4;
Workspace divide(void* memory, int64_t rows) {
  auto* at = static_cast<uint8_t*>(memory);
  return {reinterpret_cast<int*>(at), reinterpret_cast<RowStats*>(at + kCounterBytes),
          reinterpret_cast<Part*>(at + kCounterBytes + rows * 8)};
}

}  // namespace

size_t sample_workspace(int64_t max_rows) {
  const int64_t rows = (max_rows + 63) / 64 * 64;
  return static_cast<size_t>(kCounterBytes + rows * (8 + kMaxSplits * static_cast<int64_t>(sizeof(Part))));
}

int sample(const SampleArgs* a, Stream stream) {
  TF_REQUIRE(a->vocab > 0 && a->vocab < (1 << 30), "sample: vocab %ld", static_cast<long>(a->vocab));
  TF_REQUIRE(a->rows < kMaxRows, "sample: %ld rows (at most 65535)", static_cast<long>(a->rows));
  if (a->rows == 0) return 0;
  const int64_t quads = (a->vocab + 63) / 64 * 16;
  const int64_t filling = ceil_div<int64_t>(int64_t{multiprocessors()} * 5, a->rows);  // five blocks a multiprocessor
  const int64_t splits = std::clamp<int64_t>(std::min(filling, quads / kMinQuads), 1, kMaxSplits);
  const int64_t each = ceil_div<int64_t>(ceil_div(quads, splits), 16) * 16;
  const Workspace w = divide(a->workspace, (a->rows + 63) / 64 * 64);
  const dim3 grid(static_cast<unsigned>(ceil_div(quads, each)), static_cast<unsigned>(a->rows));
  const int error = launch("sample", sample_kernel, grid, kThreads, 0, stream, *a, w.parts, w.counters, w.stats,
                           static_cast<int>(each));
  if (error != 0 || !a->cuts) return error;
  return launch("sample: cuts", sample_cuts_kernel, dim3(static_cast<unsigned>(a->rows)), kCutThreads, 0, stream, *a,
                w.stats);
}

}  // namespace tritonforge::gpu
