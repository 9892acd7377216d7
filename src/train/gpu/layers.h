#pragma once
// The layers of a model over packed sequences in bfloat16 by the kernels of kernels/gpu: forward pass and gradients,
// with what is kept in between named. What is cheap is not kept: norms and SwiGLU are made again where their gradients
// read the same rows.
#include <vector>

#include "model/model.h"
#include "train/gpu/attention.h"
#include "train/gpu/products.h"
#include "train/gpu/ring_attention.h"
#include "train/gradients.h"
#include "train/memory_plan.h"
#include "train/pipeline.h"
#include "train/token_shards.h"

namespace tritonforge::train::gpu {

// Rows of a micro-batch on one rank: see TokenShards::Rows, and among how many the micro-batch is shared out.
struct RankRows {
  int64_t attended, shard, own;
  int64_t tp, cp;
  parallel::CpForm form;
  bool exchanges_heads() const { return cp > 1 && form == parallel::CpForm::kUlysses; }
  bool ring() const { return cp > 1 && form == parallel::CpForm::kRing; }
};
constexpr int64_t kRowUnit = 128;  // a shard's rows are a multiple: so many shapes fewer, and products like it
RankRows rank_rows(const parallel::ParallelDims& dims, int64_t tokens);

class Layers {
 public:
  // What is made again in the backward pass is never attention or down_proj. shards: begun with the batch of a pass.
  // link: to the stages before and behind these layers.
  Layers(const model::Model& model, const Recompute& recompute, Products& products, const TokenShards& shards,
         StageLink& link);
  // Takes the memory of passes over micro-batches of so many tokens; a longer one takes more. `train`: with backward
  // passes.
  void reserve(int64_t tokens, bool train);
  // That memory, of a rank whose part of the model has this shape: what is kept for a micro-batch's backward pass, and
  // the rest, where so many micro-batches may be under way; without backward passes, what they have in it, too.
  static int64_t activation_bytes(const model::ModelConfig& part, const RankRows& rows, const Recompute& recompute);
  static int64_t workspace_bytes(const model::ModelConfig& part, const RankRows& rows, bool train, int64_t waiting);

  // Hidden states of this rank's own tokens after the last layer, before the last norm, padded with rows that nobody
  // reads; valid until the slot's next pass (Flights). `train`: backward() may follow. needed: see Gradients; may be
  // null.
  at::Tensor forward(const MicroBatch& batch, bool train, int64_t slot, const SegmentHook& needed);
  // The gradient of the output, own rows of [shard, hidden], all zeros, to be written before backward(), which
  // overwrites it.
  at::Tensor zeroed_grad() { return shard(grad_).zero_(); }
  // Of the slot's forward pass, with that batch. Adds to the gradients.
  void backward(const MicroBatch& batch, int64_t slot, Gradients& gradients);

