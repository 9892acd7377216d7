// What the GPU half asks of the CUDA runtime and makes of its errors, without a GPU: this program's functions stand
// before the runtime's and cuBLASLt's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/gpu/cuda_library.h"

namespace {

constexpr int kInvalidValue = 1, kUnknown = 999, kNotSupported = 15;  // cudaError_t, cublasStatus_t
constexpr int kOlder = 8;

int generation = kOlder;  // a device of it is the current one
int events_left = 0;      // that can still be made

}  // namespace

extern "C" {
int cudaGetDevice(int* device) {
  *device = generation;  // what is known of one is not taken for another's
  return 0;
}
int cudaDeviceGetAttribute(int* value, int, int) {
  *value = generation;
  return 0;
}
int cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return 0;
}
int cudaFree(void* memory) {
  std::free(memory);
  return 0;
}
int cudaEventCreate(void** event) {
  *event = nullptr;
  return events_left-- > 0 ? 0 : kUnknown;
}
int cudaMemsetAsync(void*, int, size_t, void*) { return kInvalidValue; }
int cublasLtCreate(void** handle) {
  *handle = nullptr;
  return 0;
}
int cublasLtDestroy(void*) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*, int* found) {
  *found = 0;
  return kNotSupported;
}
}

namespace tritonforge::gpu {
namespace {

TEST(GemmTune, SaysTheFirstErrorNotThatOfWhatCameBehindIt) {
  generation = kOlder;
  const CudaApi& api = open_cuda_library();
  Gemm* gemm = nullptr;
  ASSERT_EQ(api.gemm_open(&gemm, nullptr, 0), 0) << api.last_error();
  const GemmArgs product{.m = 8, .n = 64, .k = 64};
  for (const int events : {0, 1}) {
    events_left = events;
    EXPECT_EQ(api.gemm_tune(gemm, &product, 1, nullptr), kUnknown) << api.last_error();
    EXPECT_STREQ(api.last_error(), "gemm_tune: unknown error");
  }
  events_left = 2;
  EXPECT_EQ(api.gemm_tune(gemm, &product, 1, nullptr), kInvalidValue);  // of the memory that is overwritten
  EXPECT_EQ(api.gemm_close(gemm), 0);
}

}  // namespace
}  // namespace tritonforge::gpu
