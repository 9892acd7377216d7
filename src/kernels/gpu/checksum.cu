// A 64-bit checksum of bytes, at memory speed: the sum of independent mixes, so blocks may add in any order.
// The host's twin is kernels/checksum.h.
#include <algorithm>

#include "kernels/checksum.h"
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    checksum_kernel(unsigned long long* out, const uint8_t* bytes, int64_t count) {
  __shared__ uint64_t sums[kThreads / kWarp];
  const int64_t pairs = count / 16, thread = blockIdx.x * int64_t{kThreads} + threadIdx.x,
                threads = int64_t{gridDim.x} * kThreads;
  const auto* words = reinterpret_cast<const ulonglong2*>(bytes);
  uint64_t sum = 0;
#pragma unroll 4
  for (int64_t i = thread; i < pairs; i += threads) {
    const ulonglong2 pair = __ldg(words + i);
    sum += checksum_mix(pair.x, static_cast<uint64_t>(2 * i)) + checksum_mix(pair.y, static_cast<uint64_t>(2 * i + 1));
  }
  if (thread < 2) {  // the last bytes, fewer than 16: two words at most
    const int64_t index = 2 * pairs + thread, begin = index * 8;
    uint64_t word = 0;
    for (int64_t i = begin; i < count && i < begin + 8; ++i) word |= uint64_t{bytes[i]} << (8 * (i - begin));
    if (begin < count) sum += checksum_mix(word, static_cast<uint64_t>(index));
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / kWarp; ++w) sum += sums[w];
  atomicAdd(out, static_cast<unsigned long long>(sum));
}

}  // namespace

int checksum(uint64_t* out, const void* bytes, size_t count, Stream stream) {
  TF_REQUIRE(reinterpret_cast<uintptr_t>(bytes) % 16 == 0, "checksum: memory not aligned to 16 bytes");
  if (const int error = check(cudaMemsetAsync(out, 0, 8, stream), "checksum")) return error;
  const auto n = static_cast<int64_t>(count);
  const int64_t blocks = std::clamp<int64_t>(ceil_div<int64_t>(n, kThreads * 64), 1, int64_t{multiprocessors()} * 8);
  checksum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(reinterpret_cast<unsigned long long*>(out),
                                                                          static_cast<const uint8_t*>(bytes), n);
  return check_launch("checksum");
}

}  // namespace tritonforge::gpu
