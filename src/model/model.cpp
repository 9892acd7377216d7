#include "model/model.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <exception>

#include "base/checksum.h"
#include "base/rng.h"
#include "kernels/linear.h"
#include "kernels/parallel.h"
#include "model/recompute.h"

namespace tritonforge::model {
namespace {

// Elements, at least 256 bytes: every weight begins at a multiple, as an allocation of its own would, and at the same
// element in an arena of any dtype.
constexpr int64_t kAlignment = 128;

// The memory of `whole` from its element `begin` on as a tensor of its own: no autograd view.
at::Tensor alias(const at::Tensor& whole, int64_t begin, at::IntArrayRef sizes, at::ScalarType dtype) {
  at::Tensor part = at::empty({0}, whole.options().dtype(dtype));
  const int64_t bytes = (whole.storage_offset() + begin) * static_cast<int64_t>(whole.element_size());
  part.set_(whole.storage(), bytes / static_cast<int64_t>(part.element_size()), sizes, c10::contiguous_strides(sizes));
  return part;
}
// Rows [begin, begin + rows).
at::Tensor alias_rows(const at::Tensor& fused, int64_t begin, int64_t rows) {
  std::vector<int64_t> sizes = fused.sizes().vec();
  sizes[0] = rows;
  return alias(fused, begin * fused.stride(0), sizes, fused.scalar_type());
}

struct Qkv {
  at::Tensor q, k, v;  // [tokens, out]
};

// With gradients the parts are the leaves, so they are used one by one; without, one GEMM reads all of them.
Qkv project(const at::Tensor& x, const LayerWeights& w, int64_t q, int64_t kv) {
  if (at::GradMode::is_enabled()) {
    return {product(x, {.weight = w.q_proj, .scales = {}, .bias = w.q_bias}),
            product(x, {.weight = w.k_proj, .scales = {}, .bias = w.k_bias}),
            product(x, {.weight = w.v_proj, .scales = {}, .bias = w.v_bias})};
  }
  const at::Tensor fused = product(x, w.qkv());
  // q and k become contiguous in rope; an attention may count on v being so as well.
  return {fused.narrow(1, 0, q), fused.narrow(1, q, kv), fused.narrow(1, q + kv, kv).contiguous()};
}

std::vector<std::pair<std::string, at::Tensor>> layer_parameters(const LayerWeights& layer) {
  return {{"self_attn.q_proj.weight", layer.q_proj},
          {"self_attn.q_proj.bias", layer.q_bias},
          {"self_attn.k_proj.weight", layer.k_proj},
          {"self_attn.k_proj.bias", layer.k_bias},
          {"self_attn.v_proj.weight", layer.v_proj},
          {"self_attn.v_proj.bias", layer.v_bias},
          {"self_attn.o_proj.weight", layer.o_proj},
          {"self_attn.o_proj.bias", layer.o_bias},
          {"self_attn.q_norm.weight", layer.q_norm},
          {"self_attn.k_norm.weight", layer.k_norm},
          {"mlp.gate_proj.weight", layer.gate_proj},
          {"mlp.up_proj.weight", layer.up_proj},
          {"mlp.down_proj.weight", layer.down_proj},
          {"input_layernorm.weight", layer.input_norm},
          {"post_attention_layernorm.weight", layer.post_attention_norm}};
}

std::vector<std::pair<std::string, at::Tensor>> layer_scales(const LayerWeights& layer) {
  const int64_t q = layer.q_proj.size(0), kv = layer.k_proj.size(0), up = layer.up_proj.size(0);
  return {{"self_attn.q_proj.weight", layer.qkv_scales.narrow(0, 0, q)},
          {"self_attn.k_proj.weight", layer.qkv_scales.narrow(0, q, kv)},
          {"self_attn.v_proj.weight", layer.qkv_scales.narrow(0, q + kv, kv)},
          {"self_attn.o_proj.weight", layer.o_scales},
          {"mlp.gate_proj.weight", layer.gate_up_scales.narrow(0, 0, up)},
          {"mlp.up_proj.weight", layer.gate_up_scales.narrow(0, up, up)},
          {"mlp.down_proj.weight", layer.down_scales}};
}

}  // namespace

Projection LayerWeights::qkv() const {
  return {qkv_proj, qkv_scales, qkv_bias, qkv_blocks.defined() ? &qkv_blocks : nullptr,
          panels ? &panels->qkv : nullptr};
}
Projection LayerWeights::o() const {
  return {o_proj, o_scales, o_bias, o_blocks.defined() ? &o_blocks : nullptr, panels ? &panels->o : nullptr};
}
Projection LayerWeights::gate_up() const {
  return {gate_up_proj,
          gate_up_scales,
          {},
          gate_up_blocks.defined() ? &gate_up_blocks : nullptr,
          panels ? &panels->gate_up : nullptr};
}
Projection LayerWeights::down() const {
  return {down_proj, down_scales, {}, down_blocks.defined() ? &down_blocks : nullptr, panels ? &panels->down : nullptr};
}

Model::Model(ModelConfig config, at::ScalarType dtype, at::Device device, bool fp8_matrices)
    : config_(std::move(config)), dtype_(dtype), device_(device), fp8_matrices_(fp8_matrices) {
  config_.validate_part();
  layers_.resize(static_cast<size_t>(config_.num_layers));
  place_weights();
}

Model::Model(ModelConfig config, StoredMatrices stored)
    : config_(std::move(config)),
      dtype_(at::kFloat),
      device_(at::kCPU),
      embed_blocks_(std::move(stored.embed_tokens)),
      head_blocks_(std::move(stored.lm_head)) {
  config_.validate_part();
  TF_CHECK(std::ssize(stored.layers) == config_.num_layers, "{} layers of stored matrices for {}", stored.layers.size(),
           config_.num_layers);
  for (StoredMatrices::Layer& layer : stored.layers) {
    LayerWeights& weights = layers_.emplace_back();
    weights.qkv_blocks = std::move(layer.qkv);
    weights.o_blocks = std::move(layer.o);
    weights.gate_up_blocks = std::move(layer.gate_up);
    weights.down_blocks = std::move(layer.down);
  }
  place_weights();
}

void Model::place_weights() {
  const at::NoGradGuard no_grad;
  const auto& c = config_;
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;

  // Every weight's place, in elements of the arena.
  struct Place {
    at::Tensor* tensor;
    std::vector<int64_t> sizes;
    at::ScalarType dtype;
    int64_t begin;
  };
  std::vector<Place> places;
  int64_t end = 0;
  const auto place_as = [&](at::Tensor& tensor, std::vector<int64_t> sizes, at::ScalarType dtype) {
    const int64_t begin = (end + kAlignment - 1) / kAlignment * kAlignment;
    const auto bytes = c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype)),
               element = static_cast<int64_t>(c10::elementSize(dtype_));
    end = begin + (bytes + element - 1) / element;
    places.push_back({&tensor, std::move(sizes), dtype, begin});
  };
  const auto place = [&](at::Tensor& tensor, std::vector<int64_t> sizes) {
    place_as(tensor, std::move(sizes), dtype_);
  };
  const auto place_matrix = [&](at::Tensor& tensor, const kernels::BlockMatrix& blocks, int64_t out, int64_t in) {
    if (!blocks.defined()) return place(tensor, {out, in});
    TF_CHECK(blocks.out == out && blocks.in == in, "stored blocks of [{}, {}] for [{}, {}]", blocks.out, blocks.in, out,
             in);
  };
  const auto place_layers = [&](at::Tensor& tensor, at::Tensor& scales, const kernels::BlockMatrix& blocks, int64_t out,
                                int64_t in) {
    if (!fp8_matrices_) return place_matrix(tensor, blocks, out, in);
    place_as(tensor, {out, in}, at::kFloat8_e4m3fn);
    place_as(scales, {out}, at::kFloat);
  };
  if (c.has_table()) place_matrix(embed_tokens_, embed_blocks_, c.vocab_size, c.hidden_size);
  for (LayerWeights& layer : layers_) {
    place(layer.input_norm, {c.hidden_size});
    place(layer.post_attention_norm, {c.hidden_size});
    place_layers(layer.qkv_proj, layer.qkv_scales, layer.qkv_blocks, q + 2 * kv, c.hidden_size);
    place_layers(layer.o_proj, layer.o_scales, layer.o_blocks, c.hidden_size, q);
    if (c.attention_bias) place(layer.qkv_bias, {q + 2 * kv});
    if (c.output_bias()) place(layer.o_bias, {c.hidden_size});
    if (c.qk_norm) {
      place(layer.q_norm, {c.head_dim});
      place(layer.k_norm, {c.head_dim});
    }
    place_layers(layer.gate_up_proj, layer.gate_up_scales, layer.gate_up_blocks, 2 * c.intermediate_size,
                 c.hidden_size);
    place_layers(layer.down_proj, layer.down_scales, layer.down_blocks, c.hidden_size, c.intermediate_size);
  }
  if (c.predicts()) place(final_norm_, {c.hidden_size});
  if (c.predicts() && !c.tie_embeddings) place_matrix(lm_head_, head_blocks_, c.vocab_size, c.hidden_size);

  // One allocation for all of them, and the parts of what is fused.
  const auto options = at::TensorOptions().dtype(dtype_).device(device_);
  arena_ = at::empty({(end + kAlignment - 1) / kAlignment * kAlignment}, options);
  for (const Place& p : places) *p.tensor = alias(arena_, p.begin, p.sizes, p.dtype);
  for (LayerWeights& layer : layers_) {
    if (layer.qkv_proj.defined()) {
      layer.q_proj = alias_rows(layer.qkv_proj, 0, q);
      layer.k_proj = alias_rows(layer.qkv_proj, q, kv);
      layer.v_proj = alias_rows(layer.qkv_proj, q + kv, kv);
    }
    if (c.attention_bias) {
      layer.q_bias = alias_rows(layer.qkv_bias, 0, q);
      layer.k_bias = alias_rows(layer.qkv_bias, q, kv);
      layer.v_bias = alias_rows(layer.qkv_bias, q + kv, kv);
    }
    if (!layer.gate_up_proj.defined()) continue;
    layer.gate_proj = alias_rows(layer.gate_up_proj, 0, c.intermediate_size);
    layer.up_proj = alias_rows(layer.gate_up_proj, c.intermediate_size, c.intermediate_size);
  }
  inv_freq_ = rope_inv_freq(c.head_dim, c.rope_theta, device_);
}

