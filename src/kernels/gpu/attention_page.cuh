#pragma once
// What decode_attention.cu and prefix_attention.cu share: a running softmax over the pages of the cache, one warp for
// up to 8 * kTiles columns (query heads), and the pieces of a result that are merged later.
//
// Arithmetic: the tensor cores with keys as rows and heads as columns, S^T = K Q^T and O^T = V^T P^T. A group of up to
// eight query heads fills the eight columns of m16n8k16, where Q as rows would leave half of the 16 rows empty.
#include <cfloat>

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

// A page in shared memory: kPage rows of keys (swizzled), then as many of values.
template <int kHeadDim>
struct PageShape {
  static constexpr int kChunks = kHeadDim / 8;             // 16-byte chunks of a row
  static constexpr int kPageBytes = kPage * kHeadDim * 2;  // of keys, or of values
  static constexpr int kSteps = kHeadDim / 16;             // mma steps over head_dim
};

struct PiecePlace {  // of one column; o null: the column is nobody's
  float *o, *maximum, *sum;
};

// A warp's running softmax: o^T, maxima (of scores * log2 e) and its lanes' sums.
template <int kHeadDim, int kTiles>
struct Running {
  using S = PageShape<kHeadDim>;
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

  // kPages pages, one after another in shared memory, of which `valid` tokens count; the values of the others are
  // numbers. Several at once: their products and exponentials do not wait for each other.
  template <int kPages>
  __device__ void pages(uint32_t keys, int valid, float scale) {
    const int lane = threadIdx.x % kWarp, token = lane / 4;
    // S^T: rows are tokens, columns heads.
    float s[kPages][kTiles][4] = {};
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
#pragma unroll
      for (int page = 0; page < kPages; ++page) {
        uint32_t k[4];
        load_matrices(k, keys + page * 2 * S::kPageBytes + swizzled<S::kChunks>(lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) mma(s[page][tile], k, q[tile][step][0], q[tile][step][1]);
      }
    }
    // Running softmax of each column.
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
            x = page * kPage + half * 8 + token < valid ? x * scale : -FLT_MAX;
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
      // As the second operand P^T must be held by heads instead of tokens.
      uint32_t p[kTiles][2];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        p[tile][0] = transpose_matrix(pack(s[page][tile][0], s[page][tile][1]));
        p[tile][1] = transpose_matrix(pack(s[page][tile][2], s[page][tile][3]));
      }
      const uint32_t values = keys + (page * 2 + 1) * S::kPageBytes;
#pragma unroll
      for (int step = 0; step < S::kSteps; ++step) {
        uint32_t v[4];
        load_matrices_transposed(v, values + swizzled<S::kChunks>(lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) mma(o[tile][step], v, p[tile][0], p[tile][1]);
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
