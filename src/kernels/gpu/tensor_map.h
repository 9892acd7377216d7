#pragma once
// Descriptions of bf16 tensors for the copy engine of Hopper, made on the host and passed to a kernel by value.
#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace tritonforge::gpu {

using TensorMap = CUtensorMap;

// A dense tensor and the box of it that is fetched at once, the innermost dimension first. A box is 64 elements wide:
// rows of 128 bytes in shared memory, swizzled (hopper.cuh). What lies outside the tensor is fetched as zeros.
int tensor_map(TensorMap* out, const void* tensor, std::initializer_list<uint64_t> sizes,
               std::initializer_list<uint32_t> box);

}  // namespace tritonforge::gpu
