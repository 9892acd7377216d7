#pragma once
// What decode_attention.cu and prefix_attention.cu share: a running softmax over the pages of the cache, one warp for
// up to 8 * kTiles columns (query heads), and the pieces of a result that are merged later.
//
// Arithmetic: the tensor cores with keys as rows and heads as columns, S^T = K Q^T and O^T = V^T P^T. A group of up to
// eight query heads fills the eight columns of m16n8k16, where Q as rows would leave half of the 16 rows empty.
//
// An FP8 cache is widened to bfloat16 in registers, four bytes to two operands; the rows' scales, powers of two, are
// multiplied into scores and probabilities. That is exact: what comes out has the bits of the same numbers in bfloat16.
#include <cfloat>
#include <type_traits>

#include "kernels/fp8.h"
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {

constexpr int kColumnsPerTile = 8;  // of an mma

// A piece of a sequence's result for one kv head, in a workspace: o [group, head_dim] not yet divided by its sum,
// maxima [16] of scores * log2 e, sums [16]. Merging pieces: weights exp2(maximum - the largest maximum).
__host__ __device__ constexpr int64_t piece_floats(int group, int head_dim) { return int64_t{group} * head_dim + 32; }

// The prefix of a sequence that prefix_attention() reads is cut by its own length alone, so that its pieces do not
// depend on who else is in the step: at most kPrefixPieces, of kPiecePages pages where that is enough.
constexpr int kPrefixPieces = 8, kPiecePages = 32;
__host__ __device__ constexpr int prefix_pieces(int pages) {
  const int wanted = (pages + kPiecePages - 1) / kPiecePages;
  return wanted < kPrefixPieces ? wanted : kPrefixPieces;
}
// Where piece `piece` of a sequence's prefix lies, in floats from the start of the pieces.
__device__ inline int64_t prefix_piece_at(int sequence, int kv_heads, int head, int piece, int group, int head_dim) {
  return ((int64_t{sequence} * kv_heads + head) * kPrefixPieces + piece) * piece_floats(group, head_dim);
}

// Whether a page holds tokens of earlier steps alone: then it may be read before the kernel in front has ended. One
// step adds kMostNewTokens to a sequence at most, a token and its drafts.
constexpr int kMostNewTokens = 65;
__device__ inline bool is_old_page(int page, int length) { return (page + 1) * kPage + kMostNewTokens <= length; }

// A page in shared memory: kPage rows of keys (swizzled), then as many of values, then in FP8 their scales [2, kPage].
template <int kHeadDim, bool kFp8>
struct PageShape {
  static constexpr int kRowBytes = kHeadDim * (kFp8 ? 1 : 2);
  static constexpr int kChunks = kRowBytes / 16;        // 16-byte chunks of a row
  static constexpr int kPageBytes = kPage * kRowBytes;  // of keys, or of values
  static constexpr int kScaleBytes = kFp8 ? kPage : 0;  // likewise
  static constexpr int kBytes = 2 * (kPageBytes + kScaleBytes);
  static constexpr int kSteps = kHeadDim / 16;  // mma steps over head_dim
};

// A page of one kv head into shared memory by `kLanes` threads, this one the lane-th of them. `page`: block * kv_heads
// + head; rows from `valid` on become zeros, since what lies there may be NaN, and 0 * NaN is NaN.
template <typename Shape, int kLanes>
__device__ void fetch_page(uint32_t to, const KvLayer& cache, int64_t page, int lane, int valid) {
  const auto *keys = static_cast<const uint8_t*>(cache.keys) + page * Shape::kPageBytes,
             *values = static_cast<const uint8_t*>(cache.values) + page * Shape::kPageBytes;
  constexpr int kCount = Shape::kPageBytes / 16;
#pragma unroll
  for (int i = 0; i < ceil_div(kCount, kLanes); ++i) {
    const int index = i * kLanes + lane, row = index / Shape::kChunks;
    if (kCount % kLanes != 0 && index >= kCount) break;
    const uint32_t place = to + swizzled<Shape::kChunks>(row, index % Shape::kChunks);
    const int bytes = row < valid ? 16 : 0;
    copy_async(place, keys + index * 16, bytes);
    copy_async(place + Shape::kPageBytes, values + index * 16, bytes);
  }
  if (Shape::kScaleBytes > 0 && lane < 2)
    copy_async(to + 2 * Shape::kPageBytes + lane * kPage, cache.scales + (2 * page + lane) * kPage, valid > 0 ? 16 : 0);
}

// What launch(head_dim, tiles, fp8) returns, with the arguments' own as integral constants.
template <typename Launch>
int with_decode_shape(const DecodeAttentionArgs& a, Launch launch) {
  const auto with_cache = [&](auto head_dim, auto tiles) {
    return a.cache.scales != nullptr ? launch(head_dim, tiles, std::true_type())
                                     : launch(head_dim, tiles, std::false_type());
  };
  const auto with_tiles = [&](auto head_dim) {
    return a.heads / a.kv_heads > kColumnsPerTile ? with_cache(head_dim, std::integral_constant<int, 2>())
                                                  : with_cache(head_dim, std::integral_constant<int, 1>());
  };
  return a.head_dim == 64 ? with_tiles(std::integral_constant<int, 64>())
                          : with_tiles(std::integral_constant<int, 128>());
}

struct PiecePlace {  // of one column; o null: the column is nobody's
  float *o, *maximum, *sum;
};

// A warp's running softmax: o^T, maxima (of scores * log2 e) and its lanes' sums.
template <int kHeadDim, int kTiles, bool kFp8>
struct Running {
  using S = PageShape<kHeadDim, kFp8>;
  uint32_t q[kTiles][S::kSteps][2];
  float o[kTiles][S::kSteps][4];
  float maximum[kTiles][2], sum[kTiles][2];

  // query_of(column): that column's query [head_dim], null where it is nobody's.
  template <typename QueryOf>
  __device__ void start(QueryOf query_of) {
    const int column = threadIdx.x % kWarp / 4, pair = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const auto* row = reinterpret_cast<const uint32_t*>(query_of(tile * kColumnsPerTile + column));
#pragma unroll
      for (int step = 0; step < S::kSteps; ++step) {
        q[tile][step][0] = row != nullptr ? row[step * 8 + pair] : 0;
        q[tile][step][1] = row != nullptr ? row[step * 8 + pair + 4] : 0;
#pragma unroll
        for (float& x : o[tile][step]) x = 0;
      }
      maximum[tile][0] = maximum[tile][1] = -FLT_MAX;
      sum[tile][0] = sum[tile][1] = 0;
    }
  }

  static constexpr int kStepsAtOnce = kFp8 ? 2 : 1;  // that ldmatrix reads
  using Operands = uint32_t[kStepsAtOnce][4];

  // A page's keys as the first operand of the steps from `step` on: tokens are rows.
  __device__ static void load_keys(Operands& k, uint32_t page, int step) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (kFp8) {
      uint32_t x[4];  // of two steps, tokens 0 to 7, 8 to 15
      load_matrices(x, page + swizzled<S::kChunks>(lane % 16, step + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        k[i][0] = even_bytes(x[2 * i]);
        k[i][1] = even_bytes(x[2 * i + 1]);
        k[i][2] = odd_bytes(x[2 * i]);
        k[i][3] = odd_bytes(x[2 * i + 1]);
      }
    } else {
      load_matrices(k[0], page + swizzled<S::kChunks>(lane % 16, 2 * step + lane / 16));
    }
  }
  // Likewise its values: tokens are columns.
  __device__ static void load_values(Operands& v, uint32_t page, int step) {
    const int lane = threadIdx.x % kWarp;
    const uint32_t values = page + S::kPageBytes;
    if constexpr (kFp8) {
      uint32_t x[4];
      load_matrices_transposed(x, values + swizzled<S::kChunks>(lane % 16, step + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        v[i][0] = even_bytes(x[2 * i]);
        v[i][1] = odd_bytes(x[2 * i]);
        v[i][2] = even_bytes(x[2 * i + 1]);
        v[i][3] = odd_bytes(x[2 * i + 1]);
      }
    } else {
      load_matrices_transposed(v[0], values + swizzled<S::kChunks>(lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
    }
  }
  // What the row of keys (which 0) or of values (1) of a page's token is multiplied by.
  __device__ static float row_scale(uint32_t page, int which, int token) {
    if constexpr (kFp8) {
      uint32_t scale;
      asm volatile("ld.shared.u8 %0, [%1];"
                   : "=r"(scale)
                   : "r"(page + 2 * S::kPageBytes + which * kPage + token)
                   : "memory");
      return fp8::factor_of(scale);
    } else {
      return 1.0f;
    }
  }

  // kPages pages, one after another in shared memory, of which `valid` tokens count; the values of the others are
  // numbers. Several at once: their products and exponentials do not wait for each other.
  template <int kPages>
  __device__ void pages(uint32_t first, int valid, float scale) {
    const int token = threadIdx.x % kWarp / 4;
    // S^T: rows are tokens, columns heads.
    float s[kPages][kTiles][4] = {};
#pragma unroll
    for (int step = 0; step < S::kSteps; step += kStepsAtOnce) {
#pragma unroll
      for (int page = 0; page < kPages; ++page) {
        Operands k;
        load_keys(k, first + page * S::kBytes, step);
#pragma unroll
        for (int i = 0; i < kStepsAtOnce; ++i) {
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
            mma(s[page][tile], k[i], q[tile][step + i][0], q[tile][step + i][1]);
        }
      }
    }
    // Running softmax of each column.
    float key_scale[kPages][2];
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        key_scale[page][half] = scale * row_scale(first + page * S::kBytes, 0, half * 8 + token);
    }
    float factor[kTiles][2];
    bool grown = false;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float top = -FLT_MAX;
#pragma unroll
        for (int page = 0; page < kPages; ++page) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& x = s[page][tile][j + 2 * half];
            x = page * kPage + half * 8 + token < valid ? x * key_scale[page][half] : -FLT_MAX;
            top = fmaxf(top, x);
          }
        }
#pragma unroll
        for (int offset = 4; offset < kWarp; offset *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, offset));
        top = fmaxf(top, maximum[tile][j]);
        factor[tile][j] = exp2f(maximum[tile][j] - top);
        grown |= top > maximum[tile][j];
        maximum[tile][j] = top;
        sum[tile][j] *= factor[tile][j];
#pragma unroll
        for (int page = 0; page < kPages; ++page) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& x = s[page][tile][j + 2 * half];
            x = page * kPage + half * 8 + token < valid ? exp2f(x - top) : 0.0f;
            sum[tile][j] += x;
          }
        }
      }
    }
    if (__any_sync(kAllLanes, grown)) {  // rare after the first pages
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
          for (int i = 0; i < 4; ++i) o[tile][step][i] *= factor[tile][i % 2];
        }
      }
    }
    // O^T += V^T P^T: rows are dimensions.
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      if constexpr (kFp8) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // Of a token beyond `valid` it is anything, also infinite.
          const int at = half * 8 + token;
          const float value_scale = page * kPage + at < valid ? row_scale(first + page * S::kBytes, 1, at) : 0.0f;
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            s[page][tile][2 * half] *= value_scale;
            s[page][tile][2 * half + 1] *= value_scale;
          }
        }
      }
      // As the second operand P^T must be held by heads instead of tokens.
      uint32_t p[kTiles][2];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        p[tile][0] = transpose_matrix(pack(s[page][tile][0], s[page][tile][1]));
        p[tile][1] = transpose_matrix(pack(s[page][tile][2], s[page][tile][3]));
      }
#pragma unroll
      for (int step = 0; step < S::kSteps; step += kStepsAtOnce) {
        Operands v;
        load_values(v, first + page * S::kBytes, step);
#pragma unroll
        for (int i = 0; i < kStepsAtOnce; ++i) {
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) mma(o[tile][step + i], v[i], p[tile][0], p[tile][1]);
        }
      }
    }
  }

  // place_of(column): where that column's o [head_dim], maximum and sum go.
  template <typename PlaceOf>
  __device__ void store(PlaceOf place_of) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float total = sum[tile][j];
#pragma unroll
        for (int offset = 4; offset < kWarp; offset *= 2) total += __shfl_xor_sync(kAllLanes, total, offset);
        const PiecePlace place = place_of(tile * kColumnsPerTile + 2 * (lane % 4) + j);
        if (place.o == nullptr) continue;
        if (lane < 4) {
          *place.maximum = maximum[tile][j];
          *place.sum = total;
        }
#pragma unroll
        for (int step = 0; step < S::kSteps; ++step) {
          place.o[step * 16 + lane / 4] = o[tile][step][j];
          place.o[step * 16 + lane / 4 + 8] = o[tile][step][j + 2];
        }
      }
    }
  }
};

}  // namespace tritonforge::gpu
