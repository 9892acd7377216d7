// Row by row work of the trainer's backward pass: RMSNorm, SwiGLU, embedding, biases. Bound by memory; what the
// forward pass did not keep because it is cheap to make again is made on the way.
#include <algorithm>

#include "kernels/gpu/row_sums.cuh"

namespace tritonforge::gpu {
namespace {

__device__ inline void put_gradient(const GradientOut& out, int64_t at, float value) {
  if (out.fp32) {
    float& to = static_cast<float*>(out.to)[at];
    to = out.accumulate ? to + value : value;
  } else {
    __nv_bfloat16& to = static_cast<__nv_bfloat16*>(out.to)[at];
    to = __float2bfloat16_rn(out.accumulate ? __bfloat162float(to) + value : value);
  }
}

// 32 columns a block, its warps take rows in turn.
constexpr int kSumWarps = 16;
__global__ void __launch_bounds__(kSumWarps* kWarp)
    add_rows_kernel(GradientOut out, const float* from, int64_t rows, int64_t stride, int64_t width) {
  __shared__ float sums[kSumWarps][kWarp];
  allow_next();
  wait_for_previous();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int64_t row = warp; row < rows; row += kSumWarps) sum += from[row * stride + column];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
#pragma unroll
  for (int w = 1; w < kSumWarps; ++w) sum += sums[w][lane];
  put_gradient(out, column, sum);
}

// Two sums over a block's threads.
__device__ inline float2 block_sum(float2 value, float2* shared) {
  value.x = lane_sum(value.x);
  value.y = lane_sum(value.y);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  __syncthreads();  // whoever still reads the last sums
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = lane < warps ? shared[lane] : make_float2(0, 0);
  return make_float2(lane_sum(value.x), lane_sum(value.y));
}

// A block takes rows in turn and keeps the weight's gradient of its columns in registers.
template <int kVectors>
__global__ void __launch_bounds__(512) rms_norm_backward_kernel(RmsNormBackwardArgs a) {
  __shared__ float2 sums[kWarp];
  allow_next();
  wait_for_previous();
  const int vectors = static_cast<int>(a.d / 8);
  const auto* weights = reinterpret_cast<const Bf16x8*>(a.w);
  float dw[kVectors][8] = {};
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const auto* x_row = reinterpret_cast<const Bf16x8*>(a.x + row * a.d);
    const auto* dy_row = reinterpret_cast<const Bf16x8*>(a.dy + row * a.d);
    Bf16x8 x_bits[kVectors], dy_bits[kVectors], more_bits[kVectors];
    float2 both = make_float2(0, 0);  // of x^2, of w dy x
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = threadIdx.x + v * blockDim.x;
      if (i >= vectors) continue;
      x_bits[v] = x_row[i];
      dy_bits[v] = dy_row[i];
      if (a.residual != nullptr) more_bits[v] = reinterpret_cast<const Bf16x8*>(a.residual + row * a.d)[i];
      float x[8], dy[8], w[8];
      unpack(x_bits[v], x);
      unpack(dy_bits[v], dy);
      unpack(weights[i], w);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        both.x += x[j] * x[j];
        both.y += w[j] * dy[j] * x[j];
      }
    }
    both = block_sum(both, sums);
    const float scale = 1.0f / sqrtf(both.x / static_cast<float>(a.d) + a.eps);
    const float along = both.y / static_cast<float>(a.d) * scale * scale * scale;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = threadIdx.x + v * blockDim.x;
      if (i >= vectors) continue;
      float x[8], dy[8], w[8], dx[8], more[8] = {};
      unpack(x_bits[v], x);
      unpack(dy_bits[v], dy);
      unpack(weights[i], w);
      if (a.residual != nullptr) unpack(more_bits[v], more);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        dw[v][j] += dy[j] * x[j] * scale;
        dx[j] = scale * w[j] * dy[j] - along * x[j] + more[j];
        w[j] *= rounded(x[j] * scale);
      }
      reinterpret_cast<Bf16x8*>(a.dx + row * a.d)[i] = pack(dx);
      if (a.normed != nullptr) reinterpret_cast<Bf16x8*>(a.normed + row * a.d)[i] = pack(w);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = threadIdx.x + v * blockDim.x;
    if (i >= vectors) continue;
    float4* to = reinterpret_cast<float4*>(a.partials + blockIdx.x * a.d) + 2 * i;
    to[0] = make_float4(dw[v][0], dw[v][1], dw[v][2], dw[v][3]);
    to[1] = make_float4(dw[v][4], dw[v][5], dw[v][6], dw[v][7]);
  }
}

