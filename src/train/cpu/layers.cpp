#include "train/cpu/layers.h"

#include <array>
#include <cmath>

#include "kernels/fused_rows.h"
#include "kernels/packed_attention.h"

namespace tritonforge::train::cpu {
namespace {

// Memory of the calling thread, at least `floats`; what is in it lasts until the same slot is asked for again.
enum Slot { kWide, kNarrow, kSlots };
float* scratch(Slot slot, int64_t floats) {
  thread_local std::array<std::vector<float>, kSlots> memory;
  auto& buffer = memory[slot];
  if (std::ssize(buffer) < floats) buffer.resize(static_cast<size_t>(floats));
  return buffer.data();
}

using kernels::add;

void add_bias(float* rows, const at::Tensor& bias, int64_t count) {
  if (!bias.defined()) return;
  const int64_t width = bias.size(0);
  for (int64_t r = 0; r < count; ++r) add(rows + r * width, bias.data_ptr<float>(), width);
}

float* weight(const at::Tensor& vector) { return vector.data_ptr<float>(); }

}  // namespace

Layers::Layers(const model::Model& model, int64_t recompute)
    : model_(model),
      config_(model.config()),
      recompute_(recompute),
      q_(config_.num_heads * config_.head_dim),
      kv_(config_.num_kv_heads * config_.head_dim),
      eps_(static_cast<float>(config_.rms_norm_eps)) {}

void Layers::weights_changed() { packed_ = packed_back_ = false; }

void Layers::pack(bool back) {
  bool& done = back ? packed_back_ : packed_;
  if (done) return;
  done = true;
  auto& panels = back ? back_ : panels_;
  panels.resize(model_.layers().size());
  over_parts(config_.num_layers, [&](int64_t layer) {
    panels[static_cast<size_t>(layer)].assign(model_.layers()[static_cast<size_t>(layer)], back);
  });
}

void Layers::reserve(int64_t tokens, bool train) {
  again_ = train ? recompute_ : config_.num_layers;
  const auto kept = static_cast<size_t>(std::max<int64_t>(1, config_.num_layers - again_));
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  const auto rows = [&](int64_t width) { return at::empty({tokens, width}, at::kFloat); };
  if (tokens > capacity_) {
    capacity_ = tokens;
    kept_.clear();
    x_.clear();
    grad_y_ = rows(hidden);
    grad_gate_up_ = apart(tokens, 2 * intermediate);
    grad_mixed_ = rows(q_);
    grad_rotated_ = rows(q_ + kv_);
    grad_qkv_ = rows(q_ + 2 * kv_);
  }
  tokens = capacity_;
  while (std::ssize(x_) <= config_.num_layers) x_.push_back(rows(hidden));
  while (kept_.size() < kept) {
    kept_.push_back({.normed1 = rows(hidden),
                     .scale1 = rows(1),
                     .qkv = rows(q_ + 2 * kv_),
                     .head_scale = rows(config_.num_heads + config_.num_kv_heads),
                     .rotated = rows(q_ + kv_),
                     .mixed = rows(q_),
                     .max = at::empty({config_.num_heads, tokens}, at::kFloat),
                     .inverse = at::empty({config_.num_heads, tokens}, at::kFloat),
                     .y = rows(hidden),
                     .normed2 = rows(hidden),
                     .scale2 = rows(1),
                     .gate_up = rows(2 * intermediate),
                     .act = rows(intermediate)});
  }
}

void Layers::before_attention(int64_t layer, int64_t begin, int64_t rows) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, d = config_.head_dim, width = q_ + 2 * kv_, heads = config_.num_heads;
  kernels::rms_forward(row(x_[static_cast<size_t>(layer)], begin), weight(w.input_norm), row(kept.normed1, begin),
                       row(kept.scale1, begin), rows, hidden, eps_);
  float* qkv = row(kept.qkv, begin);
  kernels::multiply({row(kept.normed1, begin), hidden, rows}, panels_[static_cast<size_t>(layer)].qkv, qkv, width);
  add_bias(qkv, w.qkv_bias, rows);
  float* ready = scratch(kNarrow, rows * (q_ + kv_));  // for rope
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = qkv + r * width;
    float* to = ready + r * (q_ + kv_);
    if (config_.qk_norm) {
      float* scale = row(kept.head_scale, begin + r);
      kernels::rms_forward(from, weight(w.q_norm), to, scale, heads, d, eps_);
      kernels::rms_forward(from + q_, weight(w.k_norm), to + q_, scale + heads, config_.num_kv_heads, d, eps_);
    } else {
      std::copy_n(from, q_ + kv_, to);
    }
  }
  kernels::rope_rows(ready, row(cos_, begin), row(sin_, begin), row(kept.rotated, begin), rows,
                     heads + config_.num_kv_heads, d, 1.0f);
}