std::string Model::layout() const {
  std::string text = c10::toString(dtype_);
  for (const auto& [name, tensor] : named_parameters())
    text += fmt::format("\n{} {} [{}]", name, tensor.storage_offset(), fmt::join(tensor.sizes(), ", "));
  return checksum(text);
}

int64_t Model::stored_bytes() const {
  int64_t bytes = embed_blocks_.bytes() + head_blocks_.bytes();
  for (const LayerWeights& layer : layers_) {
    bytes += layer.qkv_blocks.bytes() + layer.o_blocks.bytes() + layer.gate_up_blocks.bytes() +
             layer.down_blocks.bytes();
  }
  return bytes;
}

c10::DataPtr Model::take_arena() {
  TF_CHECK(arena_.storage().data() != nullptr, "the weights' memory is away already");
  return arena_.storage().set_data_ptr(c10::DataPtr(nullptr, device_));
}

void Model::put_arena(c10::DataPtr memory) {
  TF_CHECK(arena_.storage().data() == nullptr && memory.get() != nullptr, "the weights have memory already");
  arena_.storage().set_data_ptr(std::move(memory));
}

void LayerPanels::assign(const LayerWeights& weights, bool back) {
  const auto one = [back](kernels::Panels& panels, const Projection& p) {
    const at::Tensor matrix = p.scales.defined() ? kernels::widened({p.weight, p.scales}, at::kFloat) : p.weight;
    const int64_t out = matrix.size(0), in = matrix.size(1);
    const auto* data = matrix.const_data_ptr<float>();
    back ? panels.assign(data, in, out, in) : panels.assign_transposed(data, in, in, out);
  };
  one(qkv, weights.qkv());
  one(o, weights.o());
  one(gate_up, weights.gate_up());
  one(down, weights.down());
}

