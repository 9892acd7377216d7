// Attention over keys that came in parts, as ring attention has it: bound by memory.
#include "kernels/gpu/device.cuh"
#include "kernels/gpu/train_args.h"

namespace tritonforge::gpu {
namespace {

// A thread four elements, so that a head's threads are half a warp or a whole one.
constexpr int kThreads = 256, kEach = 4;
__global__ void __launch_bounds__(kThreads) attention_merge_kernel(AttentionMergeArgs a) {
  allow_next();
  wait_for_previous();
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x, head = index / (a.head_dim / kEach);
  const bool any = head < a.rows * a.heads;
  float before = 0, added = -INFINITY;
  if (any) {
    before = a.statistics[head];
    added = a.part_statistics[head];
  }
  __syncwarp();  // all of a head's threads have read what the first one writes
  if (!any) return;
  const float top = fmaxf(before, added), mine = exp2f(before - top), other = exp2f(added - top), total = mine + other;
  float4& sum = reinterpret_cast<float4*>(a.sum)[index];
  float4 merged = sum;
  if (other > 0) {
    const uint2 part = reinterpret_cast<const uint2*>(a.part)[index];
    const float keep = mine / total, take = other / total;
    merged = make_float4(merged.x * keep + low(part.x) * take, merged.y * keep + high(part.x) * take,
                         merged.z * keep + low(part.y) * take, merged.w * keep + high(part.y) * take);
    sum = merged;
    if (index % (a.head_dim / kEach) == 0) a.statistics[head] = top + log2f(total);
  }
  if (a.out != nullptr)
    reinterpret_cast<uint2*>(a.out)[index] = make_uint2(pack(merged.x, merged.y), pack(merged.z, merged.w));
}

}  // namespace

int attention_merge(const AttentionMergeArgs* a, Stream stream) {
  TF_REQUIRE(a->head_dim == 64 || a->head_dim == 128, "attention_merge: head_dim %ld (64 or 128)",
             static_cast<long>(a->head_dim));
  const int64_t threads = a->rows * a->heads * (a->head_dim / kEach);
  if (threads == 0) return 0;
  return launch("attention_merge", attention_merge_kernel,
                dim3(static_cast<unsigned>(ceil_div<int64_t>(threads, kThreads))), kThreads, 0, stream, *a);
}

}  // namespace tritonforge::gpu
