#include "train/flat_adamw.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/adamw.h"
#include "kernels/gpu/adamw_math.h"
#include "kernels/parallel.h"
#include "train/gpu/products.h"

namespace tritonforge::train {
namespace {

using tritonforge::gpu::AdamwArgs;
using tritonforge::gpu::AdamwState;
using tritonforge::gpu::kAdamwPartials;

constexpr int64_t kFloats = sizeof(AdamwState) / sizeof(float);
at::Tensor field(const at::Tensor& decision, size_t offset) {
  return decision.select(0, static_cast<int64_t>(offset / sizeof(float)));
}
#define TF_FIELD(name) field(decision_, offsetof(AdamwState, name))

void* element(const at::Tensor& flat, int64_t index) {
  return static_cast<char*>(flat.mutable_data_ptr()) + index * static_cast<int64_t>(flat.element_size());
}

}  // namespace

FlatAdamW::FlatAdamW(const model::Model& model, Gradients& gradients, const parallel::Groups& groups,
                     const TrainConfig& config)
    : model_(model),
      gradients_(gradients),
      config_(config),
      sharding_(model, gradients, groups),
      states_on_(config.optimizer_state == OptimizerState::kCpu ? at::kCPU : model.device()) {
  const at::NoGradGuard no_grad;
  gradients.weights_needed = [this](size_t segment) { sharding_.await_weights(segment); };
  const bool bus = states_on_ != model.device();
  find_pieces();
  find_stretches(bus ? gpu::HostExchange::kBucket : model.arena().numel());
  find_decays();
  make_states();
  const at::Tensor& sums = gradients.sums.arena();
  sums.zero_();  // between the tensors, too
  const auto options = sums.options().dtype(at::kFloat);
  decision_ = at::zeros({kFloats}, options);
  if (model.device().is_cuda()) partials_ = at::zeros({std::ssize(sharding_.counted()) * kAdamwPartials}, options);
  if (!bus) return;
  gpu::check_cuda(tritonforge::gpu::open_cuda_library().set_device(model.device().index()));
  std::vector<gpu::HostExchange::Bucket> buckets;
  for (const Stretch& of : stretches_) {
    buckets.push_back({static_cast<const float*>(element(sums, of.place)),
                       static_cast<gpu::Bf16*>(element(model.arena(), of.place)), of.count});
  }
  exchange_.emplace(std::move(buckets));
}

void FlatAdamW::find_stretches(int64_t longest) {
  int64_t at = 0;
  for (size_t i = 0; i < sharding_.own().size(); ++i) {
    const ArenaPart& part = sharding_.own()[i];
    int64_t done = 0;
    do {  // of an empty part, an empty one: its weights are shared, too
      const int64_t count = std::min(longest, part.count - done);
      stretches_.push_back({part.begin + done, at, count, i, done + count == part.count});
      done += count;
      at += count;
    } while (!stretches_.back().last);
  }
}

void FlatAdamW::find_decays() {
  std::vector<std::pair<int64_t, float>> tensors;
  for (const auto& [name, tensor] : model_.named_parameters())
    tensors.emplace_back(tensor.storage_offset(), tensor.dim() > 1 ? static_cast<float>(config_.weight_decay) : 0.0f);
  std::ranges::sort(tensors);
  std::vector<int64_t> begins;
  std::vector<float> decays;
  for (const auto& [begin, decay] : tensors) {
    begins.push_back(begin);
    decays.push_back(decay);
  }
  begins_ = at::tensor(begins, at::kLong).to(states_on_);
  decays_ = at::tensor(decays, at::kFloat).to(states_on_);
}

void FlatAdamW::make_states() {
  const int64_t count = stretches_.back().at + stretches_.back().count;
  const auto options = gradients_.sums.arena().options().device(states_on_);
  // On the host by the threads that will update them, so that each socket's memory holds its part of every stretch.
  const auto zeros = [&] {
    if (!states_on_.is_cpu()) return at::zeros({count}, options);
    const at::Tensor states = at::empty({count}, options);
    auto* values = states.mutable_data_ptr<float>();
    for (const Stretch& of : stretches_) {
      kernels::over_threads(of.count, kernels::kAdamwGrain, [&](int64_t from, int64_t to) {
        std::fill(values + of.at + from, values + of.at + to, 0.0f);
      });
    }
    return states;
  };
  first_ = zeros();
  second_ = zeros();
  if (config_.optimizer_state == OptimizerState::kBf16Sr || model_.dtype() == at::kFloat) return;
  master_ = zeros();
  for (const Stretch& of : stretches_)
    master_.narrow(0, of.at, of.count).copy_(model_.arena().narrow(0, of.place, of.count));
}

void FlatAdamW::find_pieces() {
  const model::TensorParallel tensor_parallel = sharding_.tensor_parallel();
  int64_t at = 0;
  for (const ArenaPart& part : sharding_.own()) {
    for (const auto& [name, tensor] : model_.named_parameters()) {
      const int64_t begins = tensor.storage_offset(), from = std::max(begins, part.begin),
                    to = std::min(begins + tensor.numel(), part.begin + part.count);
      if (from >= to) continue;
      const model::TensorPart of = model::tensor_part(name, tensor.sizes(), tensor_parallel);
      ElementRange elements{.begin = from - begins};
      if (of.dim == 1) elements = {from - begins, of.count, of.begin, of.whole[1]};
      else elements.begin += of.begin * tensor.stride(0);
      pieces_.push_back({name, of.whole, elements, from, at + from - part.begin, to - from,
                         sharding_.counts_elsewhere(name, tensor)});
    }
    at += part.count;
  }
}

void FlatAdamW::clear_gradients() {
  gradients_.empty = true;
  gradients_.ready = nullptr;
}

Optimizer::Applied FlatAdamW::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  if (gradients_.empty) gradients_.sums.arena().zero_();
  sharding_.await_weights();
  sharding_.sum_gradients();
  if (exchange_) exchange_->begin();
  const AdamwArgs args = arguments(learning_rate);
  if (model_.device().is_cuda()) decide_on_gpu(args);
  else decide_on_cpu(args);
  update(args);
  clear_gradients();
  return {TF_FIELD(norm).clone(), TF_FIELD(skipped).clone()};
}

