#include "gpu/train_fixture.h"

#include "base/rng.h"

namespace tritonforge::train {

void fill(const model::Model& to, const model::Model& from) {
  const at::NoGradGuard no_grad;
  const auto a = to.named_parameters(), b = from.named_parameters();
  for (size_t i = 0; i < a.size(); ++i) a[i].second.detach().copy_(b[i].second);
}

// Random weights, of vectors too.
model::Model made(const model::ModelConfig& config, at::ScalarType dtype, at::Device device) {
  model::Model first(config, at::kFloat, at::kCPU);
  first.init_random(3, 0.05);
  for (auto& [name, tensor] : first.named_parameters()) {
    if (tensor.dim() == 1) tensor.add_(at::linspace(-0.2, 0.2, tensor.numel()));
  }
  model::Model rounded(config, at::kBFloat16, at::kCPU), model(config, dtype, device);
  fill(rounded, first);
  fill(model, rounded);
  return model;
}

std::vector<TrainSequence> sequences(size_t count, double temperature, size_t least, size_t most) {
  Rng rng(5);
  std::vector<TrainSequence> all(count);
  for (TrainSequence& s : all) {
    const size_t length = least + rng.below(most - least);
    for (size_t t = 0; t < length; ++t) {
      const bool target = t + 1 == length || (t > 4 && rng.below(3) > 0);
      s.tokens.push_back(static_cast<int64_t>(rng.below(rng.below(2) == 0 ? 1000 : 10)));
      s.loss_mask.push_back(target);
      s.old_log_probs.push_back(-1);
      s.advantages.push_back(target ? 1 : 0);
      s.weight_versions.push_back(target ? 0 : -1);
    }
    s.temperature = temperature;
  }
  return all;
}

}  // namespace tritonforge::train
