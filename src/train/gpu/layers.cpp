#include "train/gpu/layers.h"

#include <algorithm>

namespace tritonforge::train::gpu {
namespace {

constexpr int64_t kRows = 128;  // rows are padded to a multiple: so many shapes fewer, and products like it
constexpr int64_t kSpareSlots = 64 * tritonforge::gpu::kPage;  // sequences begin at pages of their own
constexpr int64_t kBf16 = 2, kFp32 = 4;                        // bytes

int64_t padded(int64_t tokens) { return (tokens + kRows - 1) / kRows * kRows; }

}  // namespace

Layers::Layers(const model::Model& model, const Recompute& recompute, Products& products)
    : api_(tritonforge::gpu::open_cuda_library()),
      model_(model),
      config_(model.config()),
      products_(products),
      recompute_(recompute),
      q_(config_.num_heads * config_.head_dim),
      kv_(config_.num_kv_heads * config_.head_dim),
      eps_(static_cast<float>(config_.rms_norm_eps)),
      attention_(config_, model.device()) {}

int64_t Layers::activation_bytes(const model::ModelConfig& c, int64_t tokens, const Recompute& recompute) {
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  const int64_t always = kBf16 * (c.hidden_size + q) + kFp32 * c.num_heads;
  const int64_t projected = kBf16 * (2 * q + 4 * kv), mixed = kBf16 * (c.hidden_size + 2 * c.intermediate_size);
  const int64_t of_projected = std::max<int64_t>(1, c.num_layers - recompute.layers - recompute.qkv_layers);
  const int64_t of_mixed = std::max<int64_t>(1, c.num_layers - recompute.layers);
  return padded(tokens) * (c.num_layers * always + of_projected * projected + of_mixed * mixed);
}

int64_t Layers::workspace_bytes(const model::ModelConfig& c, int64_t tokens, bool train) {
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  const int64_t forward = kBf16 * (2 * c.hidden_size + c.intermediate_size) + kFp32 * c.head_dim;
  const int64_t backward = kBf16 * (c.hidden_size + 3 * q + 4 * kv) + kFp32 * q;  // the last is attention's dq
  if (train) return padded(tokens) * (forward + backward);
  return padded(tokens) * (forward + kBf16 * c.hidden_size) + activation_bytes(c, tokens, {c.num_layers, 0}) -
         padded(tokens) * (c.num_layers - 1) * (kBf16 * (c.hidden_size + q) + kFp32 * c.num_heads);
}

void Layers::reserve(int64_t tokens, bool train) {
  train_ = train;
  rows_ = padded(tokens);
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size, layers = config_.num_layers;
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(model_.device());
  const auto buffer = [&](int64_t width) { return at::empty({capacity_, width}, options); };
  const auto count = [&](int64_t of_layers) {
    return static_cast<size_t>(train ? std::max<int64_t>(1, of_layers) : 1);
  };
  if (rows_ > capacity_) {
    capacity_ = rows_;
    x_.clear();
    attended_.clear();
    projected_.clear();
    mixed_.clear();
    normed_ = buffer(hidden);
    act_ = buffer(intermediate);
    grad_.reset();
    rope_ = at::empty({capacity_, config_.head_dim}, options.dtype(at::kFloat));
    check_cuda(api_.rope_table(rope_.mutable_data_ptr<float>(), model_.inv_freq().const_data_ptr<float>(), capacity_,
                               config_.head_dim, kStream));
  }
  while (std::ssize(x_) < (train ? layers + 1 : 2)) x_.push_back(buffer(hidden));
  while (attended_.size() < count(layers))
    attended_.push_back({buffer(q_), at::empty({capacity_, config_.num_heads}, options.dtype(at::kFloat))});
  while (projected_.size() < count(layers - projected_again()))
    projected_.push_back({.qkv = buffer(q_ + 2 * kv_), .q = buffer(q_), .keys = {}, .values = {}});
  while (mixed_.size() < count(layers - recompute_.layers))
    mixed_.push_back({buffer(hidden), buffer(2 * intermediate)});
  slots_ = std::max({slots_, attention_.slots(), capacity_ + kSpareSlots});
  for (Projected& projected : projected_) {
    if (projected.keys.defined() && projected.keys.size(0) >= slots_) continue;
    projected.keys = at::empty({slots_, kv_}, options);
    projected.values = at::empty({slots_, kv_}, options);
  }
  if (!train || grad_.defined()) return;
  grad_ = buffer(hidden);
  grad_mixed_ = buffer(q_);
  grad_qkv_ = buffer(q_ + 2 * kv_);
  grad_q_ = buffer(q_);
  grad_k_ = buffer(kv_);
  grad_v_ = buffer(kv_);
  const int64_t widest = std::max({hidden, 2 * config_.head_dim, q_ + 2 * kv_});
  partials_ = at::empty({static_cast<int64_t>(api_.row_sums_bytes(widest))}, options.dtype(at::kByte));
}

void Layers::norm(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight) {
  check_cuda(api_.rms_norm(bits(out), bits(x), bits(weight), x.size(0), x.size(1), eps_, kStream));
}

Attention::Operands Layers::operands(int64_t layer) {
  const Projected& projected = this->projected(layer);
  const Attended& attended = this->attended(layer);
  return {projected.q, projected.keys, projected.values, attended.out, attended.statistics};
}

void Layers::before_attention(int64_t layer) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Projected& projected = this->projected(layer);
  norm(rows(normed_), rows(x(layer)), w.input_norm);
  products_.forward(rows(projected.qkv), rows(normed_), w.qkv_proj, w.qkv_bias);
  // What lies between sequences is multiplied by zero, and may be a NaN of an earlier batch.
  projected.keys.zero_();
  projected.values.zero_();
  const tritonforge::gpu::RopeCacheArgs rope{.qkv = bits(projected.qkv),
                                             .q = bits(projected.q),
                                             .cache = {bits(projected.keys), bits(projected.values)},
                                             .q_norm = bits(w.q_norm),
                                             .k_norm = bits(w.k_norm),
                                             .rope = rope_.const_data_ptr<float>(),
                                             .positions = positions_.const_data_ptr<int32_t>(),
                                             .slots = attention_.slots_of_tokens(),
                                             .tokens = rows_,
                                             .heads = config_.num_heads,
                                             .kv_heads = config_.num_kv_heads,
                                             .head_dim = config_.head_dim,
                                             .eps = eps_};
  check_cuda(api_.rope_cache(&rope, kStream));
}

