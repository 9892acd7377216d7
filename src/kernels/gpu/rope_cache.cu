// From the joined QKV projection to attention's inputs in one pass: qk-norm, RoPE, the write of keys and values into
// the paged cache, or of keys in rows for the trainer; and the gradient of the same. A head's row is read once and
// written once; nothing else touches memory but the small rope table.
#include "kernels/fp8.h"
#include "kernels/gpu/row_sums.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 128;

// Four neighbours of each half of a head's row, so that a rotation's pairs meet in one lane: head_dim / 8 lanes a head.
template <int kHeadDim>
__device__ inline void load_halves(const Bf16* head, int lane, float (&x)[8]) {
  const uint2 first = *reinterpret_cast<const uint2*>(head + 4 * lane),
              second = *reinterpret_cast<const uint2*>(head + kHeadDim / 2 + 4 * lane);
  x[0] = low(first.x), x[1] = high(first.x), x[2] = low(first.y), x[3] = high(first.y);
  x[4] = low(second.x), x[5] = high(second.x), x[6] = low(second.y), x[7] = high(second.y);
}
template <int kHeadDim>
__device__ inline void store_halves(Bf16* head, int lane, const float (&x)[8]) {
  *reinterpret_cast<uint2*>(head + 4 * lane) = make_uint2(pack(x[0], x[1]), pack(x[2], x[3]));
  *reinterpret_cast<uint2*>(head + kHeadDim / 2 + 4 * lane) = make_uint2(pack(x[4], x[5]), pack(x[6], x[7]));
}
// The row in FP8, rounded from bfloat16, by all lanes of a head; where `wanted`, to `row` and its scale.
template <int kHeadDim>
__device__ inline void store_fp8(uint8_t* row, uint8_t* scale, int lane, bool wanted, const float (&x)[8]) {
  uint32_t largest = 0;
#pragma unroll
  for (float value : x) largest = max(largest, fp8::bits_of(rounded(value)) & 0x7FFFFFFF);
#pragma unroll
  for (int offset = kHeadDim / 16; offset > 0; offset /= 2)
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  const uint32_t exponent = fp8::scale_of(largest);
  const float inverse = fp8::inverse_of(exponent);
  uint32_t halves[2] = {0, 0};  // four bytes each: of the row's first half, of its second
#pragma unroll
  for (int i = 0; i < 8; ++i) halves[i / 4] |= fp8::encode(rounded(x[i]) * inverse) << 8 * (i % 4);
  // Elements i and i + 8 of sixteen neighbours lie side by side: of each pair of lanes that hold them the first one
  // writes the row's first half, the other one the second.
  const bool second = lane & 2;
  const uint32_t own = second ? halves[1] : halves[0],
                 other = __shfl_xor_sync(kAllLanes, second ? halves[0] : halves[1], 2),
                 low_eight = second ? other : own, high_eight = second ? own : other;
  if (!wanted) return;
  *reinterpret_cast<uint2*>(row + (second ? kHeadDim / 2 : 0) + lane / 4 * 16 + lane % 2 * 8) = make_uint2(
      __byte_perm(low_eight, high_eight, 0x5140), __byte_perm(low_eight, high_eight, 0x7362));
  if (lane == 0) *scale = static_cast<uint8_t>(exponent);
}
// A lane's cosines and sines of a position.
struct Angles {
  float4 first, second;
};
template <int kHeadDim>
__device__ inline Angles angles_of(const float* rope, int position, int lane) {
  const float4* at = reinterpret_cast<const float4*>(rope + (int64_t{position} * (kHeadDim / 2) + 4 * lane) * 2);
  return {at[0], at[1]};
}
// direction -1: back.
__device__ inline void rotate(const Angles& angles, float direction, float (&x)[8]) {
  const auto [a01, a23] = angles;
  const float cosine[4] = {a01.x, a01.z, a23.x, a23.z}, sine[4] = {a01.y, a01.w, a23.y, a23.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float u = x[i], v = x[i + 4], s = direction * sine[i];
    x[i] = u * cosine[i] - v * s;
    x[i + 4] = v * cosine[i] + u * s;
  }
}

