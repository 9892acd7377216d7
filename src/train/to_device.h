#pragma once
// Numbers that the host made up, where a pass reads them.
#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace tritonforge::train {

// [values], of T's dtype. Through pinned memory to a GPU, which this does not wait for.
template <typename T>
at::Tensor to_device(const std::vector<T>& values, at::Device device) {
  const auto options = at::TensorOptions(c10::CppTypeToScalarType<T>::value).pinned_memory(device.is_cuda());
  at::Tensor host = at::empty({static_cast<int64_t>(values.size())}, options);
  std::ranges::copy(values, host.mutable_data_ptr<T>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace tritonforge::train
