#pragma once
// The forward pass of the engine, and with autograd the trainer's: the same functions for norm, rope, MLP and logits;
// only attention over the keys and values differs (packed causal in training, paged cache in the engine). In fp32 on
// the CPU the trainer has its own (train/cpu), whose bits are these.
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/block_product.h"
#include "kernels/fp8_matrix.h"
#include "kernels/multiply.h"
#include "model/config.h"

namespace tritonforge::model {

// Computes attention of one layer for the new tokens and returns [tokens, num_heads, head_dim].
//   q [tokens, num_heads, head_dim]; k, v [tokens, num_kv_heads, head_dim], after norm and rope.
// The engine's writes k, v into its cache; the trainer's works on the packed sequences themselves.
using AttentionFn =
    std::function<at::Tensor(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

// hidden [n, hidden], weight [vocab, hidden] -> logits [n, vocab] fp32. On a GPU the product of 16-bit operands is
// never rounded to 16 bits on the way: at |logit| 16 to 32 that would move a log-probability by up to 0.1. Engine and
// trainer both come through here.
at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight);

// What init_random() gives the tensor of that name, fp32 on the CPU.
at::Tensor random_parameter(const std::string& name, at::IntArrayRef sizes, uint64_t seed, double std);

constexpr const char* kTable = "model.embed_tokens.weight";  // the embedding, as named_parameters() has it

struct LayerWeights;

// The matrices of a layer in panels, for products y = x wT or, `back`, dx = dy w (kernels/multiply.h).
struct LayerPanels {
  kernels::Panels qkv, o, gate_up, down;
  void assign(const LayerWeights& weights, bool back = false);
};

// A matrix of a layer in the form that it has there, and what is added to its products.
struct Projection {
  at::Tensor weight;  // [out, in]; undefined where there are blocks
  at::Tensor scales;  // [out]: the weight is FP8 (kernels/fp8_matrix.h); else undefined
  at::Tensor bias;    // [out], or undefined
  const kernels::BlockMatrix* blocks = nullptr;
  const kernels::Panels* panels = nullptr;
};

struct LayerWeights {
  at::Tensor input_norm, post_attention_norm;  // [hidden]
  at::Tensor q_proj, k_proj, v_proj, o_proj;   // [out, in], as in Hugging Face
  at::Tensor q_bias, k_bias, v_bias, o_bias;   // undefined where the family has none
  at::Tensor q_norm, k_norm;                   // [head_dim]; undefined where the family has none
  at::Tensor gate_proj, up_proj, down_proj;
  // The same memory as q, k, v (gate, up), row after row: one GEMM instead of three (two). The parts share the storage
  // without being autograd views of it, so that each is a leaf of its own where the trainer sets requires_grad.
  at::Tensor qkv_proj, qkv_bias, gate_up_proj;
  // [out] of the matrices where these are FP8; else undefined.
  at::Tensor qkv_scales, o_scales, gate_up_scales, down_scales;
  // Matrices that stay as a GGUF file holds them: then the tensors of that name above are undefined.
  kernels::BlockMatrix qkv_blocks, o_blocks, gate_up_blocks, down_blocks;
  std::shared_ptr<LayerPanels> panels;  // null unless the model is pack()ed

  // What the layer's products are made with; they refer to the layer.
  Projection qkv() const;
  Projection o() const;
  Projection gate_up() const;
  Projection down() const;
};

// What the ranks of a tensor-parallel model (model/tensor_parallel.h: who has what) compute together. Each calls the
// same in the same order, and each gets the same bits.
class Together {
 public:
  explicit Together(int64_t rank) : rank_(rank) {}
  virtual ~Together() = default;
  int64_t rank() const { return rank_; }
  virtual at::Tensor sum(const at::Tensor& x) = 0;           // a tensor of its own, which may be written
  virtual at::Tensor side_by_side(const at::Tensor& x) = 0;  // [n, width] of each -> [n, ranks * width]

 private:
  const int64_t rank_;
};

// The matrices of a model that are kept in the blocks of a GGUF file; one that is not defined is widened.
struct StoredMatrices {
  kernels::BlockMatrix embed_tokens, lm_head;  // lm_head: undefined where tied
  struct Layer {
    kernels::BlockMatrix qkv, o, gate_up, down;
  };
  std::vector<Layer> layers;
};

struct ForwardOptions {
  int64_t recompute_layers = 0;  // the first ones keep no activations and are run again in the backward pass
  Together* ranks = nullptr;     // where the model is a rank's part, without gradients
  // [n] int64, where only those of the final hidden states are asked for: of the last layer the other tokens have keys
  // and values, and nothing behind them.
  at::Tensor rows;
};

class Model {
 public:
  // Weights of `dtype` on `device`, uninitialised. load_* of model/weights.h or init_random fill them. fp8_matrices:
  // those of the layers are kept in FP8, to compute without gradients only; rounded when they come (model/parts.h).
  Model(ModelConfig config, at::ScalarType dtype, at::Device device, bool fp8_matrices = false);
  // With matrices that stay as they are stored: fp32 beside them, on the CPU, to compute without gradients only.
  Model(ModelConfig config, StoredMatrices stored);
  const ModelConfig& config() const { return config_; }
  at::ScalarType dtype() const { return dtype_; }
  at::Device device() const { return device_; }

