#include "kernels/fp8_matrix.h"

#include <limits>

#include "base/error.h"

namespace tritonforge::kernels {
namespace {

bool in_lane_order(const at::Tensor& kept) { return kept.is_cuda() && kept.size(1) % kLaneGroup == 0; }

at::Tensor permuted(const at::Tensor& values, at::IntArrayRef from, at::IntArrayRef order) {
  TF_CHECK(values.dim() == 2 && values.size(1) % kLaneGroup == 0, "rows of {} in groups of {}", values.size(-1),
           kLaneGroup);
  std::vector<int64_t> sizes{values.size(0), values.size(1) / kLaneGroup};
  sizes.insert(sizes.end(), from.begin(), from.end());
  const at::Tensor bytes = values.contiguous().view(at::kByte).view(sizes).permute(order);
  return bytes.contiguous().view(values.sizes()).view(values.scalar_type());
}

}  // namespace

// As fp8::scale_of, factor_of and inverse_of, of all rows at once.
Fp8Matrix to_fp8(const at::Tensor& w) {
  TF_CHECK(w.dim() == 2 && (w.scalar_type() == at::kFloat || w.scalar_type() == at::kBFloat16), "a matrix of {} in FP8",
           c10::toString(w.scalar_type()));
  const at::Tensor bits = w.abs().amax(1).to(at::kFloat).view(at::kInt);
  const at::Tensor exponent = bits.bitwise_right_shift(23),
                   above = bits.bitwise_and(0x7FFFFF).gt(0x600000).to(at::kInt);
  const at::Tensor scale = (exponent + above - 8).clamp_min(1);
  const auto power_of_two = [](const at::Tensor& biased) { return biased.bitwise_left_shift(23).view(at::kFloat); };
  const at::Tensor finite = exponent.lt(255);
  const at::Tensor inverse = power_of_two(254 - scale).unsqueeze(1).to(w.scalar_type());
  return {at::where(finite.unsqueeze(1), w * inverse, 0).to(at::kFloat8_e4m3fn),
          at::where(finite, power_of_two(scale), std::numeric_limits<float>::quiet_NaN())};
}

void keep(const at::Tensor& kept, const at::Tensor& values) {
  at::Tensor(kept).copy_(in_lane_order(kept) ? to_lane_order(values) : values);
}

at::Tensor widened(const Fp8Matrix& kept, at::ScalarType dtype) {
  const at::Tensor values = in_lane_order(kept.values) ? from_lane_order(kept.values) : kept.values;
  return values.to(dtype).mul_(kept.scales.to(dtype).unsqueeze(1));
}

at::Tensor to_lane_order(const at::Tensor& values) {
  return permuted(values, {4, 2, 4, 2}, {0, 1, 4, 2, 5, 3});  // s h t i -> t s i h
}

at::Tensor from_lane_order(const at::Tensor& values) {
  return permuted(values, {4, 4, 2, 2}, {0, 1, 3, 5, 2, 4});  // t s i h -> s h t i
}

}  // namespace tritonforge::kernels
