#pragma once
// Where the kernels of several GPUs wait for each other: cuda_api.h, RankMeeting.
#include "kernels/gpu/device.cuh"

namespace tritonforge::gpu {

// All threads of every block, behind wait_for_previous(). Afterwards what the other ranks' kernels before their own
// call have written is there to be read, with read_peer(). Every block tells the others, all of them the same, so that
// none waits for one that is not on its device yet.
__device__ inline void meet(const RankMeeting& m) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < m.ranks) {
    const uint32_t number = *m.number + m.later;
    __threadfence_system();
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(m.flags[peer] + m.rank), "r"(number) : "memory");
    const uint32_t* theirs = m.flags[m.rank] + peer;
    for (uint32_t looks = 1;; ++looks) {
      uint32_t found;
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(theirs) : "memory");
      if (found >= number) break;
      if (looks % 256 == 0 && *static_cast<const volatile uint32_t*>(m.stop) != 0) break;
    }
  }
  __syncthreads();
}

// Of another GPU's memory, or this one's: past the L1 cache, which does not see what others write.
__device__ inline uint4 read_peer(const void* from) {
  uint4 value;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}

}  // namespace tritonforge::gpu
