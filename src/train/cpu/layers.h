#pragma once
// The layers of a model over packed sequences in fp32: forward pass and gradients, with what is kept in between named.
#include <ATen/ATen.h>

#include <vector>

#include "model/model.h"
#include "train/cpu/matrix.h"
#include "train/gradients.h"
#include "train/packing.h"

namespace tritonforge::train::cpu {

class Layers {
 public:
  // The first `recompute` layers keep their input alone and run again in the backward pass.
  Layers(const model::Model& model, int64_t recompute);
  void weights_changed();
  // Hidden states after the last layer, before the last norm, [tokens, hidden]; valid until the next pass. `train`:
  // backward() may follow.
  const at::Tensor& forward(const MicroBatch& batch, bool train);
  const at::Tensor& output() const { return x_.back(); }  // of the last forward pass
  // From the gradient of what forward() returned, which is overwritten. Adds to the gradients.
  void backward(const MicroBatch& batch, at::Tensor& grad, const Gradients& gradients);

 private:
  // Activations of one layer, rows of tokens.
  struct Kept {
    at::Tensor normed1, scale1;      // [t, hidden], [t]: after the first norm, and 1 / rms
    at::Tensor qkv, head_scale;      // [t, q + 2 kv], [t, heads + kv_heads]: before the heads' norms, their 1 / rms
    at::Tensor rotated;              // [t, q + kv]: q and k after norm and rope
    at::Tensor mixed, max, inverse;  // [t, q]; [heads, t]: statistics of the softmax
    at::Tensor y, normed2, scale2;   // [t, hidden]: after attention; after the second norm
    at::Tensor gate_up, act;         // [t, 2 * intermediate], [t, intermediate]
  };
  void reserve(int64_t tokens, bool train);
  void pack(bool back);
  // Those that run again share one.
  Kept& kept(int64_t layer) { return kept_[static_cast<size_t>(std::max<int64_t>(0, layer - again_))]; }
  void before_attention(int64_t layer, int64_t begin, int64_t rows);
  void attention(const MicroBatch& batch, int64_t layer, bool backward);
  void after_attention(int64_t layer, int64_t begin, int64_t rows, bool output);
  void after_attention_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad);
  void before_attention_backward(int64_t layer, int64_t begin, int64_t rows, at::Tensor& grad);

  const model::Model& model_;
  const model::ModelConfig& config_;
  int64_t recompute_, again_ = 0;  // asked for; of this pass: all but the last where nothing is trained
  int64_t q_, kv_;                 // columns of q and of k
  float eps_;
  int64_t capacity_ = 0;
  std::vector<at::Tensor> x_;  // inputs of the layers and the last one's output, [t, hidden]
  std::vector<Kept> kept_;
  std::vector<model::LayerPanels> panels_, back_;  // for y = x wT, and for dx = dy w
  bool packed_ = false, packed_back_ = false;
  at::Tensor cos_, sin_;
  // Of the backward pass.
  at::Tensor grad_y_, grad_gate_up_, grad_mixed_, grad_rotated_, grad_qkv_;
  BlockSums norm1_, norm2_, q_norm_, k_norm_;
};

}  // namespace tritonforge::train::cpu