  // Normal(0, std) for matrices and embeddings, ones for norms, zeros for biases; a function of (seed, name) alone.
  void init_random(uint64_t seed, double std = 0.02);

  // Hugging Face name -> tensor, in a fixed order (embeddings, layers in order, final norm, lm_head unless tied).
  // Without matrices that stay as they are stored.
  // These are the tensors themselves: copying into one changes the model (never set_data() one: q, k, v and gate, up
  // lie in fused storage). Each is a leaf; the trainer calls requires_grad_() on them.
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;
  // Of those that are FP8: name -> scales [out].
  std::map<std::string, at::Tensor> named_scales() const;
  bool fp8_matrices() const { return fp8_matrices_; }
  // All weights lie in this one tensor (of the model's dtype, [elements]), in the order of the members of layers() and
  // with gaps of no meaning. Two models of one layout() have every weight at the same place.
  const at::Tensor& arena() const { return arena_; }
  std::string layout() const;    // a checksum of names, dtype, shapes and places
  int64_t stored_bytes() const;  // of matrices that stay as they are stored, outside of the arena
  // Takes the arena's memory out of the model, or puts in memory of that size on the same device, perhaps elsewhere:
  // its content is then the weights, of every tensor above. In between their content may not be used.
  c10::DataPtr take_arena();
  void put_arena(c10::DataPtr memory);

  // fp32 on the CPU, without stored matrices: keeps a second copy of every matrix in panels, with which products
  // without gradients are fast for few rows and have the same bits in any batch. Again, in the same memory, whenever
  // weights have changed; elsewhere it does nothing.
  void pack();
  int64_t packed_bytes() const;  // of those copies: what pack() takes, or took

  // ids, positions [tokens] int64 -> final hidden states after the last norm [tokens or rows, hidden].
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& positions, const AttentionFn& attention,
                     const ForwardOptions& options = {}) const;
  // hidden [n, hidden] -> logits [n, vocab] fp32, of the whole vocabulary.
  at::Tensor logits(const at::Tensor& hidden, Together* ranks = nullptr) const;
  const at::Tensor& lm_head() const;  // [vocab, hidden]; the embedding where tied
  // For who computes with the same memory in kernels of its own.
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const at::Tensor& embed_tokens() const { return embed_tokens_; }  // [vocab, hidden]
  const at::Tensor& final_norm() const { return final_norm_; }      // [hidden]
  const at::Tensor& inv_freq() const { return inv_freq_; }          // [head_dim / 2] fp32, of RoPE

 private:
  void place_weights();
  std::string layer_prefix(int64_t layer) const;  // of its weights' names
  at::Tensor embed(const at::Tensor& ids, Together* ranks) const;
  at::Tensor layer_forward(int64_t layer, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                           const AttentionFn& attention, Together* ranks, const at::Tensor& rows) const;
  ModelConfig config_;
  at::ScalarType dtype_;
  at::Device device_;
  bool fp8_matrices_ = false;
  at::Tensor arena_, embed_tokens_, final_norm_, lm_head_;
  kernels::BlockMatrix embed_blocks_, head_blocks_;
  std::shared_ptr<kernels::Panels> head_panels_;
  std::vector<LayerWeights> layers_;
  at::Tensor inv_freq_;  // [head_dim / 2] fp32
};

// Attention over packed sequences: causal within each, none across. cu_seqlens: [0, len0, len0 + len1, ...].
// fp32 / CPU: SDPA per sequence; bf16 on CUDA: ATen's variable-length flash attention. Differentiable.
AttentionFn packed_attention(std::vector<int64_t> cu_seqlens);

// Building blocks, shared and tested on their own.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);  // over the last dimension
at::Tensor apply_rope(const at::Tensor& x, const at::Tensor& cos,
                      const at::Tensor& sin);  // x [t, heads, d]; cos, sin [t, d/2]
// cos, sin [tokens, head_dim / 2] fp32 of positions [tokens] int64 (any device): angle = position * inv_freq, in fp32.
std::pair<at::Tensor, at::Tensor> rope_table(const at::Tensor& positions, const at::Tensor& inv_freq);
at::Tensor rope_inv_freq(int64_t head_dim, double theta, at::Device device);
at::Tensor swiglu_mlp(const at::Tensor& x, const LayerWeights& weights);
// x times the matrix: from its blocks, from panels where there are some, or widened first where it is FP8.
at::Tensor product(const at::Tensor& x, const Projection& projection);

}  // namespace tritonforge::model
