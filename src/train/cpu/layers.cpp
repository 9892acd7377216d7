#include "train/cpu/layers.h"

#include <ATen/core/grad_mode.h>

#include <array>

#include "kernels/fused_rows.h"

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

Layers::Layers(const model::Model& model, int64_t recompute, const TokenShards& shards, StageLink& link)
    : model_(model),
      config_(model.config()),
      shards_(shards),
      link_(link),
      attention_(shards),
      recompute_(recompute),
      q_(config_.num_heads * config_.head_dim),
      kv_(config_.num_kv_heads * config_.head_dim),
      heads_(shards.attention().num_heads),
      kv_heads_(shards.attention().num_kv_heads),
      eps_(static_cast<float>(config_.rms_norm_eps)),
      flights_(static_cast<size_t>(most_waiting(link.stage()))) {}

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
  Flight& flight = *flight_;
  flight.tokens = shards_.attended_tokens();
  const auto [first, count] = flight.layers;
  flight.again = train ? std::clamp<int64_t>(recompute_ - first, 0, count) : count;
  const auto kept = static_cast<size_t>(std::max<int64_t>(1, count - flight.again));
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size, d = config_.head_dim;
  const int64_t q = heads_ * d, kv = kv_heads_ * d;  // of attention
  const auto rows = [](int64_t count, int64_t width) { return at::empty({count, width}, at::kFloat); };
  capacity_ = std::max(capacity_, shards_.rows().all);
  const TokenShards::Rows most = shards_.rows_of(std::max(tokens, capacity_));
  if (!grad_y_.defined() || grad_y_.size(0) < most.shard) {
    grad_y_ = rows(most.shard, hidden);
    grad_gate_up_ = apart(most.shard, 2 * intermediate);
    grad_mixed_ = rows(most.attended, q);
    grad_rotated_ = rows(most.attended, q + kv);
    grad_qkv_ = rows(most.attended, q + 2 * kv);
    if (!shards_.alone()) {
      qkv_ = rows(most.shard, q_ + 2 * kv_);
      partial_ = rows(most.shard, hidden);
      grad_normed_ = rows(most.shard, hidden);
      grad_mixed_shard_ = rows(most.shard, q_);
    }
  }
  if (flight.capacity < capacity_) {
    flight.capacity = capacity_;
    flight.kept.clear();
    flight.x.clear();
  }
  while (std::ssize(flight.x) <= count) flight.x.push_back(rows(most.own, hidden));
  while (flight.kept.size() < kept) {
    flight.kept.push_back({.normed1 = rows(most.shard, hidden),
                           .scale1 = rows(most.own, 1),
                           .qkv = rows(most.attended, q + 2 * kv),
                           .head_scale = rows(most.attended, heads_ + kv_heads_),
                           .rotated = rows(most.attended, q + kv),
                           .mixed = rows(most.attended, q),
                           .max = rows(heads_, most.attended),
                           .inverse = rows(heads_, most.attended),
                           .y = rows(most.own, hidden),
                           .normed2 = rows(most.shard, hidden),
                           .scale2 = rows(most.own, 1),
                           .gate_up = rows(most.shard, 2 * intermediate),
                           .act = rows(most.shard, intermediate)});
    if (shards_.alone()) flight.kept.back().mixed_shard = flight.kept.back().mixed;
  }
}

void Layers::norm1(int64_t layer, int64_t begin, int64_t rows) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  kernels::rms_forward(row(x(layer), begin), weight(w.input_norm), own_row(kept.normed1, begin),
                       row(kept.scale1, begin), rows, config_.hidden_size, eps_);
}

void Layers::project(int64_t layer, int64_t begin, int64_t rows) {
  const Kept& kept = this->kept(layer);
  float* qkv = row(shards_.exchanges_heads() ? qkv_ : kept.qkv, begin);
  kernels::multiply({row(kept.normed1, begin), config_.hidden_size, rows}, panels_[static_cast<size_t>(layer)].qkv, qkv,
                    q_ + 2 * kv_);
  add_bias(qkv, model_.layers()[static_cast<size_t>(layer)].qkv_bias, rows);
}

