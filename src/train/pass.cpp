#include "train/pass.h"

#include "base/log.h"
#include "model/gpu_support.h"

namespace tritonforge::train {
namespace {

bool on_gpu_kernels(const model::Model& model, const TrainConfig& config) {
  return !config.autograd && model::gpu_kernels_refusal(model).empty();
}

}  // namespace

std::optional<Gradients> make_gradients(const model::Model& model, const TrainConfig& config) {
  const bool own = on_gpu_kernels(model, config), states = config.optimizer_state != OptimizerState::kFp32;
  if (!own && states) {
    fail(ErrorKind::kUsage, "optimizer_state {}: {}", name_of(config.optimizer_state),
         config.autograd ? "autograd has none" : model::gpu_kernels_refusal(model));
  }
  if (!own && model.device().is_cuda() && !config.autograd)
    log::warn("gradients through autograd: {}", model::gpu_kernels_refusal(model));
  if (!own) return std::nullopt;
  return Gradients{.sums = model::Model(model.config(), states ? at::kBFloat16 : at::kFloat, model.device())};
}

std::unique_ptr<Pass> make_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients) {
  if (on_gpu_kernels(model, config)) return make_gpu_pass(model, config, gradients);
  const bool cpu = !config.autograd && model.device().is_cpu() && model.dtype() == at::kFloat;
  return cpu ? make_cpu_pass(model, config) : make_autograd_pass(model, config);
}

}  // namespace tritonforge::train