void Model::pack() {
  if (packed_bytes() == 0) return;
  std::vector<std::exception_ptr> failures(layers_.size());  // where there is no memory; none may leave a thread
  kernels::over_threads(config_.num_layers, 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        if (!layers_[i].panels) layers_[i].panels = std::make_shared<LayerPanels>();
        layers_[i].panels->assign(layers_[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (!head_panels_) head_panels_ = std::make_shared<kernels::Panels>();
  head_panels_->assign_transposed(lm_head().const_data_ptr<float>(), config_.hidden_size, config_.hidden_size,
                                  config_.vocab_size);
}

int64_t Model::packed_bytes() const {
  if (!device_.is_cpu() || dtype_ != at::kFloat || stored_bytes() > 0) return 0;
  return 4 * (config_.matrix_elements() + config_.hidden_size * config_.vocab_size);
}

const at::Tensor& Model::lm_head() const { return lm_head_.defined() ? lm_head_ : embed_tokens_; }

std::string Model::layer_prefix(int64_t layer) const {
  return fmt::format("model.layers.{}.", config_.layer_number(layer));
}

std::vector<std::pair<std::string, at::Tensor>> Model::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  if (embed_tokens_.defined()) named.emplace_back(kTable, embed_tokens_);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    for (auto& [name, tensor] : layer_parameters(layers_[static_cast<size_t>(i)])) {
      if (tensor.defined()) named.emplace_back(layer_prefix(i) + name, tensor);
    }
  }
  if (final_norm_.defined()) named.emplace_back("model.norm.weight", final_norm_);
  if (lm_head_.defined()) named.emplace_back("lm_head.weight", lm_head_);
  return named;
}

std::map<std::string, at::Tensor> Model::named_scales() const {
  std::map<std::string, at::Tensor> named;
  for (int64_t i = 0; fp8_matrices_ && i < config_.num_layers; ++i) {
    for (auto& [name, scales] : layer_scales(layers_[static_cast<size_t>(i)]))
      named.emplace(layer_prefix(i) + name, scales);
  }
  return named;
}

at::Tensor random_parameter(const std::string& name, at::IntArrayRef sizes, uint64_t seed, double std) {
  if (name.ends_with(".bias")) return at::zeros(sizes, at::kFloat);
  if (sizes.size() != 2) return at::ones(sizes, at::kFloat);
  // Drawn in fp32 on the CPU, so that the numbers are those of (seed, name) on every device and dtype.
  auto generator = at::detail::createCPUGenerator(Rng::derive(seed, name));
  return at::empty(sizes, at::kFloat).normal_(0.0, std, generator);
}

void Model::init_random(uint64_t seed, double std) {
  TF_CHECK(!fp8_matrices_, "random numbers are drawn for weights that are not rounded to FP8");
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : named_parameters()) tensor.copy_(random_parameter(name, tensor.sizes(), seed, std));
}

