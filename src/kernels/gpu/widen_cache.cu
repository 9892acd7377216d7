// Pages of an FP8 cache as bf16 pages, for the attention of prompts: a product reads each key many times there, so
// widening them once and writing them back costs a few percent of it, and its kernels know one kind of cache.
#include <algorithm>

#include "kernels/fp8.h"
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256;

// Grid: (pages, in turn; sequences).
__global__ void __launch_bounds__(kThreads) widen_cache_kernel(const __grid_constant__ WidenCacheArgs a) {
  allow_next();
  wait_for_previous();
  const int sequence = blockIdx.y, pages = ceil_div(a.lengths[sequence], kPage);
  const int64_t table = int64_t{sequence} * a.table_width;
  const int row_chunks = static_cast<int>(a.head_dim) / 16, chunks = static_cast<int>(a.kv_heads) * kPage * row_chunks;
  for (int page = blockIdx.x; page < pages; page += gridDim.x) {
    const int64_t from = int64_t{a.from_tables[table + page]} * chunks,
                  to = int64_t{a.to_tables[table + page]} * chunks;
    const uint8_t* scales = a.from.scales + int64_t{a.from_tables[table + page]} * a.kv_heads * 2 * kPage;
    for (int chunk = threadIdx.x; chunk < chunks; chunk += kThreads) {
      const int row = chunk / row_chunks, head = row / kPage, token = row % kPage;
      const uint8_t* scale = scales + head * 2 * kPage + token;
      widen(static_cast<Bf16*>(a.to.keys) + (to + chunk) * 16, static_cast<const uint4*>(a.from.keys)[from + chunk],
            fp8::factor_of(scale[0]));
      widen(static_cast<Bf16*>(a.to.values) + (to + chunk) * 16, static_cast<const uint4*>(a.from.values)[from + chunk],
            fp8::factor_of(scale[kPage]));
    }
  }
}

}  // namespace

int widen_cache(const WidenCacheArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim % 16 == 0 && a->from.scales != nullptr && a->to.scales == nullptr,
             "widen_cache: from FP8 to bf16, head_dim %ld (a multiple of 16)", static_cast<long>(a->head_dim));
  if (a->sequences == 0) return 0;
  const int64_t wanted = ceil_div<int64_t>(int64_t{multiprocessors()} * 8, a->sequences);
  const dim3 grid(static_cast<unsigned>(std::min(wanted, a->table_width)), static_cast<unsigned>(a->sequences));
  return launch("widen_cache", widen_cache_kernel, grid, kThreads, 0, stream, *a);
}

}  // namespace tritonforge::gpu