void Layers::rotate(int64_t layer, int64_t begin, int64_t rows) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t d = config_.head_dim, q = heads_ * d, turned = q + kv_heads_ * d;
  float* ready = scratch(kNarrow, rows * turned);
  for (int64_t r = begin; r < begin + rows; ++r) {
    const float* from = row(kept.qkv, r);
    float* to = ready + (r - begin) * turned;
    if (config_.qk_norm) {
      float* scale = row(kept.head_scale, r);
      kernels::rms_forward(from, weight(w.q_norm), to, scale, heads_, d, eps_);
      kernels::rms_forward(from + q, weight(w.k_norm), to + q, scale + heads_, kv_heads_, d, eps_);
    } else {
      std::copy_n(from, turned, to);
    }
  }
  kernels::rope_rows(ready, row(flight_->cos, begin), row(flight_->sin, begin), row(kept.rotated, begin), rows,
                     heads_ + kv_heads_, d, 1.0f);
}

void Layers::before_attention(int64_t layer) {
  const TokenShards::Rows& rows = shards_.rows();
  Kept& kept = this->kept(layer);
  over_blocks(rows.own, [&](int64_t begin, int64_t count) { norm1(layer, begin, count); });
  await(shards_.gather(in_use(kept.normed1), "normed 1"));
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { project(layer, begin, count); });
  if (shards_.exchanges_heads())
    kept.qkv = shards_.to_heads(in_use(qkv_), {config_.num_heads, config_.num_kv_heads, config_.num_kv_heads}, "qkv");
  over_blocks(flight_->tokens, [&](int64_t begin, int64_t count) { rotate(layer, begin, count); });
}

Attention::Operands Layers::operands(int64_t layer) {
  const Kept& kept = this->kept(layer);
  return {kept.rotated, kept.qkv, kept.mixed, kept.max, kept.inverse};
}

void Layers::project_out(int64_t layer, int64_t begin, int64_t rows) {
  const Kept& kept = this->kept(layer);
  kernels::multiply({row(kept.mixed_shard, begin), q_, rows}, panels_[static_cast<size_t>(layer)].o,
                    row(shards_.alone() ? kept.y : partial_, begin), config_.hidden_size);
}

void Layers::norm2(int64_t layer, int64_t begin, int64_t rows) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size;
  float* y = row(kept.y, begin);
  if (!shards_.alone()) std::copy_n(own_row(partial_, begin), rows * hidden, y);
  add_bias(y, w.o_bias, rows);
  add(y, row(x(layer), begin), rows * hidden);
  kernels::rms_forward(y, weight(w.post_attention_norm), own_row(kept.normed2, begin), row(kept.scale2, begin), rows,
                       hidden, eps_);
}

void Layers::mlp(int64_t layer, int64_t begin, int64_t rows, bool output) {
  const model::LayerPanels& panels = panels_[static_cast<size_t>(layer)];
  Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  float* gate_up = row(kept.gate_up, begin);
  kernels::multiply({row(kept.normed2, begin), hidden, rows}, panels.gate_up, gate_up, 2 * intermediate);
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = gate_up + r * 2 * intermediate;
    kernels::swiglu_forward(gate, gate + intermediate, row(kept.act, begin + r), intermediate);
  }
  if (!output) return;
  float* z = row(shards_.alone() ? x(layer + 1) : partial_, begin);
  kernels::multiply({row(kept.act, begin), intermediate, rows}, panels.down, z, hidden);
}

void Layers::add_mlp(int64_t layer, int64_t begin, int64_t rows) {
  const int64_t count = rows * config_.hidden_size;
  float* z = row(x(layer + 1), begin);
  if (!shards_.alone()) std::copy_n(own_row(partial_, begin), count, z);
  add(z, row(this->kept(layer).y, begin), count);
}

void Layers::after_attention(int64_t layer, bool output) {
  const TokenShards::Rows& rows = shards_.rows();
  Kept& kept = this->kept(layer);
  kept.mixed.narrow(0, flight_->tokens, rows.attended - flight_->tokens).zero_();
  kept.mixed_shard = shards_.to_tokens(kept.mixed.narrow(0, 0, rows.attended), {config_.num_heads}, "mixed");
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { project_out(layer, begin, count); });
  await(shards_.sum(in_use(partial_), "attention"));
  over_blocks(rows.own, [&](int64_t begin, int64_t count) { norm2(layer, begin, count); });
  await(shards_.gather(in_use(kept.normed2), "normed 2"));
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { mlp(layer, begin, count, output); });
  if (!output) return;
  await(shards_.sum(in_use(partial_), "mlp"));
  over_blocks(rows.own, [&](int64_t begin, int64_t count) { add_mlp(layer, begin, count); });
}

