#pragma once
// What the GPU tests share: memory on the device that is poisoned before use, transfers, and comparisons. Every test
// computes its reference on the CPU from the same bits and skips with a message where there is no GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/options.h"
#include "kernels/gpu/cuda_library.h"
#include "model/model.h"

namespace tritonforge::gpu {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes, int poison = 0xFF);  // 0xFF: NaN as bfloat16 and as float
  template <typename T = Bf16>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

class GpuTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;
  const CudaApi& api() const { return open_cuda_library(); }
  Stream stream = nullptr;

  Buffer upload(const at::Tensor& host) const;
  // Waits for the stream.
  at::Tensor download(const Buffer& from, at::IntArrayRef shape, at::ScalarType type) const;
  Buffer like(at::IntArrayRef shape, at::ScalarType type) const;  // poisoned
};

at::Tensor random_bf16(at::IntArrayRef shape, double scale = 1.0);
at::Tensor ints(const std::vector<int32_t>& values);

// Rows [..., d] as the GPU's FP8 cache holds them (KvLayer), by the CPU's arithmetic: bytes [..., d] in the cache's
// order and scales [...]. `rounded`: what they stand for, in bfloat16.
struct Fp8Rows {
  at::Tensor bytes, scales, rounded;
};
Fp8Rows fp8_rows(const at::Tensor& x);

// ||found - expected|| / ||expected|| of every row of the last dimension; NaN is infinite.
double worst_row_error(const at::Tensor& found, const at::Tensor& expected);
// Largest |found - expected| / (|expected| + floor), NaN is infinite.
double worst_element_error(const at::Tensor& found, const at::Tensor& expected, double floor);

// Qwen2's or Qwen3's, small, of a vocabulary of 1,000.
model::ModelConfig small_config(model::Family family);
// With random weights in bfloat16, by the seed.
std::unique_ptr<model::Model> small_model(uint64_t seed, at::Device device);
// The same weights, rounded to `dtype`; of FP8 what they stand for.
std::unique_ptr<model::Model> copy_of(const model::Model& model, at::ScalarType dtype, at::Device device);
// With the layers' matrices in FP8.
std::unique_ptr<model::Model> fp8_copy_of(const model::Model& model, at::Device device);
// [said, vocab], fp32 on the CPU, by a model there: log-probabilities where each token of `said` was drawn.
at::Tensor log_probs_of(const model::Model& model, std::vector<int64_t> prompt, std::span<const int64_t> said,
                        double temperature = 1);

engine::EngineOptions small_engine_options();

}  // namespace tritonforge::gpu