template <int kHeadDim, bool kFp8>
__global__ void __launch_bounds__(kThreads) rope_cache_kernel(RopeCacheArgs a) {
  constexpr int kLanes = kHeadDim / 8;
  const int rows = static_cast<int>(a.heads + 2 * a.kv_heads);
  const int row = blockIdx.y * (kThreads / kLanes) + threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t token = blockIdx.x;
  const bool active = row < rows;  // whole groups of lanes stay for the shuffles
  const bool is_query = row < a.heads, is_value = row >= a.heads + a.kv_heads;
  allow_next();
  // No kernel of a step writes these; they come from memory, the projection from the cache.
  float w[8] = {};
  if (a.q_norm != nullptr) load_halves<kHeadDim>(is_query ? a.q_norm : a.k_norm, lane, w);
  const Angles angles = angles_of<kHeadDim>(a.rope, a.positions[token], lane);
  const int64_t slot = a.slots != nullptr ? a.slots[token] : 0;
  wait_for_previous();
  float x[8];
  load_halves<kHeadDim>(a.qkv + (token * rows + (active ? row : 0)) * kHeadDim, lane, x);

  if (a.q_norm != nullptr) {
    float squares = 0;
#pragma unroll
    for (float value : x) squares += value * value;
    const float scale = 1.0f / sqrtf(lane_sum<kLanes>(squares) / kHeadDim + a.eps);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = is_value ? x[i] : rounded(w[i] * rounded(x[i] * scale));
  }
  if (!is_value) rotate(angles, 1, x);
  const int64_t head = (row - a.heads) % a.kv_heads;
  if (a.slots == nullptr) {
    if (!active || is_value) return;
    Bf16* keys = static_cast<Bf16*>(a.cache.keys) + (token * a.kv_heads + head) * kHeadDim;
    return store_halves<kHeadDim>(is_query ? a.q + (token * a.heads + row) * kHeadDim : keys, lane, x);
  }
  const int64_t page = slot / kPage * a.kv_heads + head, at = (page * kPage + slot % kPage) * kHeadDim;
  void* cached = is_value ? a.cache.values : a.cache.keys;
  if constexpr (kFp8) {
    store_fp8<kHeadDim>(static_cast<uint8_t*>(cached) + at,
                        a.cache.scales + (2 * page + is_value) * kPage + slot % kPage, lane, active && !is_query, x);
    if (!is_query) return;
  }
  if (!active) return;
  store_halves<kHeadDim>(is_query ? a.q + (token * a.heads + row) * kHeadDim : static_cast<Bf16*>(cached) + at, lane,
                         x);
}

// A group of lanes a head's row at a time, in turn, which keeps the sums for the gradients of the norms' weights.
constexpr int kBackwardThreads = 512;
template <int kHeadDim>
__global__ void __launch_bounds__(kBackwardThreads) rope_backward_kernel(RopeBackwardArgs a) {
  constexpr int kLanes = kHeadDim / 8, kGroups = kBackwardThreads / kLanes;
  __shared__ float sums[kGroups][2 * kHeadDim];
  const int heads = static_cast<int>(a.heads), kv_heads = static_cast<int>(a.kv_heads), rows = heads + 2 * kv_heads;
  const int group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes, units = static_cast<int>(a.tokens) * rows;
  allow_next();
  wait_for_previous();
  float dw[2][8] = {};  // of q_norm, of k_norm
  for (int first = blockIdx.x * kGroups; first < units; first += gridDim.x * kGroups) {
    const int unit = first + group, token = unit / rows, row = unit % rows;
    const bool active = unit < units, used = active && token < a.used;  // whole groups stay for the shuffles
    const bool is_query = row < heads, is_value = row >= heads + kv_heads;
    float d[8] = {};
    if (used) {
      const int64_t at = is_query   ? int64_t{token} * heads + row
                         : is_value ? int64_t{token} * kv_heads + row - heads - kv_heads
                                    : int64_t{token} * kv_heads + row - heads;
      load_halves<kHeadDim>((is_query ? a.dq : is_value ? a.dv : a.dk) + at * kHeadDim, lane, d);
      if (!is_value) rotate(angles_of<kHeadDim>(a.rope, a.positions[token], lane), -1, d);
    }
    if (a.q_norm != nullptr) {
      float x[8] = {}, w[8];
      if (used && !is_value) load_halves<kHeadDim>(a.qkv + int64_t{unit} * kHeadDim, lane, x);
      load_halves<kHeadDim>(is_query ? a.q_norm : a.k_norm, lane, w);
      float squares = 0, dot = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        squares += x[i] * x[i];
        dot += w[i] * d[i] * x[i];
      }
      const float scale = 1.0f / sqrtf(lane_sum<kLanes>(squares) / kHeadDim + a.eps);
      const float along = lane_sum<kLanes>(dot) / kHeadDim * scale * scale * scale;
      if (!is_value) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float more = d[i] * x[i] * scale;
          dw[0][i] += is_query ? more : 0.0f;
          dw[1][i] += is_query ? 0.0f : more;
          d[i] = scale * w[i] * d[i] - along * x[i];
        }
      }
    }
    if (active) store_halves<kHeadDim>(a.dqkv + int64_t{unit} * kHeadDim, lane, d);
  }
  if (a.q_norm == nullptr) return;
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      sums[group][which * kHeadDim + 4 * lane + i % 4 + i / 4 * (kHeadDim / 2)] = dw[which][i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * kHeadDim; i += kBackwardThreads) {
    float sum = 0;
#pragma unroll 8
    for (int g = 0; g < kGroups; ++g) sum += sums[g][i];
    a.partials[blockIdx.x * int64_t{2 * kHeadDim} + i] = sum;
  }
}

