#include "train/gpu/layers.h"

#include <algorithm>

#include "train/to_device.h"

namespace tritonforge::train::gpu {
namespace {

constexpr int64_t kSpareSlots = 64 * tritonforge::gpu::kPage;  // sequences begin at pages of their own
constexpr int64_t kBf16 = 2, kFp32 = 4;                        // bytes

int64_t times(int64_t columns, int64_t rows, int64_t bytes) { return columns * rows * bytes; }

model::ModelConfig attention_of(const model::ModelConfig& part, const RankRows& rows) {
  return TokenShards::attention_of(part, rows.cp, rows.form);
}

// Of a layer, whatever is computed again: its input and what attention gave.
int64_t kept_bytes(const model::ModelConfig& c, const RankRows& rows) {
  const int64_t heads = attention_of(c, rows).num_heads;
  return times(c.hidden_size, rows.own, kBf16) + times(heads * c.head_dim, rows.attended, kBf16) +
         times(heads, rows.attended, kFp32) +
         (rows.exchanges_heads() ? times(c.num_heads * c.head_dim, rows.shard, kBf16) : 0);
}

}  // namespace

RankRows rank_rows(const parallel::ParallelDims& dims, int64_t tokens) {
  const TokenShards::Rows rows = TokenShards::rows_of(tokens, kRowUnit, dims.tp, dims.cp, dims.cp_form);
  return {rows.attended, rows.shard, rows.own, dims.tp, dims.cp, dims.cp_form};
}

Layers::Layers(const model::Model& model, const Recompute& recompute, Products& products, const TokenShards& shards,
               StageLink& link)
    : api_(tritonforge::gpu::open_cuda_library()),
      model_(model),
      config_(model.config()),
      products_(products),
      shards_(shards),
      link_(link),
      recompute_(recompute),
      q_(config_.num_heads * config_.head_dim),
      kv_(config_.num_kv_heads * config_.head_dim),
      attention_q_(shards.attention().num_heads * config_.head_dim),
      attention_kv_(shards.attention().num_kv_heads * config_.head_dim),
      eps_(static_cast<float>(config_.rms_norm_eps)),
      flights_(static_cast<size_t>(most_waiting(link.stage()))),
      attention_(shards.attention(), model.device()),
      ring_(shards, attention_, model.device()) {}

int64_t Layers::activation_bytes(const model::ModelConfig& c, const RankRows& rows, const Recompute& recompute) {
  const model::ModelConfig attention = attention_of(c, rows);
  const int64_t q = attention.num_heads * c.head_dim, kv = attention.num_kv_heads * c.head_dim;
  const int64_t projected = times(2 * q + 4 * kv, rows.attended, kBf16);
  const int64_t mixed = times(c.hidden_size, rows.own, kBf16) + times(2 * c.intermediate_size, rows.shard, kBf16);
  const int64_t of_projected = std::max<int64_t>(1, c.num_layers - recompute.layers - recompute.qkv_layers);
  const int64_t of_mixed = std::max<int64_t>(1, c.num_layers - recompute.layers);
  return c.num_layers * kept_bytes(c, rows) + of_projected * projected + of_mixed * mixed;
}

int64_t Layers::workspace_bytes(const model::ModelConfig& c, const RankRows& rows, bool train, int64_t waiting) {
  const model::ModelConfig attention = attention_of(c, rows);
  const int64_t q_shard = c.num_heads * c.head_dim, kv_shard = c.num_kv_heads * c.head_dim,
                q = attention.num_heads * c.head_dim, kv = attention.num_kv_heads * c.head_dim;
  int64_t bytes = times(2 * c.hidden_size + c.intermediate_size, rows.shard, kBf16) +
                  times(c.head_dim, rows.shard * rows.cp, kFp32);
  if (rows.tp * rows.cp > 1) bytes += times(c.hidden_size, rows.shard, kBf16);
  // Of what is exchanged: what is made, what is sent, and what comes.
  if (rows.exchanges_heads()) bytes += 3 * times(q_shard + 2 * kv_shard, rows.shard, kBf16);
  if (rows.ring()) bytes += RingAttention::bytes(rows.shard, c, train);
  if (train && !c.embeds()) bytes += (waiting + 1) * times(c.hidden_size, rows.own, kBf16);  // sent_grads_
  if (train) {  // the last is attention's dq
    return bytes + times(c.hidden_size + q_shard, rows.shard, kBf16) + times(2 * q + 4 * kv, rows.attended, kBf16) +
           times(q, rows.attended, kFp32);
  }
  return bytes + waiting * (times(c.hidden_size, rows.own, kBf16) + activation_bytes(c, rows, {c.num_layers, 0}) -
                            (c.num_layers - 1) * kept_bytes(c, rows));
}

void Layers::reserve(int64_t tokens, bool train) {
  train_ = train;
  const int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(model_.device());
  const int64_t rows = shards_.rows_of(tokens).all;
  if (rows > capacity_) {
    capacity_ = rows;
    normed_.reset();
    grad_.reset();
  }
  const TokenShards::Rows most = shards_.rows_of(capacity_);
  const auto buffer = [&](int64_t count, int64_t width) { return at::empty({count, width}, options); };
  if (!normed_.defined()) {
    normed_ = buffer(most.shard, hidden);
    act_ = buffer(most.shard, intermediate);
    if (shards_.tensor_parallel()) partial_ = buffer(most.shard, hidden);
    if (shards_.exchanges_heads()) qkv_ = buffer(most.shard, q_ + 2 * kv_);
    rope_ = at::empty({capacity_, config_.head_dim}, options.dtype(at::kFloat));
    check_cuda(api_.rope_table(rope_.mutable_data_ptr<float>(), model_.inv_freq().const_data_ptr<float>(), capacity_,
                               config_.head_dim, kStream));
  }
  slots_ = std::max({slots_, attention_.slots(), most.attended + kSpareSlots});
  ring_.reserve(most.attended, slots_, train);
  if (flight_ != nullptr) {
    reserve(*flight_, rows);
  } else {  // before the first pass: all of them
    for (Flight& flight : flights_) reserve(flight, rows);
  }
  if (!train || grad_.defined()) return;
  grad_ = buffer(most.shard, hidden);
  grad_mixed_ = buffer(most.shard, q_);
  grad_qkv_ = buffer(most.attended, attention_q_ + 2 * attention_kv_);
  grad_q_ = buffer(most.attended, attention_q_);
  grad_k_ = buffer(most.attended, attention_kv_);
  grad_v_ = buffer(most.attended, attention_kv_);
  const int64_t widest = std::max({hidden, 2 * config_.head_dim, q_ + 2 * kv_});
  partials_ = at::empty({static_cast<int64_t>(api_.row_sums_bytes(widest))}, options.dtype(at::kByte));
}

// Of a slot, whose micro-batch is not under way.
void Layers::reserve(Flight& flight, int64_t rows) {
  if (rows > flight.capacity) flight = {.capacity = rows, .x = {}, .attended = {}, .projected = {}, .mixed = {}};
  const TokenShards::Rows most = shards_.rows_of(flight.capacity);
  const int64_t layers = config_.num_layers;
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(model_.device());
  const auto buffer = [&](int64_t count, int64_t width) { return at::empty({count, width}, options); };
  const auto count = [&](int64_t of_layers) {
    return static_cast<size_t>(train_ ? std::max<int64_t>(1, of_layers) : 1);
  };
  while (std::ssize(flight.x) < (train_ ? layers + 1 : 2)) flight.x.push_back(buffer(most.own, config_.hidden_size));
  while (flight.attended.size() < count(layers)) {
    flight.attended.push_back({buffer(most.attended, attention_q_),
                               at::empty({most.attended, shards_.attention().num_heads}, options.dtype(at::kFloat)),
                               {}});
  }
  while (flight.projected.size() < count(layers - projected_again())) {
    Projected& projected = flight.projected.emplace_back();
    if (!shards_.exchanges_heads()) projected.qkv = buffer(most.attended, q_ + 2 * kv_);
    projected.q = buffer(most.attended, attention_q_);
  }
  while (flight.mixed.size() < count(layers - recompute_.layers))
    flight.mixed.push_back({buffer(most.own, config_.hidden_size), buffer(most.shard, 2 * config_.intermediate_size)});
  for (Projected& projected : flight.projected) {
    if (projected.keys.defined() && projected.keys.size(0) >= slots_) continue;
    projected.keys = buffer(slots_, attention_kv_);
    projected.values = buffer(slots_, attention_kv_);
  }
}

void Layers::norm(const at::Tensor& out, const at::Tensor& x, const at::Tensor& weight) {
  check_cuda(api_.rms_norm(bits(out), bits(x), bits(weight), x.size(0), x.size(1), eps_, kStream));
}

Attention::Operands Layers::operands(int64_t layer) {
  const Projected& projected = this->projected(layer);
  const Attended& attended = this->attended(layer);
  return {projected.q, projected.keys, projected.values, attended.out, attended.statistics};
}

at::Tensor Layers::normed(const at::Tensor& x, const at::Tensor& weight) {
  norm(shards_.own(normed_), x, weight);
  await(shards_.gather(shard(normed_), "normed"));
  return shard(normed_);
}

void Layers::add_product(const at::Tensor& to, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                         const at::Tensor& addend, std::string_view what) {
  if (!shards_.tensor_parallel()) return products_.forward(to, x, w, bias, addend);
  products_.forward(shard(partial_), x, w);
  await(shards_.sum(shard(partial_), what));
  at::Tensor sum = to;
  at::add_out(sum, shards_.own(partial_), addend);
  if (bias.defined()) sum.add_(bias);
}

void Layers::begin(const MicroBatch& batch) {
  begun_ = &batch;
  const int64_t rows = shards_.rows().attended, tokens = shards_.attended_tokens();
  attention_.begin(shards_.zigzag(), shards_.ring_rank(), rows, batch.parents, batch.before);
  positions_ = at::zeros({rows}, batch.positions.options().dtype(at::kInt));
  positions_.narrow(0, 0, tokens).copy_(shards_.attended_positions(batch));
  if (!config_.embeds()) return;
  // A rank embeds those of the shard's tokens that its rows of the vocabulary have.
  const std::vector<int64_t>& shard = shards_.shard_tokens();
  std::vector<int32_t> ids(static_cast<size_t>(shards_.rows().shard), 0);
  std::vector<int64_t> embedded, places;
  for (int64_t t = 0; t < std::ssize(shard); ++t) {
    const int64_t id = batch.host_ids[static_cast<size_t>(shard[static_cast<size_t>(t)])] - shards_.vocab_begin();
    if (id < 0 || id >= config_.vocab_size) continue;
    ids[static_cast<size_t>(t)] = static_cast<int32_t>(id);
    embedded.push_back(id);
    places.push_back(t);
  }
  table_rows_ = to_device(ids, model_.device());
  embedded_ids_ = to_device(embedded, model_.device());
  embedded_rows_ = to_device(places, model_.device());
}

void Layers::embed() {
  const at::Tensor to = shard(shards_.tensor_parallel() ? partial_ : x(0));
  check_cuda(api_.embed(bits(to), bits(model_.embed_tokens()), table_rows_.const_data_ptr<int32_t>(), to.size(0),
                        config_.hidden_size, kStream));
  if (!shards_.tensor_parallel()) return;
  const at::Tensor mine = at::zeros({to.size(0), 1}, to.options()).index_fill_(0, embedded_rows_, 1);
  shard(partial_).mul_(mine);
  await(shards_.sum(shard(partial_), "embedding"));
  own(x(0)).copy_(shards_.own(partial_));
}

void Layers::before_attention(int64_t layer) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  Projected& projected = this->projected(layer);
  const at::Tensor qkv = shard(shards_.exchanges_heads() ? qkv_ : projected.qkv);
  products_.forward(qkv, normed(own(x(layer)), w.input_norm), w.qkv_proj, w.qkv_bias);
  if (shards_.exchanges_heads())
    projected.qkv = shards_.to_heads(qkv, {config_.num_heads, config_.num_kv_heads, config_.num_kv_heads}, "qkv");
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
                                             .tokens = shards_.rows().attended,
                                             .heads = shards_.attention().num_heads,
                                             .kv_heads = shards_.attention().num_kv_heads,
                                             .head_dim = config_.head_dim,
                                             .eps = eps_};
  check_cuda(api_.rope_cache(&rope, kStream));
}

