#pragma once
// What a training step computes, and how fast a device could.
#include <cstdint>
#include <span>

#include "model/config.h"
#include "train/packing.h"

namespace tritonforge::train {

// Floating-point operations of forward and backward pass by the model's formula, what is computed again not counted: 6
// for each weight of a product and token that it multiplies (the head: targets alone), and causal attention, 6 * layers
// * length^2 * heads * head_dim a sequence (Dao 2023, "FlashAttention-2", 4.1: half of full attention).
double training_flops(const model::ModelConfig& config, std::span<const int64_t> lengths, int64_t targets);
double training_flops(const model::ModelConfig& config, const MicroBatch& batch);

// Operations a second.
struct DeviceRate {
  double peak = 0;      // dense bfloat16 by the data sheet; 0 where it is not known
  double products = 0;  // of one large product in the model's dtype, measured now
};
DeviceRate device_rate(at::Device device, at::ScalarType dtype);

}  // namespace tritonforge::train