// Each rank embeds the shard's tokens that its rows of the vocabulary have.
void Layers::embed(const MicroBatch& batch) {
  const std::vector<int64_t>& tokens = shards_.shard_tokens();
  const int64_t hidden = config_.hidden_size, shard = shards_.rows().shard;
  const at::Tensor& to = shards_.alone() ? x(0) : partial_;
  over_blocks(shard, [&](int64_t begin, int64_t rows) {
    for (int64_t t = begin; t < begin + rows; ++t) {
      const int64_t id = t < std::ssize(tokens) ? batch.host_ids[static_cast<size_t>(tokens[static_cast<size_t>(t)])] -
                                                      shards_.vocab_begin()
                                                : -1;
      if (id >= 0 && id < config_.vocab_size) std::copy_n(row(model_.embed_tokens(), id), hidden, row(to, t));
      else std::fill_n(row(to, t), hidden, 0.0f);
    }
  });
  if (shards_.alone()) return;
  await(shards_.sum(in_use(partial_), "embedding"));
  x(0).narrow(0, 0, shards_.rows().own).copy_(shards_.own(partial_));
}

const at::Tensor& Layers::forward(const MicroBatch& batch, bool train, int64_t chunk, int64_t slot) {
  const at::NoGradGuard no_grad;
  flight_ = &flights_[static_cast<size_t>(slot)];
  flight_->layers = config_.chunk_here(chunk);
  reserve(batch.tokens, train);
  pack(false);
  std::tie(flight_->cos, flight_->sin) = model::rope_table(shards_.attended_positions(batch), model_.inv_freq());
  const int64_t first = flight_->layers.first, last = flight_->layers.end() - 1;
  if (link_.first(chunk)) embed(batch);
  else link_.receive_input(x(first).narrow(0, 0, shards_.rows().own));
  if (!shards_.alone()) {
    for (int64_t layer = first; layer <= last; ++layer) {
      before_attention(layer);
      attention_.forward(operands(layer));
      after_attention(layer, true);
    }
    return x(last + 1);
  }
  // What lies between two attentions, block by block.
  const auto before = [&](int64_t layer, int64_t begin, int64_t rows) {
    norm1(layer, begin, rows);
    project(layer, begin, rows);
    rotate(layer, begin, rows);
  };
  over_blocks(flight_->tokens, [&](int64_t begin, int64_t rows) { before(first, begin, rows); });
  for (int64_t layer = first; layer <= last; ++layer) {
    attention_.forward(operands(layer));
    over_blocks(flight_->tokens, [&](int64_t begin, int64_t rows) {
      project_out(layer, begin, rows);
      norm2(layer, begin, rows);
      mlp(layer, begin, rows, true);
      add_mlp(layer, begin, rows);
      if (layer < last) before(layer + 1, begin, rows);
    });
  }
  return x(last + 1);
}

float* Layers::grad_normed(int64_t begin, int64_t rows) {
  return shards_.alone() ? scratch(kNarrow, rows * config_.hidden_size) : row(grad_normed_, begin);
}

void Layers::mlp_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad) {
  const model::LayerPanels& back = back_[static_cast<size_t>(layer)];
  const Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  float* d_act = scratch(kWide, rows * intermediate);
  kernels::multiply({row(grad, begin), hidden, rows}, back.down, d_act, intermediate);
  float* d_gate_up = row(grad_gate_up_, begin);
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = row(kept.gate_up, begin + r);
    float* d_gate = d_gate_up + r * grad_gate_up_.stride(0);
    kernels::swiglu_backward(d_act + r * intermediate, gate, gate + intermediate, d_gate, d_gate + intermediate,
                             intermediate);
  }
  kernels::multiply({d_gate_up, grad_gate_up_.stride(0), rows}, back.gate_up, grad_normed(begin, rows), hidden);
}

void Layers::norm2_backward(int64_t layer, int64_t begin, int64_t rows, const at::Tensor& grad) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size;
  float* dy = own_row(grad_y_, begin);
  kernels::rms_backward(grad_normed(shards_.own_begin() + begin, rows), row(kept.y, begin),
                        weight(w.post_attention_norm), row(kept.scale2, begin), dy, norm2_.of(begin / kBlock), rows,
                        hidden);
  add(dy, own_row(grad, begin), rows * hidden);
}

void Layers::project_out_backward(int64_t layer, int64_t begin, int64_t rows) {
  kernels::multiply({row(grad_y_, begin), config_.hidden_size, rows}, back_[static_cast<size_t>(layer)].o,
                    row(shards_.alone() ? grad_mixed_ : grad_mixed_shard_, begin), q_);
}

