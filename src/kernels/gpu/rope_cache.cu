// From the joined QKV projection to attention's inputs in one pass: qk-norm, RoPE, the write of keys and values into
// the paged cache. A head's row is read once and written once; nothing else touches memory but the small rope table.
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 128;

// head_dim / 8 lanes a head: a lane holds four neighbours of each half, so that a rotation's pairs meet in one lane.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) rope_cache_kernel(RopeCacheArgs a) {
  constexpr int kLanes = kHeadDim / 8, kHalf = kHeadDim / 2;
  const int rows = static_cast<int>(a.heads + 2 * a.kv_heads);
  const int row = blockIdx.y * (kThreads / kLanes) + threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t token = blockIdx.x;
  allow_next();
  wait_for_previous();
  const bool active = row < rows;  // whole groups of lanes stay for the shuffles
  const Bf16* from = a.qkv + (token * rows + (active ? row : 0)) * kHeadDim + 4 * lane;
  const uint2 first = *reinterpret_cast<const uint2*>(from), second = *reinterpret_cast<const uint2*>(from + kHalf);
  float x[8] = {low(first.x),  high(first.x),  low(first.y),  high(first.y),
                low(second.x), high(second.x), low(second.y), high(second.y)};

  const bool is_query = row < a.heads, is_value = row >= a.heads + a.kv_heads;
  if (a.q_norm != nullptr) {
    float squares = 0;
#pragma unroll
    for (float value : x) squares += value * value;
    const float scale = 1.0f / sqrtf(lane_sum<kLanes>(squares) / kHeadDim + a.eps);
    if (!is_value) {
      const Bf16* weight = (is_query ? a.q_norm : a.k_norm) + 4 * lane;
      const uint2 w0 = *reinterpret_cast<const uint2*>(weight), w1 = *reinterpret_cast<const uint2*>(weight + kHalf);
      const float w[8] = {low(w0.x), high(w0.x), low(w0.y), high(w0.y), low(w1.x), high(w1.x), low(w1.y), high(w1.y)};
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = rounded(w[i] * rounded(x[i] * scale));
    }
  }
  if (!active) return;
  if (!is_value) {
    const float4* angles = reinterpret_cast<const float4*>(a.rope +
                                                           (int64_t{a.positions[token]} * kHalf + 4 * lane) * 2);
    const float4 a01 = angles[0], a23 = angles[1];
    const float cosine[4] = {a01.x, a01.z, a23.x, a23.z}, sine[4] = {a01.y, a01.w, a23.y, a23.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float u = x[i], v = x[i + 4];
      x[i] = u * cosine[i] - v * sine[i];
      x[i + 4] = v * cosine[i] + u * sine[i];
    }
  }
  Bf16* to;
  if (is_query) {
    to = a.q + (token * a.heads + row) * kHeadDim;
  } else {
    const int64_t slot = a.slots[token], head = (row - a.heads) % a.kv_heads;
    to = (is_value ? a.cache.values : a.cache.keys) +
         (((slot / kPage) * a.kv_heads + head) * kPage + slot % kPage) * kHeadDim;
  }
  *reinterpret_cast<uint2*>(to + 4 * lane) = make_uint2(pack(x[0], x[1]), pack(x[2], x[3]));
  *reinterpret_cast<uint2*>(to + kHalf + 4 * lane) = make_uint2(pack(x[4], x[5]), pack(x[6], x[7]));
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
  return launch("rope_cache", a->head_dim == 64 ? rope_cache_kernel<64> : rope_cache_kernel<128>, grid, kThreads, 0,
                stream, *a);
}

}  // namespace tritonforge::gpu