__global__ void swiglu_backward_kernel(Bf16x8* gate_up, Bf16x8* d_act, int64_t vectors, int64_t total) {
  allow_next();
  wait_for_previous();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t at = i + i / vectors * vectors;
    float gate[8], up[8], d[8];
    unpack(gate_up[at], gate);
    unpack(gate_up[at + vectors], up);
    unpack(d_act[i], d);
    float act[8], d_gate[8], d_up[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float sigmoid = __fdividef(1.0f, 1.0f + __expf(-gate[j])), silu = gate[j] * sigmoid;
      act[j] = swiglu_of(gate[j], up[j]);
      d_gate[j] = d[j] * up[j] * (sigmoid + silu * (1.0f - sigmoid));
      d_up[j] = d[j] * silu;
    }
    d_act[i] = pack(act);
    gate_up[at] = pack(d_gate);
    gate_up[at + vectors] = pack(d_up);
  }
}

// The first of equal ids does all of them, 8 columns a thread.
template <bool kFp32>
__global__ void embed_backward_kernel(EmbedBackwardArgs a) {
  constexpr int kAtOnce = 8;
  allow_next();
  wait_for_previous();
  const int64_t first = blockIdx.x, id = a.ids[first], vectors = a.hidden / 8;
  if (first > 0 && a.ids[first - 1] == id) return;
  const int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  float sum[8] = {};
  for (int64_t at = first; at < a.count && a.ids[at] == id; at += kAtOnce) {
    Bf16x8 more[kAtOnce];
    bool same[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      same[r] = at + r < a.count && a.ids[at + r] == id;
      if (same[r]) more[r] = reinterpret_cast<const Bf16x8*>(a.rows + a.order[at + r] * a.hidden)[i];
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (!same[r]) continue;
      float x[8];
      unpack(more[r], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += x[j];
    }
  }
  if constexpr (kFp32) {
    float4* to = reinterpret_cast<float4*>(static_cast<float*>(a.d_table) + id * a.hidden) + 2 * i;
    const float4 low = to[0], high = to[1];
    to[0] = make_float4(low.x + sum[0], low.y + sum[1], low.z + sum[2], low.w + sum[3]);
    to[1] = make_float4(high.x + sum[4], high.y + sum[5], high.z + sum[6], high.w + sum[7]);
  } else {
    Bf16x8& to = reinterpret_cast<Bf16x8*>(static_cast<Bf16*>(a.d_table) + id * a.hidden)[i];
    float before[8];
    unpack(to, before);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += before[j];
    to = pack(sum);
  }
}

__global__ void scatter_rows_kernel(Bf16x8* out, const Bf16x8* from, const int32_t* rows, int64_t vectors,
                                    int64_t total) {
  allow_next();
  wait_for_previous();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / vectors;
    out[int64_t{rows[row]} * vectors + i - row * vectors] = from[i];
  }
}

// A block sums its rows of 8 columns a thread into a part.
__global__ void bias_backward_kernel(float* partials, const Bf16* dy, int64_t rows, int64_t width) {
  allow_next();
  wait_for_previous();
  const int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (i >= width / 8) return;
  float sum[8] = {};
#pragma unroll 4
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float x[8];
    unpack(reinterpret_cast<const Bf16x8*>(dy + row * width)[i], x);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += x[j];
  }
  float4* to = reinterpret_cast<float4*>(partials + blockIdx.x * width) + 2 * i;
  to[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
  to[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
}

constexpr int kThreads = 256;
constexpr int kNormBlocks = 4;  // of a multiprocessor; also the most of any kernel whose parts are summed
unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(
      std::min<int64_t>(ceil_div<int64_t>(threads, kThreads), int64_t{multiprocessors()} * 16));
}

}  // namespace