 private:
  // Rows of tokens: those in attention, the shard's or this rank's own (TokenShards).
  struct Projected {
    at::Tensor qkv, q;        // attended [(heads + 2 kv_heads) d] before norm and rope; [heads d] after
    at::Tensor keys, values;  // [slots, kv_heads d], in pages (Attention)
  };
  struct Mixed {
    at::Tensor y, gate_up;  // own [hidden]: after attention; shard [2 * intermediate]
  };
  struct Attended {
    at::Tensor out, statistics;  // attended [heads d]; [heads] fp32
    at::Tensor mixed;            // shard [q]: out, with all of the shard's heads
  };
  // What is kept of a micro-batch between its forward and its backward pass.
  struct Flight {
    int64_t capacity = 0;       // rows of all that are allocated
    std::vector<at::Tensor> x;  // own [hidden]: inputs of the layers and the last one's output
    std::vector<Attended> attended;
    std::vector<Projected> projected;
    std::vector<Mixed> mixed;
  };
  void reserve(Flight& flight, int64_t rows);
  // What a pass reads of the batch itself, on the device.
  void begin(const MicroBatch& batch);
  at::Tensor own(const at::Tensor& buffer) const { return buffer.narrow(0, 0, shards_.rows().own); }
  at::Tensor shard(const at::Tensor& buffer) const { return buffer.narrow(0, 0, shards_.rows().shard); }
  at::Tensor in_attention(const at::Tensor& buffer) const { return buffer.narrow(0, 0, shards_.rows().attended); }
  // Layers that are made again share what is not kept of them; without a backward pass all do.
  const at::Tensor& x(int64_t layer) const { return flight_->x[static_cast<size_t>(train_ ? layer : layer % 2)]; }
  Projected& projected(int64_t layer) {
    return flight_->projected[train_ ? static_cast<size_t>(std::max<int64_t>(0, layer - projected_again())) : 0];
  }
  Mixed& mixed(int64_t layer) {
    return flight_->mixed[train_ ? static_cast<size_t>(std::max<int64_t>(0, layer - recompute_.layers)) : 0];
  }
  int64_t projected_again() const { return recompute_.layers + recompute_.qkv_layers; }
  Attended& attended(int64_t layer) { return flight_->attended[static_cast<size_t>(train_ ? layer : 0)]; }
  Attention::Operands operands(int64_t layer);
  void embed();
  void before_attention(int64_t layer);
  void after_attention(int64_t layer, bool output);
  // After the norm of own rows x: those of the shard.
  at::Tensor normed(const at::Tensor& x, const at::Tensor& weight);
  // to = x w^T + bias + addend: own rows, of products over the shard's.
  void add_product(const at::Tensor& to, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                   const at::Tensor& addend, std::string_view what);
  void layer_backward(int64_t layer, Gradients& gradients);
  // Of a product of normed(x) from its gradient dy: to that of its weight, the norm's, and x's, which grad_ has.
  struct NormedProduct {
    const at::Tensor &x, &norm, &w;      // own [hidden]; weights of the norm and of the product
    const at::Tensor &norm_sum, &w_sum;  // where their gradients are added
  };
  void product_backward(const NormedProduct& of, const at::Tensor& dy, bool accumulate, std::string_view what);
  void norm(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight);
  // grad_ += gradient of the norm by dy, own rows, to which what the norm gave is written where `again`.
  void norm_backward(const NormedProduct& of, const at::Tensor& dy, bool again, bool accumulate);
  void attention_backward(int64_t layer, const model::LayerWeights& sums, bool accumulate);
  void bias_backward(const at::Tensor& sum, const at::Tensor& dy, bool accumulate);
  void embed_backward(Gradients& gradients);
  void send_grad();  // to the stage before

  const CudaApi& api_;
  const model::Model& model_;
  const model::ModelConfig& config_;
  Products& products_;
  const TokenShards& shards_;
  StageLink& link_;
  const Recompute recompute_;
  const int64_t q_, kv_;                      // columns of q and of k, of the shard
  const int64_t attention_q_, attention_kv_;  // of this rank's attention
  const float eps_;
  int64_t capacity_ = 0;  // rows of all: the most that any pass had
  bool train_ = false;
  std::vector<Flight> flights_;  // by slot
  Flight* flight_ = nullptr;     // of this pass
  // The batch that the members down to embedded_rows_ are of. A pipeline's backward pass is of an earlier one.
  const MicroBatch* begun_ = nullptr;
  Attention attention_;
  RingAttention ring_;
  int64_t slots_ = 0;      // allocated
  at::Tensor positions_;   // attended [1] int32
  at::Tensor table_rows_;  // [shard] int32: row of the table of each of the shard's tokens, 0 where another rank has it
  // Of the shard's tokens that this rank embeds: row of the table, of the shard.
  at::Tensor embedded_ids_, embedded_rows_;
  at::Tensor rope_;                     // rope_table()
  at::Tensor normed_, act_;             // shard [hidden], [intermediate]
  at::Tensor partial_, qkv_;            // shard [hidden], [q + 2 kv]: on their way to other ranks
  at::Tensor grad_, grad_mixed_;        // shard [hidden], [q]
  std::vector<at::Tensor> sent_grads_;  // own [hidden]: on their way to the stage before, in turns
  size_t sent_ = 0;
  at::Tensor grad_qkv_;                  // attended [q + 2 kv]
  at::Tensor grad_q_, grad_k_, grad_v_;  // attended [q], [kv], [kv]
  at::Tensor partials_;
};

}  // namespace tritonforge::train::gpu
