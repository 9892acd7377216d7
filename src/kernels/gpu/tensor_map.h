#pragma once
// Descriptions of tensors of bf16 and of bytes for the copy engine of Hopper, made on the host and passed to a kernel
// by value.
#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace tritonforge::gpu {

using TensorMap = CUtensorMap;

// One dimension: elements, and how many elements of the tensor lie between two neighbours. 0: as many as the dimensions
// before it have. Of no account for the innermost one, whose elements are neighbours.
struct TensorSize {
  uint64_t count, stride;
  constexpr TensorSize(uint64_t elements, uint64_t apart = 0) : count(elements), stride(apart) {}
};

// A tensor and the box of it that is moved at once, the innermost dimension first. A box is 64 elements wide, rows of
// 128 bytes in shared memory, swizzled (hopper.cuh), or 32: rows of 64 bytes, whose 16-byte chunks are permuted by half
// the row's number. What lies outside the tensor is fetched as zeros and not stored.
int tensor_map(TensorMap* out, const void* tensor, std::initializer_list<TensorSize> sizes,
               std::initializer_list<uint32_t> box);
// The same of bytes: rows of the box one after another, as they are.
int byte_map(TensorMap* out, const void* tensor, std::initializer_list<TensorSize> sizes,
             std::initializer_list<uint32_t> box);

}  // namespace tritonforge::gpu
