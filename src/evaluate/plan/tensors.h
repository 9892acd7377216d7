#pragma once
// Tensors of the trusted side (bytes with a description) as libtorch's, and back.
#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "evaluate/compare.h"

namespace tritonforge::evaluate {

struct ReplayedTensor {
  Json described;  // {"dtype", "shape", "order", "bytes"}
  std::vector<std::byte> bytes;
};

// What is widened is done so at a time: a whole tensor may be a good part of a device's memory.
inline constexpr int64_t kElementsAtOnce = int64_t{1} << 24;

at::ScalarType scalar_type(Dtype dtype);
std::optional<Dtype> dtype_of(at::ScalarType type);
// A copy, with the strides that `order` says.
at::Tensor tensor_of(const TensorView& view, at::Device device = at::kCPU);
// Waits for a device. Throws kUnsupported for a dtype or layout that a verdict does not know.
ReplayedTensor bytes_of(const at::Tensor& tensor);
// What shows where a kernel or a step leaves an element as it was: NaN, or the greatest integers.
void poison(const at::Tensor& tensor);
// Whose memory it is: the same for views of one tensor.
const void* storage_of(const at::Tensor& tensor);
// Some byte of memory is an element's of both.
bool overlap(const at::Tensor& a, const at::Tensor& b);
// The bytes of a tensor's whole storage.
at::Tensor storage_bytes(const at::Tensor& tensor);
// All bits of that, so that floats are NaN.
void wipe(const at::Tensor& tensor);

}  // namespace tritonforge::evaluate
