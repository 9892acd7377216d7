#pragma once
// Causal attention of packed sequences and its gradient, each sequence for itself, on Hopper. The forward kernel is the
// engine's: keys and values lie in pages, each sequence's one behind another.
#include "model/config.h"
#include "train/gpu/products.h"
#include "train/packing.h"

namespace tritonforge::train::gpu {

class Attention {
 public:
  // config: of the heads that are computed here.
  Attention(const model::ModelConfig& config, at::Device device);

  // The sequences of the passes that follow, and their rows with padding.
  void begin(const MicroBatch& batch, int64_t rows);
  int64_t slots() const { return pages_ * tritonforge::gpu::kPage; }  // tokens that their pages hold
  const int32_t* slots_of_tokens() const { return number(slot_numbers_); }

  // q, out [>= tokens, heads * head_dim]; keys, values [>= slots(), kv_heads * head_dim] in pages; statistics
  // [>= tokens, heads] fp32: what backward() needs.
  struct Operands {
    at::Tensor q, keys, values, out, statistics;
  };
  void forward(const Operands& operands);
  // d_out, dq as q, dk and dv [>= tokens, kv_heads * head_dim]. Keys and values are finite in all of their pages.
  void backward(const Operands& operands, const at::Tensor& d_out, const at::Tensor& dq, const at::Tensor& dk,
                const at::Tensor& dv);

 private:
  // A place in numbers_, of so many int32.
  struct Numbers {
    int64_t begin;
  };
  const int32_t* number(Numbers at) const { return numbers_.const_data_ptr<int32_t>() + at.begin; }

  const CudaApi& api_;
  const int64_t heads_, kv_heads_, head_dim_;
  const float scale_;
  const at::Device device_;
  int64_t tokens_ = 0, sequences_ = 0, longest_ = 0, pages_ = 0, table_width_ = 0, item_count_ = 0, tile_count_ = 0;
  at::Tensor numbers_;  // all that is read on the device, one copy a micro-batch
  Numbers starts_{}, lengths_{}, tables_{}, slot_numbers_{}, items_{}, tiles_{};
  at::Tensor counters_, workspace_;  // of the forward kernel, of the backward ones
};

}  // namespace tritonforge::train::gpu