void Layers::attention(const MicroBatch& batch, int64_t layer, bool backward) {
  Kept& kept = this->kept(layer);
  const int64_t d = config_.head_dim, group = config_.num_heads / config_.num_kv_heads;
  const int64_t sequences = std::ssize(batch.cu_seqlens) - 1;
  std::vector<int64_t> order(static_cast<size_t>(sequences));
  for (int64_t i = 0; i < sequences; ++i) order[static_cast<size_t>(i)] = i;
  const auto length = [&](int64_t i) {
    return batch.cu_seqlens[static_cast<size_t>(i) + 1] - batch.cu_seqlens[static_cast<size_t>(i)];
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  over_parts(sequences * config_.num_kv_heads, [&](int64_t part) {
    thread_local kernels::AttentionScratch memory;
    const int64_t sequence = order[static_cast<size_t>(part / config_.num_kv_heads)],
                  head = part % config_.num_kv_heads, tokens = length(sequence),
                  begin = batch.cu_seqlens[static_cast<size_t>(sequence)];
    if (tokens == 0) return;
    const int64_t q = head * group * d, k = q_ + head * d, v = q_ + kv_ + head * d;
    const kernels::AttentionHeads heads{.q = row(kept.rotated, begin) + q,
                                        .k = row(kept.rotated, begin) + k,
                                        .v = row(kept.qkv, begin) + v,
                                        .q_stride = q_ + kv_,
                                        .k_stride = q_ + kv_,
                                        .v_stride = q_ + 2 * kv_,
                                        .tokens = tokens,
                                        .group = group,
                                        .head_dim = d,
                                        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d))),
                                        .out = row(kept.mixed, begin) + q,
                                        .out_stride = q_,
                                        .max = row(kept.max, head * group) + begin,
                                        .inverse = row(kept.inverse, head * group) + begin,
                                        .statistic_stride = capacity_};
    if (!backward) return kernels::attend(heads, memory);
    kernels::attend_backward(heads,
                             {.out = row(grad_mixed_, begin) + q,
                              .q = row(grad_rotated_, begin) + q,
                              .k = row(grad_rotated_, begin) + k,
                              .v = row(grad_qkv_, begin) + v},
                             memory);
  });
}

void Layers::after_attention(int64_t layer, int64_t begin, int64_t rows, bool output) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const model::LayerPanels& panels = panels_[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  float* y = row(kept.y, begin);
  kernels::multiply({row(kept.mixed, begin), q_, rows}, panels.o, y, hidden);
  add_bias(y, w.o_bias, rows);
  add(y, row(x_[static_cast<size_t>(layer)], begin), rows * hidden);
  kernels::rms_forward(y, weight(w.post_attention_norm), row(kept.normed2, begin), row(kept.scale2, begin), rows,
                       hidden, eps_);
  float* gate_up = row(kept.gate_up, begin);
  kernels::multiply({row(kept.normed2, begin), hidden, rows}, panels.gate_up, gate_up, 2 * intermediate);
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = gate_up + r * 2 * intermediate;
    kernels::swiglu_forward(gate, gate + intermediate, row(kept.act, begin + r), intermediate);
  }
  if (!output) return;
  float* z = row(x_[static_cast<size_t>(layer) + 1], begin);
  kernels::multiply({row(kept.act, begin), intermediate, rows}, panels.down, z, hidden);
  add(z, y, rows * hidden);
}

const at::Tensor& Layers::forward(const MicroBatch& batch, bool train) {
  const at::NoGradGuard no_grad;
  reserve(batch.tokens, train);
  pack(false);
  std::tie(cos_, sin_) = model::rope_table(batch.positions, model_.inv_freq());
  const int64_t hidden = config_.hidden_size, last = config_.num_layers - 1;
  const auto* ids = batch.ids.const_data_ptr<int64_t>();
  over_blocks(batch.tokens, [&](int64_t begin, int64_t rows) {
    for (int64_t t = begin; t < begin + rows; ++t)
      std::copy_n(row(model_.embed_tokens(), ids[t]), hidden, row(x_[0], t));
    before_attention(0, begin, rows);
  });
  for (int64_t layer = 0; layer <= last; ++layer) {
    attention(batch, layer, false);
    over_blocks(batch.tokens, [&](int64_t begin, int64_t rows) {
      after_attention(layer, begin, rows, true);
      if (layer < last) before_attention(layer + 1, begin, rows);
    });
  }
  return x_.back();
}

void Layers::after_attention_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const model::LayerPanels& back = back_[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  const float* dz = row(grad, begin);
  float* d_act = scratch(kWide, rows * intermediate);
  kernels::multiply({dz, hidden, rows}, back.down, d_act, intermediate);
  float* d_gate_up = row(grad_gate_up_, begin);
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = row(kept.gate_up, begin + r);
    float* d_gate = d_gate_up + r * grad_gate_up_.stride(0);
    kernels::swiglu_backward(d_act + r * intermediate, gate, gate + intermediate, d_gate, d_gate + intermediate,
                             intermediate);
  }
  float* d_normed = scratch(kNarrow, rows * hidden);
  kernels::multiply({d_gate_up, grad_gate_up_.stride(0), rows}, back.gate_up, d_normed, hidden);
  float* dy = row(grad_y_, begin);
  kernels::rms_backward(d_normed, row(kept.y, begin), weight(w.post_attention_norm), row(kept.scale2, begin), dy,
                        norm2_.of(begin / kBlock), rows, hidden);
  add(dy, dz, rows * hidden);
  kernels::multiply({dy, hidden, rows}, back.o, row(grad_mixed_, begin), q_);
}