void Layers::after_attention(int64_t layer, bool output) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Mixed& mixed = this->mixed(layer);
  const at::Tensor y = rows(mixed.y), gate_up = rows(mixed.gate_up);
  products_.forward(y, rows(attended(layer).out), w.o_proj, w.o_bias, rows(x(layer)));
  norm(rows(normed_), y, w.post_attention_norm);
  products_.forward(gate_up, rows(normed_), w.gate_up_proj);
  if (!output) return;
  check_cuda(api_.swiglu(bits(act_), bits(gate_up), rows_, config_.intermediate_size, kStream));
  products_.forward(rows(x(layer + 1)), rows(act_), w.down_proj, {}, y);
}

at::Tensor Layers::forward(const MicroBatch& batch, bool train, const SegmentHook& needed) {
  tokens_ = batch.tokens;
  attention_.begin(batch);
  reserve(batch.tokens, train);
  const auto numbers = [&](const at::Tensor& from) {
    at::Tensor to = at::zeros({rows_}, from.options().dtype(at::kInt));
    to.narrow(0, 0, batch.tokens).copy_(from);
    return to;
  };
  ids_ = numbers(batch.ids);
  positions_ = numbers(batch.positions);
  if (needed) needed(0);
  check_cuda(api_.embed(bits(x(0)), bits(model_.embed_tokens()), ids_.const_data_ptr<int32_t>(), rows_,
                        config_.hidden_size, kStream));
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    if (needed) needed(static_cast<size_t>(layer) + 1);
    before_attention(layer);
    attention_.forward(operands(layer));
    attended(layer).out.narrow(0, tokens_, rows_ - tokens_).zero_();
    after_attention(layer, true);
  }
  if (needed) needed(static_cast<size_t>(config_.num_layers) + 1);
  return output();
}

at::Tensor Layers::zeroed_grad() { return rows(grad_).zero_(); }

void Layers::norm_backward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& of_normed,
                           const at::Tensor& sum, bool accumulate) {
  const tritonforge::gpu::RmsNormBackwardArgs args{.dx = bits(grad_),
                                                   .normed = bits(of_normed),
                                                   .x = bits(x),
                                                   .w = bits(weight),
                                                   .dy = bits(of_normed),
                                                   .residual = bits(grad_),
                                                   .partials = static_cast<float*>(partials_.mutable_data_ptr()),
                                                   .dw = gradient_of(sum, accumulate),
                                                   .rows = rows_,
                                                   .d = config_.hidden_size,
                                                   .eps = eps_};
  check_cuda(api_.rms_norm_backward(&args, kStream));
}

