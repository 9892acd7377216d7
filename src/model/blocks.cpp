#include "kernels/elementwise.h"
#include "model/model.h"

namespace tritonforge {
namespace {

// The row kernels record no gradient.
bool use_row_kernels(const at::Tensor& x) { return !at::GradMode::is_enabled() && x.is_cpu(); }

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (use_row_kernels(x)) return kernels::rms_norm_cpu(x, weight, eps);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return weight * (wide * scale).to(x.scalar_type());
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
  if (use_row_kernels(x)) return kernels::rope_cpu(x, cos, sin);
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

at::Tensor swiglu_mlp(const at::Tensor& x, const LayerWeights& weights) {
  if (at::GradMode::is_enabled()) {
    return at::linear(at::silu(at::linear(x, weights.gate_proj)) * at::linear(x, weights.up_proj), weights.down_proj);
  }
  const at::Tensor gate_up = at::linear(x, weights.gate_up_proj);
  const int64_t width = gate_up.size(1) / 2;
  const at::Tensor gate = at::silu(gate_up.narrow(1, 0, width));
  return at::linear(gate.mul_(gate_up.narrow(1, width, width)), weights.down_proj);
}

}  // namespace tritonforge
