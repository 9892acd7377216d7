#include "train/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "train/flat_adamw.h"

namespace tritonforge::train {

std::unique_ptr<Optimizer> make_optimizer(const model::Model& model, Gradients* gradients,
                                          const parallel::Groups& groups, const TrainConfig& config) {
  if (gradients != nullptr) return std::make_unique<FlatAdamW>(model, *gradients, groups, config);
  TF_CHECK(!groups.any(), "several ranks without an arena of gradients");
  return std::make_unique<AdamW>(model.named_parameters(), config);
}

AdamW::AdamW(const NamedTensors& parameters, const TrainConfig& config)
    : config_(config), groups_{{config.weight_decay}, {0.0}} {
  TF_CHECK(!parameters.empty(), "no parameters");
  separate_masters_ = parameters.front().second.scalar_type() != at::kFloat;
  for (const auto& [name, tensor] : parameters) {
    TF_CHECK((tensor.scalar_type() != at::kFloat) == separate_masters_, "{}: parameters of mixed dtypes", name);
    at::Tensor parameter = tensor;
    parameter.requires_grad_(true);
    const at::Tensor plain = parameter.detach();  // shares storage, outside autograd
    Group& group = groups_[tensor.dim() > 1 ? 0 : 1];
    const auto fp32 = plain.options().dtype(at::kFloat);
    group.names.push_back(name);
    group.parameters.push_back(parameter);
    group.masters.push_back(separate_masters_ ? plain.to(at::kFloat) : plain);
    group.gradients.push_back(separate_masters_ ? at::zeros(plain.sizes(), fp32) : at::Tensor());
    group.first.push_back(at::zeros(plain.sizes(), fp32));
    group.second.push_back(at::zeros(plain.sizes(), fp32));
    group.steps.push_back(at::zeros({}, fp32));
  }
  std::erase_if(groups_, [](const Group& group) { return group.names.empty(); });
}

void AdamW::accumulate_gradients() {
  if (!separate_masters_) return;
  for (Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      at::Tensor& gradient = group.parameters[i].mutable_grad();
      if (!gradient.defined()) continue;
      group.gradients[i].add_(gradient);
      gradient.reset();
    }
  }
}

void AdamW::clear_gradients() {
  for (Group& group : groups_) {
    if (separate_masters_) at::_foreach_zero_(group.gradients);
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

AdamW::Applied AdamW::step(double learning_rate) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> all, squares;
  for (Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      if (!separate_masters_) {
        group.gradients[i] = group.parameters[i].grad().defined() ? group.parameters[i].grad()
                                                                  : at::zeros_like(group.masters[i]);
      }
      all.push_back(group.gradients[i]);
    }
  }
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(all, 2)));
  const at::Tensor skipped = at::isfinite(norm).logical_not().to(at::kFloat);
  // The fused kernels divide gradients by grad_scale and change nothing where found_inf is 1.
  const at::Tensor scale = config_.clip_grad > 0 ? (norm / config_.clip_grad).clamp_min(1.0) : at::ones_like(norm);
  const at::Tensor advance = 1 - skipped;
  for (Group& group : groups_) {
    at::_foreach_add_(group.steps, advance);
    at::_fused_adamw_(group.masters, group.gradients, group.first, group.second, {}, group.steps, learning_rate,
                      config_.beta1, config_.beta2, group.decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false,
                      scale, skipped);
  }
  clear_gradients();
  if (separate_masters_) masters_changed();
  return {norm, skipped};
}

void AdamW::masters_changed() {
  at::NoGradGuard no_grad;
  if (!separate_masters_) return;
  for (Group& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) group.parameters[i].detach().copy_(group.masters[i]);
  }
}

StatePieces AdamW::state() const {
  StatePieces state;
  const auto add = [&](const char* kind, const std::string& name, const at::Tensor& values) {
    state.push_back({fmt::format("{}.{}", kind, name), values, values.sizes().vec(), {}});
  };
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.names.size(); ++i) {
      if (separate_masters_) add("master", group.names[i], group.masters[i]);
      add("first", group.names[i], group.first[i]);
      add("second", group.names[i], group.second[i]);
      add("step", group.names[i], group.steps[i]);
    }
  }
  return state;
}

}  // namespace tritonforge::train
