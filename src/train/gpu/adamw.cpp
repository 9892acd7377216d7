#include "train/gpu/adamw.h"

#include <algorithm>

#include "train/gpu/products.h"

namespace tritonforge::train::gpu {
namespace {

using tritonforge::gpu::AdamwState;

constexpr int64_t kFloats = sizeof(AdamwState) / sizeof(float);
at::Tensor field(const at::Tensor& decision, size_t offset) {
  return decision.select(0, static_cast<int64_t>(offset / sizeof(float)));
}

}  // namespace

FlatAdamW::FlatAdamW(const model::Model& model, Gradients& gradients, const TrainConfig& config)
    : model_(model),
      gradients_(gradients),
      config_(config),
      first_(model.config(), gradients.sums.dtype(), model.device()),
      second_(model.config(), gradients.sums.dtype(), model.device()) {
  const at::NoGradGuard no_grad;
  if (config.optimizer_state == OptimizerState::kFp32) {
    master_.emplace(model.config(), at::kFloat, model.device());
    master_->arena().copy_(model.arena());
  }
  gradients.sums.arena().zero_();  // between the tensors, too
  first_.arena().zero_();
  second_.arena().zero_();
  const auto fp32 = at::TensorOptions().dtype(at::kFloat).device(model.device());
  decision_ = at::zeros({kFloats}, fp32);
  partials_ = at::empty({tritonforge::gpu::kAdamwPartials}, fp32);
  std::vector<std::pair<int64_t, float>> tensors;
  for (const auto& [name, tensor] : model.named_parameters()) {
    tensors.emplace_back(tensor.storage_offset(), tensor.dim() > 1 ? static_cast<float>(config.weight_decay) : 0.0f);
  }
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

Optimizer::Applied FlatAdamW::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  if (gradients_.empty) gradients_.sums.arena().zero_();
  const tritonforge::gpu::AdamwArgs args{.state = reinterpret_cast<AdamwState*>(decision_.mutable_data_ptr<float>()),
                                         .partials = partials_.mutable_data_ptr<float>(),
                                         .gradients = gradients_.sums.arena().const_data_ptr(),
                                         .weights = bits(model_.arena()),
                                         .master = master_ ? master_->arena().mutable_data_ptr<float>() : nullptr,
                                         .first = first_.arena().mutable_data_ptr(),
                                         .second = second_.arena().mutable_data_ptr(),
                                         .fp32 = master_.has_value(),
                                         .begins = begins_.const_data_ptr<int64_t>(),
                                         .decays = decays_.const_data_ptr<float>(),
                                         .tensors = begins_.numel(),
                                         .count = model_.arena().numel(),
                                         .seed = static_cast<uint64_t>(config_.seed),
                                         .clip = static_cast<float>(config_.clip_grad),
                                         .learning_rate = static_cast<float>(learning_rate),
                                         .beta1 = static_cast<float>(config_.beta1),
                                         .beta2 = static_cast<float>(config_.beta2),
                                         .eps = static_cast<float>(config_.eps)};
  check_cuda(tritonforge::gpu::open_cuda_library().adamw(&args, kStream));
  clear_gradients();
  return {field(decision_, offsetof(AdamwState, norm)).clone(),
          field(decision_, offsetof(AdamwState, skipped)).clone()};
}

NamedTensors FlatAdamW::state() const {
  NamedTensors state;
  const auto first = first_.named_parameters(), second = second_.named_parameters();
  const auto masters = master_ ? master_->named_parameters() : NamedTensors{};
  const at::Tensor steps = field(decision_, offsetof(AdamwState, steps));
  for (size_t i = 0; i < first.size(); ++i) {
    const std::string& name = first[i].first;
    if (master_) state.emplace_back("master." + name, masters[i].second);
    state.emplace_back("first." + name, first[i].second);
    state.emplace_back("second." + name, second[i].second);
    state.emplace_back("step." + name, steps);  // of each, as AdamW's: one for all of them here
  }
  return state;
}

void FlatAdamW::masters_changed() {
  const at::NoGradGuard no_grad;
  if (master_) model_.arena().copy_(master_->arena());
}

}  // namespace tritonforge::train::gpu