// Of a part of the table each rank looks up its own rows, and zeros for the others'.
at::Tensor Model::embed(const at::Tensor& ids, Together* ranks) const {
  if (embed_blocks_.defined()) return kernels::block_embedding(embed_blocks_, ids);
  if (ranks == nullptr) return at::embedding(embed_tokens_, ids);
  const int64_t rows = embed_tokens_.size(0);
  const at::Tensor row = ids - ranks->rank() * rows;
  const at::Tensor others = row.lt(0).logical_or(row.ge(rows)).unsqueeze(1);
  return ranks->sum(at::embedding(embed_tokens_, row.clamp(0, rows - 1)).masked_fill_(others, 0));
}

at::Tensor Model::layer_forward(int64_t index, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                const AttentionFn& attention, Together* ranks, const at::Tensor& rows) const {
  const LayerWeights& w = layers_[index];
  const int64_t tokens = x.size(0);
  const at::Tensor normed = rms_norm(x, w.input_norm, config_.rms_norm_eps);
  const Qkv qkv = project(normed, w, config_.num_heads * config_.head_dim, config_.num_kv_heads * config_.head_dim);
  at::Tensor q = qkv.q.view({tokens, config_.num_heads, config_.head_dim});
  at::Tensor k = qkv.k.view({tokens, config_.num_kv_heads, config_.head_dim});
  const at::Tensor v = qkv.v.view({tokens, config_.num_kv_heads, config_.head_dim});
  if (config_.qk_norm) {
    q = rms_norm(q, w.q_norm, config_.rms_norm_eps);
    k = rms_norm(k, w.k_norm, config_.rms_norm_eps);
  }
  const at::Tensor mixed = attention(index, apply_rope(q, cos, sin), apply_rope(k, cos, sin), v)
                               .reshape({tokens, config_.num_heads * config_.head_dim});
  const auto of_rows = [&](const at::Tensor& all) { return rows.defined() ? all.index_select(0, rows) : all; };
  // The residual is added into the GEMM's own output, or the ranks' sum, to which one of them brings the bias.
  const auto joined = [&](const at::Tensor& part) { return ranks != nullptr ? ranks->sum(part) : part; };
  Projection o = w.o();
  if (ranks != nullptr && ranks->rank() > 0) o.bias.reset();
  const at::Tensor y = joined(product(of_rows(mixed), o)).add_(of_rows(x));
  return joined(swiglu_mlp(rms_norm(y, w.post_attention_norm, config_.rms_norm_eps), w)).add_(y);
}