void Layers::after_attention(int64_t layer, bool output) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const Mixed& mixed = this->mixed(layer);
  const at::Tensor y = own(mixed.y), gate_up = shard(mixed.gate_up), act = shard(act_);
  add_product(y, attended(layer).mixed, w.o_proj, w.o_bias, own(x(layer)), "attention");
  products_.forward(gate_up, normed(y, w.post_attention_norm), w.gate_up_proj);
  if (!output) return;
  check_cuda(api_.swiglu(bits(act), bits(gate_up), act.size(0), config_.intermediate_size, kStream));
  add_product(own(x(layer + 1)), act, w.down_proj, {}, y, "mlp");
}

at::Tensor Layers::forward(const MicroBatch& batch, bool train, int64_t slot, const SegmentHook& needed) {
  const int64_t rows = shards_.rows().attended, tokens = shards_.attended_tokens();
  flight_ = &flights_[static_cast<size_t>(slot)];
  begin(batch);
  reserve(batch.tokens, train);
  if (needed) needed(0);
  if (config_.embeds()) embed();
  else link_.receive_input(own(x(0)));
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    if (needed) needed(static_cast<size_t>(layer) + 1);
    before_attention(layer);
    ring_.forward(operands(layer));
    Attended& attended = this->attended(layer);
    attended.out.narrow(0, tokens, rows - tokens).zero_();
    attended.mixed = shards_.to_tokens(in_attention(attended.out), {config_.num_heads}, "mixed");
    after_attention(layer, true);
  }
  if (needed) needed(static_cast<size_t>(config_.num_layers) + 1);
  return own(x(config_.num_layers));
}