// The angle in fp32 as model/model.h's rope_table forms it; sincosf, not the fast one: positions reach tens of
// thousands.
__global__ void rope_table_kernel(float2* rope, const float* inv_freq, int64_t half, int64_t total) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= total) return;
  float sine, cosine;
  sincosf(__fmul_rn(static_cast<float>(i / half), inv_freq[i % half]), &sine, &cosine);
  rope[i] = make_float2(cosine, sine);
}

}  // namespace

int rope_table(float* rope, const float* inv_freq, int64_t positions, int64_t head_dim, Stream stream) {
  const int64_t total = positions * (head_dim / 2);
  if (total == 0) return 0;
  rope_table_kernel<<<static_cast<unsigned>(ceil_div<int64_t>(total, 256)), 256, 0, stream>>>(
      reinterpret_cast<float2*>(rope), inv_freq, head_dim / 2, total);
  return check_launch("rope_table");
}

int rope_cache(const RopeCacheArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "rope_cache: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE((a->q_norm == nullptr) == (a->k_norm == nullptr), "rope_cache: one of q_norm and k_norm is missing");
  if (a->tokens == 0) return 0;
  const int64_t rows = a->heads + 2 * a->kv_heads;
  const dim3 grid(static_cast<unsigned>(a->tokens),
                  static_cast<unsigned>(ceil_div<int64_t>(rows, kThreads / (a->head_dim / 8))));
  const bool fp8 = a->cache.scales != nullptr;
  TF_REQUIRE(!fp8 || a->slots != nullptr, "rope_cache: FP8 is for pages");
  const auto kernel = a->head_dim == 64 ? (fp8 ? rope_cache_kernel<64, true> : rope_cache_kernel<64, false>)
                                        : (fp8 ? rope_cache_kernel<128, true> : rope_cache_kernel<128, false>);
  return launch("rope_cache", kernel, grid, kThreads, 0, stream, *a);
}

int rope_backward(const RopeBackwardArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "rope_backward: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  TF_REQUIRE((a->q_norm == nullptr) == (a->k_norm == nullptr), "rope_backward: one of q_norm and k_norm is missing");
  if (a->tokens == 0) return 0;
  const int blocks = row_sum_blocks(a->tokens, 4);
  if (const int error = launch("rope_backward",
                               a->head_dim == 64 ? rope_backward_kernel<64> : rope_backward_kernel<128>,
                               dim3(static_cast<unsigned>(blocks)), kBackwardThreads, 0, stream, *a))
    return error;
  if (a->q_norm == nullptr) return 0;
  const int error = add_rows(a->dq_norm, a->partials, blocks, 2 * a->head_dim, a->head_dim, stream);
  if (error != 0) return error;
  return add_rows(a->dk_norm, a->partials + a->head_dim, blocks, 2 * a->head_dim, a->head_dim, stream);
}

}  // namespace tritonforge::gpu
