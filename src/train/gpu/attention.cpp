#include "train/gpu/attention.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

namespace tritonforge::train::gpu {
namespace {

double scale_of(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(2))); }

at::Tensor used(const at::Tensor& rows, const Sequences& sequences) { return rows.narrow(0, 0, sequences.tokens); }

}  // namespace

Sequences sequences_of(const MicroBatch& batch, at::Device device) {
  std::vector<int32_t> starts(batch.cu_seqlens.begin(), batch.cu_seqlens.end());
  int64_t longest = 0;
  for (size_t i = 1; i < starts.size(); ++i) longest = std::max<int64_t>(longest, starts[i] - starts[i - 1]);
  return {at::tensor(starts, at::kInt).to(device), batch.tokens, longest};
}

Attended attend(const Sequences& s, const AttentionInputs& in) {
  const auto [out, statistics, random, unused, mask] = at::_flash_attention_forward(
      used(in.q, s), used(in.k, s), used(in.v, s), s.starts, s.starts, s.longest, s.longest, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*return_debug_mask=*/false, scale_of(in.q));
  return {out, statistics, random};
}

AttentionGradients attend_backward(const Sequences& s, const AttentionInputs& in, const Attended& attended,
                                   const at::Tensor& grad) {
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      used(grad, s), used(in.q, s), used(in.k, s), used(in.v, s), used(attended.out, s), attended.statistics, s.starts,
      s.starts, s.longest, s.longest, /*dropout_p=*/0.0, /*is_causal=*/true, attended.random, at::Tensor(),
      scale_of(in.q));
  return {dq.contiguous(), dk.contiguous(), dv.contiguous()};
}

}  // namespace tritonforge::train::gpu