void Layers::norm_backward(const NormedProduct& of, const at::Tensor& dy, bool again, bool accumulate) {
  const at::Tensor grad = shards_.own(grad_);
  const tritonforge::gpu::RmsNormBackwardArgs args{.dx = bits(grad),
                                                   .normed = again ? bits(dy) : nullptr,
                                                   .x = bits(of.x),
                                                   .w = bits(of.norm),
                                                   .dy = bits(dy),
                                                   .residual = bits(grad),
                                                   .partials = static_cast<float*>(partials_.mutable_data_ptr()),
                                                   .dw = gradient_of(of.norm_sum, accumulate),
                                                   .rows = shards_.rows().own,
                                                   .d = config_.hidden_size,
                                                   .eps = eps_};
  check_cuda(api_.rms_norm_backward(&args, kStream));
}

void Layers::product_backward(const NormedProduct& of, const at::Tensor& dy, bool accumulate, std::string_view what) {
  const at::Tensor normed = shard(normed_);
  if (!shards_.tensor_parallel()) {
    products_.input_gradient(normed, dy, of.w);
    norm_backward(of, normed, /*again=*/true, accumulate);
    return products_.weight_gradient(of.w_sum, dy, normed, accumulate);
  }
  // What is on its way to or from other ranks goes beside a product each.
  const at::Tensor partial = shard(partial_);
  norm(shards_.own(normed_), of.x, of.norm);
  const parallel::PendingPtr gathered = shards_.gather(normed, what);
  products_.input_gradient(partial, dy, of.w);
  const parallel::PendingPtr summed = shards_.sum(partial, what);
  gathered->wait();
  products_.weight_gradient(of.w_sum, dy, normed, accumulate);
  summed->wait();
  norm_backward(of, shards_.own(partial_), /*again=*/false, accumulate);
}