AdamwArgs FlatAdamW::arguments(double learning_rate) const {
  return {.state = reinterpret_cast<AdamwState*>(decision_.mutable_data_ptr<float>()),
          .fp32 = config_.optimizer_state != OptimizerState::kBf16Sr,
          .begins = begins_.const_data_ptr<int64_t>(),
          .decays = decays_.const_data_ptr<float>(),
          .tensors = begins_.numel(),
          .seed = static_cast<uint64_t>(config_.seed),
          .clip = static_cast<float>(config_.clip_grad),
          .learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(config_.beta1),
          .beta2 = static_cast<float>(config_.beta2),
          .eps = static_cast<float>(config_.eps)};
}

void FlatAdamW::decide_on_cpu(const AdamwArgs& args) {
  const at::Tensor squares = at::zeros({}, at::kDouble);
  for (const Piece& piece : pieces_) {
    if (piece.replica) continue;
    const void* gradients = element(gradients_.sums.arena(), piece.place);
    squares.add_(kernels::gradient_squares(static_cast<const float*>(gradients), piece.count));
  }
  sharding_.sum(squares, "gradient norm");
  args.state->squares = squares.to(at::kFloat).item<float>();
  tritonforge::gpu::decide(*args.state, args);
}

void FlatAdamW::decide_on_gpu(const AdamwArgs& args) {
  const tritonforge::gpu::CudaApi& api = tritonforge::gpu::open_cuda_library();
  float* partials = partials_.mutable_data_ptr<float>();
  for (const ArenaPart& part : sharding_.counted()) {
    if (part.count > 0) {
      gpu::check_cuda(api.adamw_squares(partials, element(gradients_.sums.arena(), part.begin), part.count, args.fp32,
                                        gpu::kStream));
    }
    partials += kAdamwPartials;
  }
  const at::Tensor squares = TF_FIELD(squares);
  gpu::check_cuda(api.adamw_total(squares.mutable_data_ptr<float>(), partials_.const_data_ptr<float>(),
                                  partials_.numel(), gpu::kStream));
  sharding_.sum(squares, "gradient norm");
  gpu::check_cuda(api.adamw_decide(&args, gpu::kStream));
}

void FlatAdamW::update(AdamwArgs args) {
  // Where they are a GPU's, the CPU waits here for what decides: for all gradients.
  const at::Tensor decision = decision_.to(states_on_);
  args.state = reinterpret_cast<AdamwState*>(decision.mutable_data_ptr<float>());
  if (exchange_ && args.state->skipped != 0) return;
  const bool rounded = model_.dtype() != at::kFloat;
  for (size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& of = stretches_[i];
    void* weights = element(model_.arena(), of.place);
    args.gradients = element(gradients_.sums.arena(), of.place);
    args.weights = rounded ? static_cast<gpu::Bf16*>(weights) : nullptr;
    if (master_.defined()) args.master = static_cast<float*>(element(master_, of.at));
    else args.master = rounded ? nullptr : static_cast<float*>(weights);
    args.first = element(first_, of.at);
    args.second = element(second_, of.at);
    args.place = of.place;
    args.count = of.count;
    if (exchange_) {
      const gpu::HostExchange::Staged staged = exchange_->receive(i);
      args.gradients = staged.gradients;
      args.weights = staged.weights;
    }
    if (states_on_.is_cpu()) kernels::adamw(args);
    else if (of.count > 0) gpu::check_cuda(tritonforge::gpu::open_cuda_library().adamw(&args, gpu::kStream));
    if (exchange_) exchange_->send(i);
    if (of.last) sharding_.share_weights(of.part);  // while the next part is updated, and the next step begins
  }
}

StatePieces FlatAdamW::state() const {
  StatePieces state;
  const auto add = [&](const char* kind, const at::Tensor& of, const Piece& piece) {
    const at::Tensor values = of.narrow(0, piece.at, piece.count);
    const bool whole = piece.count == c10::multiply_integers(piece.shape);
    state.push_back({fmt::format("{}.{}", kind, piece.name), whole ? values.view(piece.shape) : values, piece.shape,
                     piece.elements, piece.replica});
  };
  for (const Piece& piece : pieces_) {
    if (master_.defined()) add("master", master_, piece);
    add("first", first_, piece);
    add("second", second_, piece);
    state.push_back({"step." + piece.name,
                     TF_FIELD(steps),
                     {},
                     {},
                     piece.replica});  // of each, as AdamW's: one for all of them here
  }
  return state;
}

void FlatAdamW::masters_changed() {
  const at::NoGradGuard no_grad;
  if (!master_.defined()) return;
  sharding_.await_weights();
  for (const Stretch& of : stretches_) {
    model_.arena().narrow(0, of.place, of.count).copy_(master_.narrow(0, of.at, of.count));
    if (of.last) sharding_.share_weights(of.part);
  }
}

}  // namespace tritonforge::train