at::Tensor Model::forward(const at::Tensor& ids, const at::Tensor& positions, const AttentionFn& attention,
                          const ForwardOptions& options) const {
  TF_CHECK(config_.embeds() && config_.predicts(), "a forward pass over {} of {} layers", config_.num_layers,
           config_.whole_layers);
  const auto [cos, sin] = rope_table(positions, inv_freq_);
  TF_CHECK((stored_bytes() == 0 && !fp8_matrices_) || !at::GradMode::is_enabled(),
           "weights as they are stored, or in FP8, have no gradients");
  at::Tensor x = embed(ids, options.ranks);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const at::Tensor rows = i + 1 < config_.num_layers ? at::Tensor() : options.rows;
    if (i < options.recompute_layers && at::GradMode::is_enabled()) {
      std::vector<at::Tensor> weights;
      for (auto& [name, tensor] : layer_parameters(layers_[i])) {
        if (tensor.defined()) weights.push_back(tensor);
      }
      // Everything is captured by value: the backward pass may outlive this call (not the model).
      x = recompute(x, weights, [this, i, cos, sin, attention, rows](const at::Tensor& input) {
        return layer_forward(i, input, cos, sin, attention, nullptr, rows);
      });
    } else {
      x = layer_forward(i, x, cos, sin, attention, options.ranks, rows);
    }
  }
  return rms_norm(x, final_norm_, config_.rms_norm_eps);
}

at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight) {
  if (hidden.is_cuda() && hidden.scalar_type() != at::kFloat) return at::mm(hidden, weight.t(), at::kFloat);
  return at::linear(hidden, weight).to(at::kFloat);
}

at::Tensor Model::logits(const at::Tensor& hidden, Together* ranks) const {
  if (ranks != nullptr) return ranks->side_by_side(logits(hidden));
  const kernels::BlockMatrix& blocks = config_.tie_embeddings ? embed_blocks_ : head_blocks_;
  if (blocks.defined()) return kernels::block_linear(hidden, blocks, {});
  if (head_panels_ && !at::GradMode::is_enabled()) return kernels::linear(hidden, *head_panels_, {});
  return head_logits(hidden, lm_head());
}

}  // namespace tritonforge::model