size_t row_sums_bytes(int64_t width) {
  return sizeof(float) * static_cast<size_t>(multiprocessors()) * kNormBlocks * static_cast<size_t>(width);
}

int add_rows(const GradientOut& out, const float* from, int64_t rows, int64_t stride, int64_t width, Stream stream) {
  return launch("add_rows", add_rows_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(width, kWarp))),
                kSumWarps * kWarp, 0, stream, out, from, rows, stride, width);
}

int rms_norm_backward(const RmsNormBackwardArgs* a, Stream stream) {
  TF_REQUIRE(a->d % 8 == 0 && a->d > 0 && a->d <= 16384, "rms_norm_backward: rows of %ld (a multiple of 8, to 16384)",
             static_cast<long>(a->d));
  if (a->rows == 0) return 0;
  const int64_t vectors = a->d / 8;
  const int each = vectors <= 512 ? 1 : vectors <= 1024 ? 2 : 4;
  const int threads = static_cast<int>(ceil_div<int64_t>(ceil_div<int64_t>(vectors, each), kWarp) * kWarp);
  const int blocks = row_sum_blocks(a->rows, kNormBlocks);
  const auto kernel = each == 1   ? rms_norm_backward_kernel<1>
                      : each == 2 ? rms_norm_backward_kernel<2>
                                  : rms_norm_backward_kernel<4>;
  if (const int error = launch("rms_norm_backward", kernel, dim3(static_cast<unsigned>(blocks)), threads, 0, stream,
                               *a))
    return error;
  return add_rows(a->dw, a->partials, blocks, a->d, a->d, stream);
}

int swiglu_backward(const SwigluBackwardArgs* a, Stream stream) {
  TF_REQUIRE(a->intermediate % 8 == 0, "swiglu_backward: rows of %ld (a multiple of 8)",
             static_cast<long>(a->intermediate));
  const int64_t total = a->rows * (a->intermediate / 8);
  if (total == 0) return 0;
  return launch("swiglu_backward", swiglu_backward_kernel, dim3(blocks_for(total)), kThreads, 0, stream,
                reinterpret_cast<Bf16x8*>(a->gate_up), reinterpret_cast<Bf16x8*>(a->d_act), a->intermediate / 8, total);
}

int embed_backward(const EmbedBackwardArgs* a, Stream stream) {
  TF_REQUIRE(a->hidden % 8 == 0, "embed_backward: rows of %ld (a multiple of 8)", static_cast<long>(a->hidden));
  if (a->count == 0) return 0;
  constexpr int kColumnThreads = 128;
  const dim3 grid(static_cast<unsigned>(a->count),
                  static_cast<unsigned>(ceil_div<int64_t>(a->hidden / 8, kColumnThreads)));
  return launch("embed_backward", a->fp32 ? embed_backward_kernel<true> : embed_backward_kernel<false>, grid,
                kColumnThreads, 0, stream, *a);
}

int scatter_rows(Bf16* out, const Bf16* from, const int32_t* rows, int64_t count, int64_t hidden, Stream stream) {
  TF_REQUIRE(hidden % 8 == 0, "scatter_rows: rows of %ld (a multiple of 8)", static_cast<long>(hidden));
  const int64_t total = count * (hidden / 8);
  if (total == 0) return 0;
  return launch("scatter_rows", scatter_rows_kernel, dim3(blocks_for(total)), kThreads, 0, stream,
                reinterpret_cast<Bf16x8*>(out), reinterpret_cast<const Bf16x8*>(from), rows, hidden / 8, total);
}

int bias_backward(const GradientOut* out, const Bf16* dy, float* partials, int64_t rows, int64_t width, Stream stream) {
  TF_REQUIRE(width % 8 == 0, "bias_backward: rows of %ld (a multiple of 8)", static_cast<long>(width));
  if (rows == 0) return 0;
  constexpr int kColumnThreads = 128;
  const int blocks = row_sum_blocks(rows, 1);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(ceil_div<int64_t>(width / 8, kColumnThreads)));
  if (const int error = launch("bias_backward", bias_backward_kernel, grid, kColumnThreads, 0, stream, partials, dy,
                               rows, width))
    return error;
  return add_rows(*out, partials, blocks, width, width, stream);
}

}  // namespace tritonforge::gpu
