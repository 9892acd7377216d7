#pragma once
// ATen's tensors as the CUDA library's operations take them.
#include <ATen/ATen.h>

#include "kernels/gpu/cuda_api.h"

namespace tritonforge::gpu {

// Memory of bfloat16; null where the tensor is undefined.
inline Bf16* bits(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<Bf16*>(tensor.mutable_data_ptr()) : nullptr;
}

}  // namespace tritonforge::gpu
