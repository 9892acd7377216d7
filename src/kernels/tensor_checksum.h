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

}  // namespace tritonforge::kernels