// From the gradient of attention's output to that of the joined projection's.
void Layers::attention_backward(int64_t layer, const model::LayerWeights& sums, bool accumulate) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  attention_.backward(operands(layer), grad_mixed_, grad_q_, grad_k_, grad_v_);
  tritonforge::gpu::RopeBackwardArgs args{.dqkv = bits(grad_qkv_),
                                          .dq = bits(grad_q_),
                                          .dk = bits(grad_k_),
                                          .dv = bits(grad_v_),
                                          .qkv = bits(projected(layer).qkv),
                                          .q_norm = bits(w.q_norm),
                                          .k_norm = bits(w.k_norm),
                                          .rope = rope_.const_data_ptr<float>(),
                                          .positions = positions_.const_data_ptr<int32_t>(),
                                          .partials = static_cast<float*>(partials_.mutable_data_ptr()),
                                          .tokens = rows_,
                                          .used = tokens_,
                                          .heads = config_.num_heads,
                                          .kv_heads = config_.num_kv_heads,
                                          .head_dim = config_.head_dim,
                                          .eps = eps_};
  if (w.q_norm.defined()) {
    args.dq_norm = gradient_of(sums.q_norm, accumulate);
    args.dk_norm = gradient_of(sums.k_norm, accumulate);
  }
  check_cuda(api_.rope_backward(&args, kStream));
}

void Layers::bias_backward(const at::Tensor& sum, const at::Tensor& dy, bool accumulate) {
  if (!sum.defined()) return;
  const GradientOut out = gradient_of(sum, accumulate);
  check_cuda(api_.bias_backward(&out, bits(dy), static_cast<float*>(partials_.mutable_data_ptr()), dy.size(0),
                                dy.size(1), kStream));
}

void Layers::layer_backward(int64_t layer, Gradients& gradients) {
  const bool accumulate = !gradients.empty;
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const model::LayerWeights& sums = gradients.sums.layers()[static_cast<size_t>(layer)];
  if (layer < projected_again()) before_attention(layer);
  if (layer < recompute_.layers) after_attention(layer, false);
  const Mixed& mixed = this->mixed(layer);
  const at::Tensor grad = rows(grad_), act = rows(act_), normed = rows(normed_), gate_up = rows(mixed.gate_up);

  products_.input_gradient(act, grad, w.down_proj);
  const tritonforge::gpu::SwigluBackwardArgs swiglu{
      .gate_up = bits(gate_up), .d_act = bits(act), .rows = rows_, .intermediate = config_.intermediate_size};
  check_cuda(api_.swiglu_backward(&swiglu, kStream));
  products_.weight_gradient(sums.down_proj, grad, act, accumulate);
  products_.input_gradient(normed, gate_up, w.gate_up_proj);
  norm_backward(mixed.y, w.post_attention_norm, normed, sums.post_attention_norm, accumulate);
  products_.weight_gradient(sums.gate_up_proj, gate_up, normed, accumulate);

  const at::Tensor grad_mixed = rows(grad_mixed_), grad_qkv = rows(grad_qkv_);
  products_.input_gradient(grad_mixed, grad, w.o_proj);
  products_.weight_gradient(sums.o_proj, grad, rows(attended(layer).out), accumulate);
  bias_backward(sums.o_bias, grad, accumulate);
  attention_backward(layer, sums, accumulate);
  products_.input_gradient(normed, grad_qkv, w.qkv_proj);
  norm_backward(x(layer), w.input_norm, normed, sums.input_norm, accumulate);
  products_.weight_gradient(sums.qkv_proj, grad_qkv, normed, accumulate);
  bias_backward(sums.qkv_bias, grad_qkv, accumulate);
}

void Layers::backward(const MicroBatch& batch, Gradients& gradients) {
  if (gradients.ready) gradients.ready(static_cast<size_t>(config_.num_layers) + 1);
  for (int64_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    layer_backward(layer, gradients);
    if (gradients.ready) gradients.ready(static_cast<size_t>(layer) + 1);
  }
  // Where the head's weights are these, their gradient is there already.
  const at::Tensor& table = gradients.sums.embed_tokens();
  if (gradients.empty && !config_.tie_embeddings) table.zero_();
  const auto [ids, order] = at::sort(batch.ids, /*stable=*/std::optional<bool>(true));
  const tritonforge::gpu::EmbedBackwardArgs embed{.d_table = table.mutable_data_ptr(),
                                                  .fp32 = table.scalar_type() == at::kFloat,
                                                  .rows = bits(grad_),
                                                  .ids = ids.const_data_ptr<int64_t>(),
                                                  .order = order.const_data_ptr<int64_t>(),
                                                  .count = batch.tokens,
                                                  .hidden = config_.hidden_size};
  check_cuda(api_.embed_backward(&embed, kStream));
  if (gradients.ready) gradients.ready(0);
}

}  // namespace tritonforge::train::gpu
