#pragma once
// What a training step computes, and how fast a device could.
#include <cstdint>
#include <span>

#include "model/config.h"
#include "train/packing.h"

namespace tritonforge::train {

// Floating-point operations of forward and backward pass by the model's formula, what is computed again not counted: 6
// for each weight of a product and token that it multiplies (the head: targets alone), and causal attention, 12 *
// layers * heads * head_dim for each token and key that it sees, half of a sequence's squared length (Dao 2023,
// "FlashAttention-2", 4.1).
struct TrainingFlops {
  double token = 0, pair = 0, target = 0;
  explicit TrainingFlops(const model::ModelConfig& config);
  double of_run(int64_t before, int64_t tokens) const;  // that follow so many others of their sequence
};
double training_flops(const model::ModelConfig& config, std::span<const int64_t> lengths, int64_t targets);
double training_flops(const model::ModelConfig& config, const MicroBatch& batch);

// Operations a second.
struct DeviceRate {
  double peak = 0;      // dense bfloat16 by the data sheet; 0 where it is not known
  double products = 0;  // of one large product in the model's dtype, measured now
};
DeviceRate device_rate(at::Device device, at::ScalarType dtype);

}  // namespace tritonforge::train
