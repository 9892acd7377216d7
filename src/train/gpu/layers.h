#pragma once
// The layers of a model over packed sequences in bfloat16 by the kernels of kernels/gpu: forward pass and gradients,
// with what is kept in between named. What is cheap is not kept: norms and SwiGLU are made again where their gradients
// read the same rows.
#include <vector>

#include "model/model.h"
#include "train/gpu/attention.h"
#include "train/gpu/products.h"
#include "train/gradients.h"
#include "train/memory_plan.h"

namespace tritonforge::train::gpu {

class Layers {
 public:
  // What is made again in the backward pass is never attention or down_proj.
  Layers(const model::Model& model, const Recompute& recompute, Products& products);
  // Takes the memory of passes over so many tokens; a longer one takes more. `train`: with backward passes.
  void reserve(int64_t tokens, bool train);
  // That memory: what is kept for the backward pass, and the rest.
  static int64_t activation_bytes(const model::ModelConfig& shape, int64_t tokens, const Recompute& recompute);
  static int64_t workspace_bytes(const model::ModelConfig& shape, int64_t tokens, bool train);

  // Hidden states after the last layer, before the last norm: rows of tokens, padded with rows that nobody reads; valid
  // until the next pass. `train`: backward() may follow. needed: see Gradients; may be null.
  at::Tensor forward(const MicroBatch& batch, bool train, const SegmentHook& needed);
  at::Tensor output() { return rows(x(config_.num_layers)); }  // of the last forward pass
  // The gradient of the output, all zeros, to be written before backward(), which overwrites it.
  at::Tensor zeroed_grad();
  // Adds to the gradients.
  void backward(const MicroBatch& batch, Gradients& gradients);

 private:
  struct Projected {
    at::Tensor qkv, q;        // [t, (heads + 2 kv_heads) d] before norm and rope; [t, heads d] after
    at::Tensor keys, values;  // [slots, kv_heads d], in pages (Attention)
  };
  struct Mixed {
    at::Tensor y, gate_up;  // [t, hidden]: after attention; [t, 2 * intermediate]
  };
  struct Attended {
    at::Tensor out, statistics;  // [t, heads d]; [t, heads] fp32
  };
  at::Tensor rows(const at::Tensor& buffer) const { return buffer.narrow(0, 0, rows_); }
  // Layers that are made again share what is not kept of them; without a backward pass all do.
  const at::Tensor& x(int64_t layer) const { return x_[static_cast<size_t>(train_ ? layer : layer % 2)]; }
  Projected& projected(int64_t layer) {
    return projected_[train_ ? static_cast<size_t>(std::max<int64_t>(0, layer - projected_again())) : 0];
  }
  Mixed& mixed(int64_t layer) {
    return mixed_[train_ ? static_cast<size_t>(std::max<int64_t>(0, layer - recompute_.layers)) : 0];
  }
  int64_t projected_again() const { return recompute_.layers + recompute_.qkv_layers; }
  Attended& attended(int64_t layer) { return attended_[static_cast<size_t>(train_ ? layer : 0)]; }
  Attention::Operands operands(int64_t layer);
  void before_attention(int64_t layer);
  void after_attention(int64_t layer, bool output);
  void layer_backward(int64_t layer, Gradients& gradients);
  void norm(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight);
  // grad += gradient of the norm; of_normed becomes what the norm gave.
  void norm_backward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& of_normed, const at::Tensor& sum,
                     bool accumulate);
  void attention_backward(int64_t layer, const model::LayerWeights& sums, bool accumulate);
  void bias_backward(const at::Tensor& sum, const at::Tensor& dy, bool accumulate);

  const CudaApi& api_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  Products& products_;
  const Recompute recompute_;
  const int64_t q_, kv_;  // columns of q and of k
  const float eps_;
  int64_t capacity_ = 0, rows_ = 0, tokens_ = 0;  // rows: allocated, in use with padding, in use
  bool train_ = false;
  Attention attention_;
  int64_t slots_ = 0;           // allocated
  at::Tensor ids_, positions_;  // [rows] int32
  at::Tensor rope_;             // rope_table()
  // Buffers of capacity_ rows, of which rows_ are used.
  std::vector<at::Tensor> x_;  // inputs of the layers and the last one's output, [t, hidden]
  std::vector<Attended> attended_;
  std::vector<Projected> projected_;
  std::vector<Mixed> mixed_;
  at::Tensor normed_, act_;                  // [t, hidden], [t, intermediate]
  at::Tensor grad_, grad_mixed_, grad_qkv_;  // [t, hidden], [t, q], [t, q + 2 kv]
  at::Tensor grad_q_, grad_k_, grad_v_;      // [t, q], [t, kv], [t, kv]
  at::Tensor partials_;
};

}  // namespace tritonforge::train::gpu