void Layers::before_attention_backward(int64_t layer, int64_t begin, int64_t rows, at::Tensor& grad) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, d = config_.head_dim, width = q_ + 2 * kv_, heads = config_.num_heads;
  float* turned = scratch(kWide, rows * (q_ + kv_));
  kernels::rope_rows(row(grad_rotated_, begin), row(cos_, begin), row(sin_, begin), turned, rows,
                     heads + config_.num_kv_heads, d, -1.0f);
  float* d_qkv = row(grad_qkv_, begin);
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = turned + r * (q_ + kv_), *x = row(kept.qkv, begin + r);
    float* to = d_qkv + r * width;
    if (config_.qk_norm) {
      const float* scale = row(kept.head_scale, begin + r);
      kernels::rms_backward(from, x, weight(w.q_norm), scale, to, q_norm_.of(begin / kBlock), heads, d);
      kernels::rms_backward(from + q_, x + q_, weight(w.k_norm), scale + heads, to + q_, k_norm_.of(begin / kBlock),
                            config_.num_kv_heads, d);
    } else {
      std::copy_n(from, q_ + kv_, to);
    }
  }
  float* d_normed = scratch(kNarrow, rows * hidden);
  kernels::multiply({d_qkv, width, rows}, back_[static_cast<size_t>(layer)].qkv, d_normed, hidden);
  float* dx = row(grad, begin);
  kernels::rms_backward(d_normed, row(x_[static_cast<size_t>(layer)], begin), weight(w.input_norm),
                        row(kept.scale1, begin), dx, norm1_.of(begin / kBlock), rows, hidden);
  add(dx, row(grad_y_, begin), rows * hidden);
}

void Layers::backward(const MicroBatch& batch, at::Tensor& grad, const Gradients& gradients) {
  const at::NoGradGuard no_grad;
  pack(true);
  const int64_t hidden = config_.hidden_size, tokens = batch.tokens;
  if (gradients.ready) gradients.ready(static_cast<size_t>(config_.num_layers) + 1);
  for (int64_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    Kept& kept = this->kept(layer);
    if (layer < again_) {
      over_blocks(tokens, [&](int64_t begin, int64_t rows) { before_attention(layer, begin, rows); });
      attention(batch, layer, false);
      over_blocks(tokens, [&](int64_t begin, int64_t rows) { after_attention(layer, begin, rows, false); });
    }
    const int64_t blocks = parts_of(tokens, kBlock);
    norm1_.start(blocks, hidden);
    norm2_.start(blocks, hidden);
    q_norm_.start(blocks, config_.head_dim);
    k_norm_.start(blocks, config_.head_dim);
    const model::LayerWeights& to = gradients.sums.layers()[static_cast<size_t>(layer)];
    // A gradient of rows `dy` by what was multiplied with the weight.
    const auto of = [&](const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
      return WeightGradient{row(dy, 0), row(x, 0), dy.stride(0), x.stride(0), tokens, weight};
    };
    over_blocks(tokens, [&](int64_t begin, int64_t rows) { after_attention_backward(layer, begin, rows, grad); });
    attention(batch, layer, true);
    std::vector<WeightGradient> after{of(grad_gate_up_, kept.normed2, to.gate_up_proj),
                                      of(grad, kept.act, to.down_proj), of(grad_y_, kept.mixed, to.o_proj)};
    if (to.o_bias.defined()) after.push_back(of(grad_y_, grad_y_, to.o_bias));
    add_weight_gradients(after);
    over_blocks(tokens, [&](int64_t begin, int64_t rows) { before_attention_backward(layer, begin, rows, grad); });
    std::vector<WeightGradient> before{of(grad_qkv_, kept.normed1, to.qkv_proj)};
    if (to.qkv_bias.defined()) before.push_back(of(grad_qkv_, grad_qkv_, to.qkv_bias));
    add_weight_gradients(before);
    norm1_.add_to(to.input_norm);
    norm2_.add_to(to.post_attention_norm);
    if (config_.qk_norm) {
      q_norm_.add_to(to.q_norm);
      k_norm_.add_to(to.k_norm);
    }
    if (gradients.ready) gradients.ready(static_cast<size_t>(layer) + 1);
  }
  // The embedding, columns shared out: a row may come again.
  constexpr int64_t kColumns = 64;
  const auto* ids = batch.ids.const_data_ptr<int64_t>();
  over_parts(parts_of(hidden, kColumns), [&](int64_t part) {
    const int64_t first = part * kColumns, count = std::min(kColumns, hidden - first);
    for (int64_t t = 0; t < tokens; ++t)
      add(row(gradients.sums.embed_tokens(), ids[t]) + first, row(grad, t) + first, count);
  });
  if (gradients.ready) gradients.ready(0);
}

}  // namespace tritonforge::train::cpu
