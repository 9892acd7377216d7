#include <ATen/core/grad_mode.h>

#include "kernels/fused_ops.h"
#include "kernels/linear.h"
#include "model/model.h"

namespace tritonforge::model {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return kernels::rms_norm(x, weight, eps);
}

at::Tensor rope_inv_freq(int64_t head_dim, double theta, at::Device device) {
  const at::Tensor exponent = at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_dim);
  return at::pow(theta, exponent).reciprocal().to(device);
}

std::pair<at::Tensor, at::Tensor> rope_table(const at::Tensor& positions, const at::Tensor& inv_freq) {
  const at::Tensor angle = positions.to(inv_freq.options()).unsqueeze(1) * inv_freq.unsqueeze(0);
  return {angle.cos(), angle.sin()};
}

at::Tensor apply_rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return kernels::rope(x, cos, sin);
}

at::Tensor swiglu_mlp(const at::Tensor& x, const LayerWeights& weights) {
  if (at::GradMode::is_enabled()) {
    return at::linear(kernels::swiglu(at::linear(x, weights.gate_proj), at::linear(x, weights.up_proj)),
                      weights.down_proj);
  }
  const auto gate_up = product(x, weights.gate_up()).chunk(2, 1);
  return product(kernels::swiglu(gate_up[0], gate_up[1]), weights.down());
}

at::Tensor product(const at::Tensor& x, const Projection& p) {
  if (p.blocks != nullptr) return kernels::block_linear(x, *p.blocks, p.bias);
  if (p.panels != nullptr && !at::GradMode::is_enabled()) return kernels::linear(x, *p.panels, p.bias);
  const at::Tensor weight = p.scales.defined() ? kernels::widened({p.weight, p.scales}, x.scalar_type()) : p.weight;
  return at::linear(x, weight, p.bias.defined() ? std::optional<at::Tensor>(p.bias) : std::nullopt);
}

}  // namespace tritonforge::model
