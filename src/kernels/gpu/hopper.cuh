#pragma once
// What kernels for sm_90a share: mbarriers, the bulk tensor copy engine (TMA), and products of a warpgroup (wgmma).
// Everything here is compiled for sm_90a alone; elsewhere TF_HOPPER is 0 and a kernel's body must be left out.
#include "kernels/gpu/device.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TF_HOPPER 1
#else
#define TF_HOPPER 0
#endif

namespace tritonforge::gpu {

constexpr int kWarpgroup = 128;  // threads

#if TF_HOPPER
// A barrier in shared memory (8 bytes at a multiple of 8) whose phases are counted by parity, the first one 0.
__device__ inline void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the same barrier of another block of the cluster, or of this one. Released to this block alone, as a fence of the
// cluster takes longer than a step of a product: what the arrival gives free is written by the copy engine.
__device__ inline void barrier_arrive_at(uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// One arrival, and so many bytes of copies that the phase waits for besides.
__device__ inline void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_wait(uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A box of a tensor into shared memory, by one thread.
__device__ inline void tensor_load(uint32_t to, const void* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void tensor_load(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ inline void tensor_load(uint32_t to, const void* map, uint32_t barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
// The same box into the shared memory of both blocks of a cluster, at the same place; each block's barrier counts it.
__device__ inline void tensor_load_to_both(uint32_t to, const void* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "{\n.reg .b16 both;\nmov.b16 both, 3;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4}], [%2], both;\n}\n" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
// A box of shared memory into a tensor, by one thread.
__device__ inline void tensor_store(const void* map, uint32_t from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// The same, added to what the tensor holds: one rounding to its type, whoever adds first.
__device__ inline void tensor_add(const void* map, uint32_t from, int x, int y) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Neighbours of global memory, a multiple of 16 bytes, into shared memory, by one thread.
__device__ inline void bulk_load(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// And back: over what is there, or as floats added to it.
__device__ inline void bulk_store(void* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ inline void bulk_add(float* to, uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All but so many of the stores that this thread began have been written.
template <int kPending>
__device__ inline void stores_written() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Of the stores that this thread began all but so many have read shared memory; 0: all have been written.
template <int kPending>
__device__ inline void stores_wait() {
  if constexpr (kPending > 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
  else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Ordinary stores to shared memory of this thread come before later reads by tensor cores and copy engine.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// All threads of a warpgroup meet.
__device__ inline void warpgroup_sync(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kWarpgroup) : "memory");
}

template <int kRegisters>
__device__ inline void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Operands in shared memory lie in rows of 128 bytes, their 16-byte chunks permuted within groups of eight rows as the
// copy engine's SWIZZLE_128B does; a group of rows (1024 bytes) begins at a multiple of 1024. The descriptor of what
// starts at `address`; `wide`: bytes from one column of 64 elements to the next where these run along the rows of the
// product (values), of no account where they run along its inner dimension (queries, keys).
__device__ inline uint64_t operand(uint32_t address, int wide = 16) {
  return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | static_cast<uint64_t>(wide >> 4) << 16 |
         (address & 0x3FFFF) >> 4;
}

__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving reads and writes of the registers across: a product in flight uses them.
// Indices, as a loop over the elements is not always unrolled, and the array would go to memory.
template <int kCount>
__device__ inline void hold(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int kCount>
__device__ inline void hold(uint32_t (&x)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kCount; ++i) asm volatile("" : "+r"(x[i / 4][i % 4])::"memory");
}

#define TF_F8(x, i)                                                                                     \
  "+f"(x[i]), "+f"(x[(i) + 1]), "+f"(x[(i) + 2]), "+f"(x[(i) + 3]), "+f"(x[(i) + 4]), "+f"(x[(i) + 5]), \
      "+f"(x[(i) + 6]), "+f"(x[(i) + 7])

// c [64, 128] = a [64, 16] b [128, 16]^T (+ c), both in shared memory along their inner dimension. Element [4 n + i] of
// c is row lane / 4 + i / 2 * 8 of the warp's 16 rows, column 8 n + lane % 4 * 2 + i % 2.
__device__ inline void product(float (&c)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24), TF_F8(c, 32), TF_F8(c, 40), TF_F8(c, 48), TF_F8(c, 56)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

// c [64, 128 or 64] += a [64, 16] b [16, 128 or 64]: a in registers, laid out as a product's c; b's rows in shared
// memory.
__device__ inline void add_product(float (&c)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24), TF_F8(c, 32), TF_F8(c, 40), TF_F8(c, 48), TF_F8(c, 56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void add_product(float (&c)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// The same with a in shared memory along its inner dimension.
__device__ inline void add_product(float (&c)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24), TF_F8(c, 32), TF_F8(c, 40), TF_F8(c, 48), TF_F8(c, 56)
      : "l"(a), "l"(b));
}
__device__ inline void add_product(float (&c)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, add, 1, 1, 0, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24)
      : "l"(a), "l"(b));
}
// c [64, 64 or 32] = a [16, 64]^T b [16, 64 or 32] (+ c): the rows of both in shared memory.
__device__ inline void product_of_rows(float (&c)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, add, 1, 1, 1, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8), TF_F8(c, 16), TF_F8(c, 24)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
__device__ inline void product_of_rows(float (&c)[16], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, add, 1, 1, 1, 1;\n}\n"
      : TF_F8(c, 0), TF_F8(c, 8)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}
#undef TF_F8
#endif

}  // namespace tritonforge::gpu
