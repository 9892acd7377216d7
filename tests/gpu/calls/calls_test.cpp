// What the GPU half asks of the CUDA runtime and makes of its errors, without a GPU: this program's functions stand
// before the runtime's and cuBLASLt's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "kernels/gpu/cuda_library.h"

namespace {

constexpr int kInvalidValue = 1, kUnknown = 999, kNotSupported = 15;  // cudaError_t, cublasStatus_t
constexpr int kHopper = 9, kOlder = 8;

int generation = kOlder;                                       // a device of it is the current one
int events_left = 0;                                           // that can still be made
std::vector<tritonforge::gpu::PrefillAttentionArgs> launched;  // the first argument of each kernel

int encode_tensor_map() { return 0; }

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
int cudaFuncSetAttribute(const void*, int, int) { return 0; }
int cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long, int* found) {
  *function = reinterpret_cast<void*>(&encode_tensor_map);
  *found = 0;
  return 0;
}
int cudaLaunchKernelExC(const void*, const void*, void** arguments) {
  launched.push_back(*static_cast<const tritonforge::gpu::PrefillAttentionArgs*>(arguments[0]));
  return 0;
}
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

// That the parts compute the whole is tests/gpu/attention_test.cpp's, on a GPU.
TEST(PrefillAttention, OfAnyNumberOfSequencesIsInLaunchesOf2048) {
  generation = kHopper;
  const CudaApi& api = open_cuda_library();
  constexpr int64_t kWidth = 3;
  for (const int64_t sequences : {1, 2048, 2049, 5000, 70'000}) {
    const std::vector<int32_t> tables(static_cast<size_t>(sequences * kWidth)),
        starts(static_cast<size_t>(sequences + 1)), lengths(static_cast<size_t>(sequences));
    int32_t counters[2] = {};
    float statistics = 0;
    const PrefillAttentionArgs args{.block_tables = tables.data(),
                                    .query_starts = starts.data(),
                                    .lengths = lengths.data(),
                                    .tokens = sequences,
                                    .sequences = sequences,
                                    .table_width = kWidth,
                                    .heads = 8,
                                    .kv_heads = 2,
                                    .head_dim = 64,
                                    .longest_query = 1,
                                    .scale = 1,
                                    .workspace = counters,
                                    .statistics = &statistics};
    launched.clear();
    ASSERT_EQ(api.prefill_attention(&args, nullptr), 0) << sequences << " sequences: " << api.last_error();
    int64_t begin = 0;
    for (const PrefillAttentionArgs& part : launched) {
      EXPECT_EQ(part.query_starts, starts.data() + begin);
      EXPECT_EQ(part.lengths, lengths.data() + begin);
      EXPECT_EQ(part.block_tables, tables.data() + begin * kWidth);
      EXPECT_EQ(part.statistics, &statistics);
      EXPECT_LE(part.sequences, 2048);
      begin += part.sequences;
    }
    EXPECT_EQ(begin, sequences);
    EXPECT_EQ(std::ssize(launched), (sequences + 2047) / 2048);
  }
}

}  // namespace
}  // namespace tritonforge::gpu
