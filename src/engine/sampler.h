#pragma once
// Tokens from logits, the whole batch at once. On the CPU: kernels/sample.h. Elsewhere: ATen on the device, with one
// Philox generator seeded for each row by (seed, position), and one copy of tokens and log-probabilities to the host.
// Either way a draw does not depend on what else is in the batch; the two give different draws for one seed.
#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "kernels/sample.h"

namespace tritonforge::engine {

class Sampler {
 public:
  explicit Sampler(at::Device device);
  // logits [at least rows.size(), vocab] fp32. Valid until the next call. token -1: the logits were not finite.
  const std::vector<kernels::Sampled>& sample(const at::Tensor& logits, std::span<const kernels::SampleRow> rows);
  // The path of devices other than the CPU; for tests it runs on the CPU too.
  const std::vector<kernels::Sampled>& sample_with_aten(const at::Tensor& logits,
                                                        std::span<const kernels::SampleRow> rows);

 private:
  at::Device device_;
  at::Generator generator_;
  std::vector<kernels::Sampled> drawn_;
};

}  // namespace tritonforge::engine
