#pragma once
// What the kernels share on the device side: bfloat16 vectors, reductions, cp.async, ldmatrix and mma.
#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/gpu/internal.h"

namespace tritonforge::gpu {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kWarp = 32;

// Eight bfloat16 values: the 16 bytes that a thread reads or writes at once.
struct alignas(16) Bf16x8 {
  uint32_t pair[4];
};

__device__ inline float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }
__device__ inline uint32_t pack(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const uint32_t&>(both);
}
// x as it is after being stored as bfloat16.
__device__ inline float rounded(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// silu(gate) * up as two operations in bfloat16 give it, before the last rounding.
__device__ inline float swiglu_of(float gate, float up) { return rounded(__fdividef(gate, 1.0f + __expf(-gate))) * up; }

// Through a reference into memory nvcc reads the four words one by one. By value it reads them at once: a norm of one
// row then takes 0.9 of the time, rows' kernels of 256 and more up to 1.06, a training step the same (`kernels rows`,
// H200).
__device__ inline void unpack(const Bf16x8& from, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = low(from.pair[i]);
    to[2 * i + 1] = high(from.pair[i]);
  }
}
__device__ inline Bf16x8 pack(const float (&from)[8]) {
  Bf16x8 to;
#pragma unroll
  for (int i = 0; i < 4; ++i) to.pair[i] = pack(from[2 * i], from[2 * i + 1]);
  return to;
}

// Eight values, the i-th eight of them.
__device__ inline void load8(const float* from, int64_t i, float (&to)[8]) {
  const float4 low = reinterpret_cast<const float4*>(from)[2 * i],
               high = reinterpret_cast<const float4*>(from)[2 * i + 1];
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}
__device__ inline void store8(float* to, int64_t i, const float (&from)[8]) {
  reinterpret_cast<float4*>(to)[2 * i] = make_float4(from[0], from[1], from[2], from[3]);
  reinterpret_cast<float4*>(to)[2 * i + 1] = make_float4(from[4], from[5], from[6], from[7]);
}
__device__ inline void load8(const Bf16* from, int64_t i, float (&to)[8]) {
  unpack(reinterpret_cast<const Bf16x8*>(from)[i], to);
}
__device__ inline void store8(Bf16* to, int64_t i, const float (&from)[8]) {
  reinterpret_cast<Bf16x8*>(to)[i] = pack(from);
}

// Programmatic dependent launch. Every kernel that launch() starts calls wait_for_previous() in every block before it
// reads or writes what another kernel may touch, and before it ends: so "the kernel before has ended" implies the same
// of all earlier ones. Before it, only what no kernel writes may be read. allow_next() lets the next kernel's blocks
// come as soon as all blocks of this one are on the device; it gives no ordering, so it stands at the start.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 900
// All threads of a cluster meet; what they wrote to shared memory before is seen by all after.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif

// `blocks`: of a cluster, neighbours along the grid's first dimension; 0 where there are no clusters.
template <typename... Parameters, typename... Arguments>
int launch_clusters(const char* name, void (*kernel)(Parameters...), dim3 grid, int blocks, int threads,
                    size_t shared_bytes, Stream stream, const Arguments&... arguments) {
  cudaLaunchAttribute attributes[3]{};
  unsigned count = 0;
  if (overlap_allowed()) {
    // A multiprocessor changes its split between L1 and shared memory only while it is empty, so kernels that are to
    // overlap ask for the same one: all, as products need it. Without this a step of one row took a fifth longer with
    // overlap than without.
    attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (blocks > 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}
template <typename... Parameters, typename... Arguments>
int launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, Stream stream,
           const Arguments&... arguments) {
  return launch_clusters(name, kernel, grid, 0, threads, shared_bytes, stream, arguments...);
}

// Over groups of kLanes neighbouring lanes.
template <int kLanes = kWarp>
__device__ inline float lane_sum(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from global to shared memory, past L1; `bytes` 0 writes zeros and reads nothing.
__device__ inline void copy_async(uint32_t to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline uint32_t transpose_matrix(uint32_t from) {
  uint32_t to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(from));
  return to;
}

// c [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4 and t = lane % 4:
//   a: rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8;  b: column g at rows 2t, 2t + 8;  c: row g at columns
//   2t, 2t + 1, row g + 8 at the same.
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Lane t of four has columns 2t and 2t + 1 of four groups of eight columns, and gets all eight of group t.
__device__ inline uint4 transpose_in_quad(const uint32_t (&pairs)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  // Between neighbours, then between pairs of lanes: what the other is to have for what is this one's.
  const uint32_t a = __shfl_xor_sync(kAllLanes, odd ? pairs[0] : pairs[1], 1),
                 b = __shfl_xor_sync(kAllLanes, odd ? pairs[2] : pairs[3], 1);
  const uint32_t first[2] = {odd ? a : pairs[0], odd ? pairs[1] : a},  // of group `odd`: lanes 0, 1 or 2, 3
      second[2] = {odd ? b : pairs[2], odd ? pairs[3] : b};            // of group 2 + `odd`
  const uint32_t c = __shfl_xor_sync(kAllLanes, high ? first[0] : second[0], 2),
                 d = __shfl_xor_sync(kAllLanes, high ? first[1] : second[1], 2);
  return high ? make_uint4(c, d, second[0], second[1]) : make_uint4(first[0], first[1], c, d);
}

// A row of `chunks` 16-byte chunks in shared memory, its chunks permuted within groups of eight by the row number, so
// that ldmatrix reads eight rows of one column from eight different groups of banks; of four chunks two rows are a
// group. Returns bytes from the tile's start.
template <int kChunks>
__device__ inline uint32_t swizzled(int row, int chunk) {
  const int moved = kChunks == 4 ? row / 2 & 3 : row & 7;
  return static_cast<uint32_t>((row * kChunks + (chunk ^ moved)) * 16);
}

// Pairs of bfloat16 from four e4m3 bytes: bytes 0 and 2, bytes 1 and 3. Their exponents and mantissas are put where
// bfloat16 has its own, which is the number times 2^-120, subnormal ones included.
__device__ inline uint32_t widened_pair(uint32_t magnitudes, uint32_t signs) {
  const uint32_t pair = (magnitudes & 0x07F007F0) | (signs & 0x80008000), factor = 0x7B807B80;  // 2^120
  const __nv_bfloat162 product = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair),
                                         reinterpret_cast<const __nv_bfloat162&>(factor));
  return reinterpret_cast<const uint32_t&>(product);
}
__device__ inline uint32_t even_bytes(uint32_t four) { return widened_pair(four << 4, four << 8); }
__device__ inline uint32_t odd_bytes(uint32_t four) { return widened_pair(four >> 4, four); }

// Sixteen neighbours of a row as bfloat16, whose even bytes are the first eight and odd bytes the others. factor: a
// power of two, so exact.
__device__ inline void widen(Bf16* to, const uint4& from, float factor) {
  const __nv_bfloat162 scale = __float2bfloat162_rn(factor);
  const auto scaled = [&](uint32_t pair) {
    const __nv_bfloat162 x = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair), scale);
    return reinterpret_cast<const uint32_t&>(x);
  };
  auto* out = reinterpret_cast<uint4*>(to);
  out[0] = make_uint4(scaled(even_bytes(from.x)), scaled(even_bytes(from.y)), scaled(even_bytes(from.z)),
                      scaled(even_bytes(from.w)));
  out[1] = make_uint4(scaled(odd_bytes(from.x)), scaled(odd_bytes(from.y)), scaled(odd_bytes(from.z)),
                      scaled(odd_bytes(from.w)));
}

}  // namespace tritonforge::gpu