// From the gradient of attention's output to that of the joined projection's.
void Layers::attention_backward(int64_t layer, const model::LayerWeights& sums, bool accumulate) {
  const model::LayerWeights& w = model_.layers()[static_cast<size_t>(layer)];
  const at::Tensor d_out = shards_.to_heads(shard(grad_mixed_), {config_.num_heads}, "gradient of mixed");
  ring_.backward(operands(layer), d_out, grad_q_, grad_k_, grad_v_);
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
                                          .tokens = shards_.rows().attended,
                                          .used = shards_.attended_tokens(),
                                          .heads = shards_.attention().num_heads,
                                          .kv_heads = shards_.attention().num_kv_heads,
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
  const at::Tensor grad = shard(grad_), act = shard(act_), gate_up = shard(mixed.gate_up), y = own(mixed.y),
                   input = own(x(layer));

  await(shards_.gather(grad, "gradient of the mlp"));
  products_.input_gradient(act, grad, w.down_proj);
  const tritonforge::gpu::SwigluBackwardArgs swiglu{
      .gate_up = bits(gate_up), .d_act = bits(act), .rows = act.size(0), .intermediate = config_.intermediate_size};
  check_cuda(api_.swiglu_backward(&swiglu, kStream));
  products_.weight_gradient(sums.down_proj, grad, act, accumulate);
  product_backward({y, w.post_attention_norm, w.gate_up_proj, sums.post_attention_norm, sums.gate_up_proj}, gate_up,
                   accumulate, "the mlp's norm");

  await(shards_.gather(grad, "gradient of attention"));
  products_.input_gradient(shard(grad_mixed_), grad, w.o_proj);
  products_.weight_gradient(sums.o_proj, grad, attended(layer).mixed, accumulate);
  bias_backward(sums.o_bias, shards_.own(grad_), accumulate);
  attention_backward(layer, sums, accumulate);
  const at::Tensor grad_qkv = shards_.to_tokens(
      in_attention(grad_qkv_), {config_.num_heads, config_.num_kv_heads, config_.num_kv_heads}, "gradient of qkv");
  product_backward({input, w.input_norm, w.qkv_proj, sums.input_norm, sums.qkv_proj}, grad_qkv, accumulate,
                   "attention's norm");
  bias_backward(sums.qkv_bias, grad_qkv, accumulate);
}

