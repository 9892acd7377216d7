// y = x W^T for at most eight rows of x: bound by reading W once. No shared-memory tiles: every 16 bytes of W go from
// global memory into the registers of the one thread that feeds them to the tensor cores.
//
// W's rows are the rows of m16n8k16 and x's rows its eight columns. The sum over k may run in any order as long as both
// operands agree, so lane t of a quad takes the eight neighbours k + 8 t .. k + 8 t + 7 with one 16-byte load and uses
// the first four in one mma and the last four in the next, instead of the 4-byte pieces that the layout names.
// A block's warps share 16 rows of W and divide k among them; their sums meet in shared memory, in order.
//
// W in FP8 lies in lane order: 16 bytes are a lane's part of four mma in k's own order. They are widened in registers,
// and the rows' scales, powers of two, are multiplied into the sums: the bits of the same numbers in bfloat16, added up
// in this kernel's order.
#include <type_traits>

#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kColumns = 8;    // rows of x
constexpr int kTileRows = 16;  // rows of W a block

__device__ inline uint4 load_once(const void* from) {  // W is read once: do not keep it in L1
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// Blocks a multiprocessor: 24 to 32 warps, so that 64 registers are left to a thread at least.
template <int kWarps, bool kFp8>
__global__ void __launch_bounds__(kWarps* kWarp, kWarps == 16  ? 2
                                                 : kWarps == 8 ? 3
                                                               : 6)
    skinny_gemm_kernel(const __grid_constant__ GemmArgs a) {
  constexpr int kBytes = kFp8 ? 1 : 2, kSlab = 64 / kBytes;  // of k: one 16-byte load of each of four lanes
  constexpr int kInFlight = kFp8 ? 2 : 4;                    // slabs that a warp loads before it uses the first
  __shared__ float sums[kWarps][kColumns][kTileRows];
  allow_next();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const int m = static_cast<int>(a.m), n = static_cast<int>(a.n);
  const int row = blockIdx.x * kTileRows + g;
  // Rows beyond n read the last one again and are not stored.
  using Stored = std::conditional_t<kFp8, uint8_t, Bf16>;
  const Stored* w;
  if constexpr (kFp8) w = a.fp8.values;
  else w = a.w;
  const Stored* upper = w + int64_t{min(row, n - 1)} * a.k + 16 / kBytes * t;
  const Stored* lower = w + int64_t{min(row + 8, n - 1)} * a.k + 16 / kBytes * t;
  const Bf16* x = a.x + int64_t{min(g, m - 1)} * a.k + (kFp8 ? 2 : 8) * t;
  const bool used = g < m;

  // Slabs warp, warp + kWarps, ...: neighbouring warps read neighbouring memory.
  const int slabs = static_cast<int>(a.k / kSlab);
  float c[4] = {};
  uint4 w0[kInFlight], w1[kInFlight];
  const auto load = [&](int slab, int i) {
    const int at = min(slab, slabs - 1) * kSlab;
    w0[i] = load_once(upper + at);
    w1[i] = load_once(lower + at);
  };
  const auto use = [&](int slab, const uint4& u, const uint4& l) {
    if constexpr (kFp8) {
      const auto* pairs = reinterpret_cast<const uint32_t*>(x + slab * kSlab);
      const bool there = used && slab < slabs;
      const uint32_t us[4] = {u.x, u.y, u.z, u.w}, ls[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const uint32_t rows[4] = {even_bytes(us[step]), even_bytes(ls[step]), odd_bytes(us[step]), odd_bytes(ls[step])};
        mma(c, rows, there ? __ldg(pairs + 8 * step) : 0, there ? __ldg(pairs + 8 * step + 4) : 0);
      }
    } else {
      uint4 v = make_uint4(0, 0, 0, 0);
      if (used && slab < slabs) v = __ldg(reinterpret_cast<const uint4*>(x + slab * kSlab));
      const uint32_t first[4] = {u.x, l.x, u.y, l.y}, second[4] = {u.z, l.z, u.w, l.w};
      mma(c, first, v.x, v.y);
      mma(c, second, v.z, v.w);
    }
  };
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) load(warp + i * kWarps, i);  // weights: they need not wait
  wait_for_previous();
  for (int slab = warp; slab < slabs; slab += kInFlight * kWarps) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const uint4 u = w0[i], l = w1[i];
      const int next = slab + (kInFlight + i) * kWarps;
      if (next < slabs) load(next, i);
      use(slab + i * kWarps, u, l);
    }
  }

  // c: rows g and g + 8 of W, columns 2t and 2t + 1.
  sums[warp][2 * t][g] = c[0];
  sums[warp][2 * t + 1][g] = c[1];
  sums[warp][2 * t][g + 8] = c[2];
  sums[warp][2 * t + 1][g + 8] = c[3];
  __syncthreads();
  for (int i = threadIdx.x; i < m * kTileRows; i += kWarps * kWarp) {
    const int column = i / kTileRows, out_row = static_cast<int>(blockIdx.x) * kTileRows + i % kTileRows;
    if (out_row >= n) continue;
    float y = 0;
#pragma unroll
    for (int other = 0; other < kWarps; ++other) y += sums[other][column][i % kTileRows];
    if constexpr (kFp8) y *= a.fp8.scales[out_row];
    if (a.bias != nullptr) y += low(a.bias[out_row]);
    const int64_t at = int64_t{column} * n + out_row;
    if (a.fp32_out) {
      auto* to = static_cast<float*>(a.y) + at;
      *to = a.accumulate ? y + *to : y;
    } else {
      auto* to = static_cast<__nv_bfloat16*>(a.y) + at;
      *to = __float2bfloat16_rn(a.accumulate ? y + __bfloat162float(*to) : y);
    }
  }
}

template <int kWarps>
int run(const GemmArgs& a, Stream stream) {
  return launch("gemm_skinny",
                a.fp8.values != nullptr ? skinny_gemm_kernel<kWarps, true> : skinny_gemm_kernel<kWarps, false>,
                dim3(static_cast<unsigned>(ceil_div<int64_t>(a.n, kTileRows))), kWarps * kWarp, 0, stream, a);
}

}  // namespace

int gemm_skinny(const GemmArgs* a, Stream stream) {
  const int slab = a->fp8.values != nullptr ? 64 : 32;
  TF_REQUIRE(a->m <= kColumns && a->k % slab == 0, "gemm_skinny: m %ld, k %ld (m at most 8, k a multiple of %d)",
             static_cast<long>(a->m), static_cast<long>(a->k), slab);
  if (a->m == 0 || a->n == 0) return 0;
  // Few rows of W: more warps a block, so that the device is full all the same.
  const int64_t tiles = ceil_div<int64_t>(a->n, kTileRows), wanted = int64_t{multiprocessors()} * 16;  // warps
  if (tiles * 4 >= 2 * wanted) return run<4>(*a, stream);
  return tiles * 8 >= wanted ? run<8>(*a, stream) : run<16>(*a, stream);
}

}  // namespace tritonforge::gpu
