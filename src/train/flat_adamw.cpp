#include "train/flat_adamw.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

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
    : model_(model), gradients_(gradients), config_(config), sharding_(model, gradients, groups) {
  const at::NoGradGuard no_grad;
  gradients.weights_needed = [this](size_t segment) { sharding_.await_weights(segment); };
  find_pieces();
  int64_t count = 0;
  for (const ArenaPart& part : sharding_.own()) count += part.count;
  const auto options = gradients.sums.arena().options();
  gradients.sums.arena().zero_();  // between the tensors, too
  first_ = at::zeros({count}, options);
  second_ = at::zeros({count}, options);
  decision_ = at::zeros({kFloats}, options.dtype(at::kFloat));
  if (config.optimizer_state == OptimizerState::kFp32 && model.dtype() != at::kFloat) {
    master_ = at::empty({count}, options.dtype(at::kFloat));
    int64_t at = 0;
    for (const ArenaPart& part : sharding_.own()) {
      master_.narrow(0, at, part.count).copy_(model.arena().narrow(0, part.begin, part.count));
      at += part.count;
    }
  }
  if (!model.device().is_cuda()) return;
  partials_ = at::zeros({std::ssize(sharding_.counted()) * kAdamwPartials}, options.dtype(at::kFloat));
  std::vector<std::pair<int64_t, float>> tensors;
  for (const auto& [name, tensor] : model.named_parameters())
    tensors.emplace_back(tensor.storage_offset(), tensor.dim() > 1 ? static_cast<float>(config.weight_decay) : 0.0f);
  std::ranges::sort(tensors);
  std::vector<int64_t> begins;
  std::vector<float> decays;
  for (const auto& [begin, decay] : tensors) {
    begins.push_back(begin);
    decays.push_back(decay);
  }
  begins_ = at::tensor(begins, at::kLong).to(model.device());
  decays_ = at::tensor(decays, at::kFloat).to(model.device());
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
      pieces_.push_back({name, of.whole, elements, from, at + from - part.begin, to - from, tensor.dim() > 1,
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
  if (model_.device().is_cuda()) update_on_gpu(learning_rate);
  else update_on_cpu(learning_rate);
  clear_gradients();
  return {TF_FIELD(norm).clone(), TF_FIELD(skipped).clone()};
}

void FlatAdamW::update_on_cpu(double learning_rate) {
  struct Lists {
    std::vector<at::Tensor> weights, gradients, first, second, steps;
  };
  std::array<Lists, 2> lists;  // without and with decay
  const at::Tensor steps = TF_FIELD(steps);
  std::vector<at::Tensor> all;
  for (const Piece& piece : pieces_) {
    Lists& to = lists[piece.decays ? 1 : 0];
    to.weights.push_back(model_.arena().narrow(0, piece.place, piece.count));
    to.gradients.push_back(gradients_.sums.arena().narrow(0, piece.place, piece.count));
    to.first.push_back(first_.narrow(0, piece.at, piece.count));
    to.second.push_back(second_.narrow(0, piece.at, piece.count));
    to.steps.push_back(steps);
    if (!piece.replica) all.push_back(to.gradients.back());
  }
  at::Tensor squares = TF_FIELD(squares);
  squares.copy_(all.empty() ? at::zeros({}) : at::stack(at::_foreach_norm(all, 2)).square().sum());
  sharding_.sum(squares, "gradient norm");
  const at::Tensor norm = TF_FIELD(norm).copy_(squares.sqrt()), skipped = TF_FIELD(skipped);
  skipped.copy_(at::isfinite(norm).logical_not());
  steps.add_(1 - skipped);
  // The fused kernel divides gradients by grad_scale and changes nothing where found_inf is 1.
  const at::Tensor scale = config_.clip_grad > 0 ? (norm / config_.clip_grad).clamp_min(1.0) : at::ones_like(norm);
  for (size_t decays = 0; decays < lists.size(); ++decays) {
    Lists& of = lists[decays];
    if (of.weights.empty()) continue;
    at::_fused_adamw_(of.weights, of.gradients, of.first, of.second, {}, of.steps, learning_rate, config_.beta1,
                      config_.beta2, decays == 1 ? config_.weight_decay : 0.0, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, scale, skipped);
  }
  for (size_t i = 0; i < sharding_.own().size(); ++i) sharding_.share_weights(i);
}

void FlatAdamW::update_on_gpu(double learning_rate) {
  const tritonforge::gpu::CudaApi& api = tritonforge::gpu::open_cuda_library();
  AdamwArgs args{.state = reinterpret_cast<AdamwState*>(decision_.mutable_data_ptr<float>()),
                 .fp32 = config_.optimizer_state == OptimizerState::kFp32,
                 .begins = begins_.const_data_ptr<int64_t>(),
                 .decays = decays_.const_data_ptr<float>(),
                 .tensors = begins_.numel(),
                 .seed = static_cast<uint64_t>(config_.seed),
                 .clip = static_cast<float>(config_.clip_grad),
                 .learning_rate = static_cast<float>(learning_rate),
                 .beta1 = static_cast<float>(config_.beta1),
                 .beta2 = static_cast<float>(config_.beta2),
                 .eps = static_cast<float>(config_.eps)};
  const std::vector<ArenaPart>& own = sharding_.own();
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
  int64_t at = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    const ArenaPart& part = own[i];
    args.gradients = element(gradients_.sums.arena(), part.begin);
    args.weights = static_cast<gpu::Bf16*>(element(model_.arena(), part.begin));
    args.master = master_.defined() ? static_cast<float*>(element(master_, at)) : nullptr;
    args.first = element(first_, at);
    args.second = element(second_, at);
    args.place = part.begin;
    args.count = part.count;
    if (part.count > 0) gpu::check_cuda(api.adamw(&args, gpu::kStream));
    sharding_.share_weights(i);  // while the next part is updated, and the next step begins
    at += part.count;
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
  int64_t at = 0;
  for (size_t i = 0; i < sharding_.own().size(); ++i) {
    const ArenaPart& part = sharding_.own()[i];
    model_.arena().narrow(0, part.begin, part.count).copy_(master_.narrow(0, at, part.count));
    sharding_.share_weights(i);
    at += part.count;
  }
}

}  // namespace tritonforge::train
