#pragma once
// The layers of a model over packed sequences in fp32: forward pass and gradients, with what is kept in between named.
#include <ATen/ATen.h>

#include <vector>

#include "model/model.h"
#include "train/cpu/attention.h"
#include "train/cpu/matrix.h"
#include "train/gradients.h"
#include "train/packing.h"
#include "train/pipeline.h"
#include "train/token_shards.h"

namespace tritonforge::train::cpu {

class Layers {
 public:
  // The first `recompute` layers keep their input alone and run again in the backward pass. shards: begun with the
  // batch of a pass. link: to the stages before and behind these layers, which are chunks of them where there are some.
  Layers(const model::Model& model, int64_t recompute, const TokenShards& shards, StageLink& link);
  void weights_changed();
  // Hidden states of this rank's own tokens after the chunk's last layer, before the last norm, [>= own, hidden]; valid
  // until the slot's next pass. `train`: backward() may follow, with that chunk and slot.
  const at::Tensor& forward(const MicroBatch& batch, bool train, int64_t chunk, int64_t slot);
  // From the gradient of what forward() returned, own rows of [shard, hidden], which is overwritten. Adds to the
  // gradients.
  void backward(const MicroBatch& batch, int64_t chunk, int64_t slot, at::Tensor& grad, const Gradients& gradients);

 private:
  // Activations of one layer, rows of tokens: those in attention, the shard's or this rank's own (TokenShards).
  struct Kept {
    at::Tensor normed1, scale1;      // shard [hidden], own [1]: after the first norm, and 1 / rms
    at::Tensor qkv, head_scale;      // attended [q + 2 kv], [heads + kv_heads]: before the heads' norms, their 1 / rms
    at::Tensor rotated;              // attended [q + kv]: q and k after norm and rope
    at::Tensor mixed, max, inverse;  // attended [q]; [heads, attended]: statistics of the softmax
    at::Tensor mixed_shard;          // shard [q]: what attention gave, with all of the shard's heads
    at::Tensor y, normed2, scale2;   // own [hidden]: after attention; shard [hidden]: after the second norm; own [1]
    at::Tensor gate_up, act;         // shard [2 * intermediate], [intermediate]
  };
  // A micro-batch between its forward and its backward pass through a chunk.
  struct Flight {
    model::LayerRange layers;          // the chunk's
    int64_t capacity = 0, tokens = 0;  // rows of all that are allocated; of this one's attention, less the padding
    int64_t again = 0;                 // of those, which run again: all but the last where nothing is trained
    std::vector<at::Tensor> x;         // own [hidden]: inputs of the layers and the last one's output
    std::vector<Kept> kept;            // those that run again share one
    at::Tensor cos, sin;
  };
  void reserve(int64_t tokens, bool train);
  void pack(bool back);
  Kept& kept(int64_t layer) {
    return flight_->kept[static_cast<size_t>(std::max<int64_t>(0, layer - flight_->layers.first - flight_->again))];
  }
  at::Tensor& x(int64_t layer) { return flight_->x[static_cast<size_t>(layer - flight_->layers.first)]; }
  float* own_row(const at::Tensor& shard, int64_t index) const { return row(shard, shards_.own_begin() + index); }
  at::Tensor in_use(const at::Tensor& buffer) const { return buffer.narrow(0, 0, shards_.rows().shard); }

  void embed(const MicroBatch& batch);
  // The steps of a layer, each for rows [begin, begin + rows) of the tokens that are named behind it. A process alone
  // goes through several of them block by block; between ranks, what one gives goes to others before the next.
  void norm1(int64_t layer, int64_t begin, int64_t rows);             // own
  void project(int64_t layer, int64_t begin, int64_t rows);           // shard
  void rotate(int64_t layer, int64_t begin, int64_t rows);            // attended
  void project_out(int64_t layer, int64_t begin, int64_t rows);       // shard
  void norm2(int64_t layer, int64_t begin, int64_t rows);             // own
  void mlp(int64_t layer, int64_t begin, int64_t rows, bool output);  // shard
  void add_mlp(int64_t layer, int64_t begin, int64_t rows);           // own
  // The steps between ranks.
  void before_attention(int64_t layer);
  void after_attention(int64_t layer, bool output);
  void forward_again(int64_t layer);
  Attention::Operands operands(int64_t layer);

  void mlp_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad);    // shard
  void norm2_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad);  // own
  void project_out_backward(int64_t layer, int64_t begin, int64_t rows);                    // shard
  void rotate_backward(int64_t layer, int64_t begin, int64_t rows);                         // attended
  void project_backward(int64_t layer, int64_t begin, int64_t rows);                        // shard
  void norm1_backward(int64_t layer, int64_t begin, int64_t rows, at::Tensor& grad);        // own
  void after_attention_backward(int64_t layer, const at::Tensor& grad);
  void before_attention_backward(int64_t layer, at::Tensor& grad);
  void embed_backward(const MicroBatch& batch, const at::Tensor& grad, const Gradients& gradients);
  // Where rows of the shard hand the gradient of a norm's output on from a product's step to the norm's.
  float* grad_normed(int64_t begin, int64_t rows);

  const model::Model& model_;
  const model::ModelConfig& config_;
  const TokenShards& shards_;
  StageLink& link_;
  Attention attention_;
  const int64_t recompute_;
  int64_t q_, kv_;            // columns of q and of k, of the shard
  int64_t heads_, kv_heads_;  // of this rank's attention
  float eps_;
  int64_t capacity_ = 0;  // rows of all: the most that any pass had
  std::vector<Flight> flights_;
  Flight* flight_ = nullptr;                       // of this pass
  std::vector<model::LayerPanels> panels_, back_;  // for y = x wT, and for dx = dy w
  bool packed_ = false, packed_back_ = false;
  at::Tensor qkv_, partial_;  // shard [q + 2 kv], [hidden]: on their way to other ranks
  // Of the backward pass.
  at::Tensor grad_y_, grad_normed_, grad_gate_up_;   // shard: [hidden], [hidden], [2 * intermediate]
  at::Tensor grad_mixed_shard_, grad_qkv_shard_;     // shard: [q], [q + 2 kv]
  at::Tensor grad_mixed_, grad_rotated_, grad_qkv_;  // attended: [q], [q + kv], [q + 2 kv]
  BlockSums norm1_, norm2_, q_norm_, k_norm_;
};

}  // namespace tritonforge::train::cpu
