// Blocks of the KV cache to the host's pinned memory and back: one launch for those of all layers, where a copy each of
// 32 KB would take longer to be queued than to be done.
#include <algorithm>

#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256, kAhead = 8;  // 16-byte loads of a thread on their way at once

__device__ void copy_bytes(uint8_t* to, const uint8_t* from, int64_t bytes) {
  const int64_t words = bytes / int64_t{sizeof(uint4)};
  for (int64_t first = threadIdx.x; first < words; first += int64_t{kThreads} * kAhead) {
    uint4 word[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t at = first + int64_t{i} * kThreads;
      if (at < words) word[i] = reinterpret_cast<const uint4*>(from)[at];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t at = first + int64_t{i} * kThreads;
      if (at < words) reinterpret_cast<uint4*>(to)[at] = word[i];
    }
  }
}

// Grid: (moves, layers).
__global__ void __launch_bounds__(kThreads) move_blocks_kernel(const __grid_constant__ MoveBlocksArgs a) {
  allow_next();
  wait_for_previous();
  const auto [block, place] = a.moves[blockIdx.x];
  const int64_t layer = blockIdx.y, kept = 2 * a.page_bytes + a.scale_bytes;
  uint8_t* host = a.host + (place * a.layers + layer) * kept;
  const auto part = [&](void* first, int64_t bytes) {
    uint8_t* device = static_cast<uint8_t*>(first) + layer * a.layer_bytes + block * bytes;
    if (a.to_host) copy_bytes(host, device, bytes);
    else copy_bytes(device, host, bytes);
    host += bytes;
  };
  part(a.first.keys, a.page_bytes);
  part(a.first.values, a.page_bytes);
  if (a.scale_bytes > 0) part(a.first.scales, a.scale_bytes);
}

}  // namespace

int move_blocks(const MoveBlocksArgs* a, Stream stream) {
  TF_REQUIRE(a->count <= kBlocksMoved, "move_blocks: %ld at once (%d at most)", static_cast<long>(a->count),
             kBlocksMoved);
  TF_REQUIRE((a->page_bytes | a->scale_bytes) % 16 == 0, "move_blocks: pages of %ld bytes (a multiple of 16)",
             static_cast<long>(a->page_bytes));
  if (a->count == 0) return 0;
  const dim3 grid(static_cast<unsigned>(a->count), static_cast<unsigned>(a->layers));
  return launch("move_blocks", move_blocks_kernel, grid, kThreads, 0, stream, *a);
}

}  // namespace tritonforge::gpu