void Layers::embed_backward(Gradients& gradients) {
  await(shards_.gather(shard(grad_), "gradient of the embedding"));
  // Where the head's weights are these, their gradient is there already.
  const at::Tensor& table = gradients.sums.embed_tokens();
  if (gradients.empty && !(config_.tie_embeddings && config_.predicts())) table.zero_();
  const auto [ids, order] = at::sort(embedded_ids_, /*stable=*/std::optional<bool>(true));
  const at::Tensor rows = embedded_rows_.index_select(0, order);
  const tritonforge::gpu::EmbedBackwardArgs embed{.d_table = table.mutable_data_ptr(),
                                                  .fp32 = table.scalar_type() == at::kFloat,
                                                  .rows = bits(grad_),
                                                  .ids = ids.const_data_ptr<int64_t>(),
                                                  .order = rows.const_data_ptr<int64_t>(),
                                                  .count = rows.numel(),
                                                  .hidden = config_.hidden_size};
  if (embed.count > 0) check_cuda(api_.embed_backward(&embed, kStream));
}

void Layers::backward(const MicroBatch& batch, int64_t slot, Gradients& gradients) {
  flight_ = &flights_[static_cast<size_t>(slot)];
  if (begun_ != &batch) begin(batch);
  if (gradients.ready) gradients.ready(static_cast<size_t>(config_.num_layers) + 1);
  for (int64_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    layer_backward(layer, gradients);
    if (gradients.ready) gradients.ready(static_cast<size_t>(layer) + 1);
  }
  if (config_.embeds()) embed_backward(gradients);
  else send_grad();
  if (gradients.ready) gradients.ready(0);
}

// One buffer more than are on their way at most, so that none is written before it has arrived.
void Layers::send_grad() {
  sent_grads_.resize(flights_.size() + 1);
  at::Tensor& sent = sent_grads_[sent_++ % sent_grads_.size()];
  const at::Tensor grad = shards_.own(grad_);
  if (!sent.defined() || sent.size(0) < grad.size(0)) sent = at::empty_like(grad);
  const at::Tensor rows = sent.narrow(0, 0, grad.size(0));
  rows.copy_(grad);
  link_.send_gradient(rows);
}

}  // namespace tritonforge::train::gpu
