#pragma once
// The checksum of checksum.h of tensors' bytes, where they lie: on a GPU by its kernel at memory speed, on the CPU by
// several threads. The same bytes have the same checksum everywhere.
#include <ATen/ATen.h>

#include <span>
#include <string>
#include <vector>

namespace tritonforge::kernels {

// One of each tensor, as 16 hex digits. All contiguous and on one device; waits for what is queued on it. On a GPU
// without libtritonforge_cuda.so the bytes are brought to the CPU.
std::vector<std::string> tensor_checksums(std::span<const at::Tensor> tensors);

// Where the elements of a part lie among the `whole` elements of a tensor: rows of `width`, the first of which begins
// at element `first` and the others `stride` after the one before.
struct PartPlace {
  int64_t first, width, stride, whole;
};
// The part's share of the whole tensor's checksum, the sum of which over all parts is that of the whole. part:
// contiguous, on the CPU. Throws kUnsupported naming the tensor where a row is not made of the whole's 8-byte words.
uint64_t part_checksum(const at::Tensor& part, const PartPlace& place, const std::string& name);

}  // namespace tritonforge::kernels