void Layers::rotate_backward(int64_t layer, int64_t begin, int64_t rows) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Kept& kept = this->kept(layer);
  const int64_t d = config_.head_dim, q = heads_ * d, turned_width = q + kv_heads_ * d;
  float* turned = scratch(kWide, rows * turned_width);
  kernels::rope_rows(row(grad_rotated_, begin), row(flight_->cos, begin), row(flight_->sin, begin), turned, rows,
                     heads_ + kv_heads_, d, -1.0f);
  for (int64_t r = begin; r < begin + rows; ++r) {
    const float *from = turned + (r - begin) * turned_width, *x = row(kept.qkv, r);
    float* to = row(grad_qkv_, r);
    if (config_.qk_norm) {
      const float* scale = row(kept.head_scale, r);
      kernels::rms_backward(from, x, weight(w.q_norm), scale, to, q_norm_.of(begin / kBlock), heads_, d);
      kernels::rms_backward(from + q, x + q, weight(w.k_norm), scale + heads_, to + q, k_norm_.of(begin / kBlock),
                            kv_heads_, d);
    } else {
      std::copy_n(from, turned_width, to);
    }
  }
}

void Layers::project_backward(int64_t layer, int64_t begin, int64_t rows) {
  kernels::multiply({row(grad_qkv_shard_, begin), q_ + 2 * kv_, rows}, back_[static_cast<size_t>(layer)].qkv,
                    grad_normed(begin, rows), config_.hidden_size);
}

void Layers::norm1_backward(int64_t layer, int64_t begin, int64_t rows, at::Tensor& grad) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Kept& kept = this->kept(layer);
  const int64_t hidden = config_.hidden_size;
  float* dx = own_row(grad, begin);
  kernels::rms_backward(grad_normed(shards_.own_begin() + begin, rows), row(x(layer), begin), weight(w.input_norm),
                        row(kept.scale1, begin), dx, norm1_.of(begin / kBlock), rows, hidden);
  add(dx, own_row(grad_y_, begin), rows * hidden);
}

void Layers::after_attention_backward(int64_t layer, const at::Tensor& grad) {
  const TokenShards::Rows& rows = shards_.rows();
  if (shards_.alone()) {
    return over_blocks(rows.own, [&](int64_t begin, int64_t count) {
      mlp_backward(layer, begin, count, grad);
      norm2_backward(layer, begin, count, grad);
      project_out_backward(layer, begin, count);
    });
  }
  await(shards_.gather(grad, "gradient of the mlp"));
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { mlp_backward(layer, begin, count, grad); });
  await(shards_.sum(in_use(grad_normed_), "gradient of normed 2"));
  over_blocks(rows.own, [&](int64_t begin, int64_t count) { norm2_backward(layer, begin, count, grad); });
  await(shards_.gather(in_use(grad_y_), "gradient of attention"));
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { project_out_backward(layer, begin, count); });
  grad_mixed_ = shards_.to_heads(in_use(grad_mixed_shard_), {config_.num_heads}, "gradient of mixed");
}

void Layers::before_attention_backward(int64_t layer, at::Tensor& grad) {
  const TokenShards::Rows& rows = shards_.rows();
  if (shards_.alone()) {
    grad_qkv_shard_ = grad_qkv_;
    return over_blocks(rows.own, [&](int64_t begin, int64_t count) {
      rotate_backward(layer, begin, count);
      project_backward(layer, begin, count);
      norm1_backward(layer, begin, count, grad);
    });
  }
  over_blocks(flight_->tokens, [&](int64_t begin, int64_t count) { rotate_backward(layer, begin, count); });
  grad_qkv_.narrow(0, flight_->tokens, rows.attended - flight_->tokens).zero_();
  grad_qkv_shard_ = shards_.to_tokens(grad_qkv_.narrow(0, 0, rows.attended),
                                      {config_.num_heads, config_.num_kv_heads, config_.num_kv_heads},
                                      "gradient of qkv");
  over_blocks(rows.shard, [&](int64_t begin, int64_t count) { project_backward(layer, begin, count); });
  await(shards_.sum(in_use(grad_normed_), "gradient of normed 1"));
  over_blocks(rows.own, [&](int64_t begin, int64_t count) { norm1_backward(layer, begin, count, grad); });
}

