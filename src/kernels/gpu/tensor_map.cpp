#include "kernels/gpu/tensor_map.h"

#include <cudaTypedefs.h>

#include <algorithm>
#include <array>

#include "kernels/gpu/internal.h"

namespace tritonforge::gpu {
namespace {

// The driver's function, asked of the runtime: nothing links libcuda.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  static const auto found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                                cudaEnableDefault, &result);
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? function : nullptr;
  }();
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

int describe(TensorMap* out, const void* tensor, std::initializer_list<TensorSize> sizes,
             std::initializer_list<uint32_t> box, CUtensorMapDataType type, cuuint64_t element,
             CUtensorMapSwizzle swizzle) {
  const auto encode = encoder();
  TF_REQUIRE(encode != nullptr, "tensor map: the driver has no cuTensorMapEncodeTiled");
  std::array<cuuint64_t, 4> dimensions{}, strides{};
  std::array<cuuint32_t, 4> boxes{}, steps{1, 1, 1, 1};
  std::ranges::copy(box, boxes.begin());
  cuuint64_t elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const TensorSize& size = sizes.begin()[i];
    dimensions[i] = size.count;
    if (i > 0) strides[i - 1] = element * (size.stride > 0 ? size.stride : elements);
    elements *= size.count;
  }
  const CUresult result = encode(out, type, static_cast<cuuint32_t>(sizes.size()), const_cast<void*>(tensor),
                                 dimensions.data(), strides.data(), boxes.data(), steps.data(),
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TF_REQUIRE(result == CUDA_SUCCESS, "tensor map: the driver's error %d", static_cast<int>(result));
  return 0;
}

}  // namespace

int tensor_map(TensorMap* out, const void* tensor, std::initializer_list<TensorSize> sizes,
               std::initializer_list<uint32_t> box) {
  return describe(out, tensor, sizes, box, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                  *box.begin() == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B);
}

int byte_map(TensorMap* out, const void* tensor, std::initializer_list<TensorSize> sizes,
             std::initializer_list<uint32_t> box) {
  return describe(out, tensor, sizes, box, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace tritonforge::gpu
