#pragma once
// Numbers that the host made up, where a pass reads them.
#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace tritonforge::train {

// [values], of T's dtype, in the host's memory; pinned where a GPU is to have them, which need not wait then.
template <typename T>
at::Tensor on_host(const std::vector<T>& values, bool pinned) {
  const auto options = at::TensorOptions(c10::CppTypeToScalarType<T>::value).pinned_memory(pinned);
  at::Tensor host = at::empty({static_cast<int64_t>(values.size())}, options);
  std::ranges::copy(values, host.mutable_data_ptr<T>());
  return host;
}

// The same on the device, without waiting for a GPU.
template <typename T>
at::Tensor to_device(const std::vector<T>& values, at::Device device) {
  return on_host(values, device.is_cuda()).to(device, /*non_blocking=*/true);
}

}  // namespace tritonforge::train
