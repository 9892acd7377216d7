#include "train/pass.h"

#include "base/log.h"
#include "kernels/gpu/cuda_library.h"
#include "model/gpu_support.h"

namespace tritonforge::train {

std::string gpu_refusal(const model::Model& model, const TrainConfig& config) {
  if (config.autograd) return "autograd is asked for";
  if (std::string refusal = model::gpu_kernels_refusal(model); !refusal.empty()) return refusal;
  return tritonforge::gpu::no_hopper(model.device().index());
}

namespace {
bool has_cpu_pass(const model::Model& model, const TrainConfig& config) {
  return !config.autograd && model.device().is_cpu() && model.dtype() == at::kFloat;
}
}  // namespace

std::optional<Gradients> make_gradients(const model::Model& model, const TrainConfig& config) {
  const OptimizerState states = config.optimizer_state;
  if (const std::string refusal = gpu_refusal(model, config); !refusal.empty()) {
    const bool anywhere = states == OptimizerState::kFp32 ||
                          (states == OptimizerState::kCpu && model.device().is_cpu());
    if (!anywhere)
      fail(ErrorKind::kUsage, "optimizer_state {} needs own kernels: {}", name_of(config.optimizer_state), refusal);
    if (has_cpu_pass(model, config)) return Gradients{.sums = model::Model(model.config(), at::kFloat, at::kCPU)};
    if (config.parallel.world() > 1) {
      fail(ErrorKind::kUsage, "parallel degrees need own passes (bfloat16 on Hopper, float32 on the CPU): {}", refusal);
    }
    if (model.device().is_cuda()) log::warn("gradients come through autograd: {}", refusal);
    return std::nullopt;
  }
  return Gradients{.sums = model::Model(model.config(), states == OptimizerState::kBf16Sr ? at::kBFloat16 : at::kFloat,
                                        model.device())};
}

std::unique_ptr<Pass> make_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                const parallel::Groups& groups) {
  if (gpu_refusal(model, config).empty()) return make_gpu_pass(model, config, gradients, groups);
  if (has_cpu_pass(model, config)) return make_cpu_pass(model, config, gradients, groups);
  TF_CHECK(!groups.any(), "several ranks without a pass for them");
  return make_autograd_pass(model, config);
}

}  // namespace tritonforge::train