void Layers::backward(const MicroBatch& batch, int64_t chunk, int64_t slot, at::Tensor& grad,
                      const Gradients& gradients) {
  const at::NoGradGuard no_grad;
  flight_ = &flights_[static_cast<size_t>(slot)];
  pack(true);
  const TokenShards::Rows& rows = shards_.rows();
  const auto [first, count] = flight_->layers;
  if (gradients.ready && first + count == config_.num_layers) gradients.ready(static_cast<size_t>(first + count) + 1);
  for (int64_t layer = first + count - 1; layer >= first; --layer) {
    Kept& kept = this->kept(layer);
    if (layer < first + flight_->again) forward_again(layer);
    norm1_.start(parts_of(rows.own, kBlock), config_.hidden_size);
    norm2_.start(parts_of(rows.own, kBlock), config_.hidden_size);
    q_norm_.start(parts_of(flight_->tokens, kBlock), config_.head_dim);
    k_norm_.start(parts_of(flight_->tokens, kBlock), config_.head_dim);
    const model::LayerWeights& to = gradients.sums.layers()[static_cast<size_t>(layer)];
    // A gradient of rows `dy` by what was multiplied with the weight.
    const auto of = [&](const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
      return WeightGradient{row(dy, 0), row(x, 0), dy.stride(0), x.stride(0), rows.shard, weight};
    };
    after_attention_backward(layer, grad);
    attention_.backward(operands(layer), {grad_mixed_, grad_rotated_, grad_qkv_});
    std::vector<WeightGradient> after{of(grad_gate_up_, kept.normed2, to.gate_up_proj),
                                      of(grad, kept.act, to.down_proj), of(grad_y_, kept.mixed_shard, to.o_proj)};
    if (to.o_bias.defined()) {
      const at::Tensor own = shards_.own(grad_y_);
      after.push_back({row(own, 0), nullptr, own.stride(0), 0, rows.own, to.o_bias});
    }
    add_weight_gradients(after);
    before_attention_backward(layer, grad);
    std::vector<WeightGradient> before{of(grad_qkv_shard_, kept.normed1, to.qkv_proj)};
    if (to.qkv_bias.defined()) before.push_back(of(grad_qkv_shard_, grad_qkv_shard_, to.qkv_bias));
    add_weight_gradients(before);
    norm1_.add_to(to.input_norm);
    norm2_.add_to(to.post_attention_norm);
    if (config_.qk_norm) {
      q_norm_.add_to(to.q_norm);
      k_norm_.add_to(to.k_norm);
    }
    if (gradients.ready) gradients.ready(static_cast<size_t>(layer) + 1);
  }
  if (link_.first(chunk)) embed_backward(batch, grad, gradients);
  else link_.send_gradient(shards_.own(grad));
  if (gradients.ready && first == 0) gradients.ready(0);
}

void Layers::forward_again(int64_t layer) {
  if (!shards_.alone()) {
    before_attention(layer);
    attention_.forward(operands(layer));
    return after_attention(layer, false);
  }
  over_blocks(flight_->tokens, [&](int64_t begin, int64_t rows) {
    norm1(layer, begin, rows);
    project(layer, begin, rows);
    rotate(layer, begin, rows);
  });
  attention_.forward(operands(layer));
  over_blocks(flight_->tokens, [&](int64_t begin, int64_t rows) {
    project_out(layer, begin, rows);
    norm2(layer, begin, rows);
    mlp(layer, begin, rows, false);
  });
}

void Layers::embed_backward(const MicroBatch& batch, const at::Tensor& grad, const Gradients& gradients) {
  await(shards_.gather(grad, "gradient of the embedding"));
  // Columns shared out: a row may come again.
  constexpr int64_t kColumns = 64;
  const int64_t hidden = config_.hidden_size;
  const std::vector<int64_t>& tokens = shards_.shard_tokens();
  over_parts(parts_of(hidden, kColumns), [&](int64_t part) {
    const int64_t first = part * kColumns, count = std::min(kColumns, hidden - first);
    for (int64_t t = 0; t < std::ssize(tokens); ++t) {
      const int64_t id = batch.host_ids[static_cast<size_t>(tokens[static_cast<size_t>(t)])] - shards_.vocab_begin();
      if (id >= 0 && id < config_.vocab_size)
        add(row(gradients.sums.embed_tokens(), id) + first, row(grad, t) + first, count);
    }
  });
}

}  // namespace tritonforge::train::cpu
