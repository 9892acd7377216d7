#include <algorithm>

#include "model/model.h"

namespace tritonforge::model {
namespace {

// [len, heads, d] -> [1, heads, len, d], with key and value heads repeated where q has more of them.
at::Tensor batched(const at::Tensor& x, int64_t repeats) {
  at::Tensor y = x.transpose(0, 1).unsqueeze(0);
  if (repeats == 1) return y;
  const auto sizes = y.sizes();
  return y.unsqueeze(2)
      .expand({1, sizes[1], repeats, sizes[2], sizes[3]})
      .reshape({1, sizes[1] * repeats, sizes[2], sizes[3]});
}

at::Tensor attend_one(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t repeats = q.size(1) / k.size(1);
  return at::scaled_dot_product_attention(batched(q, 1), batched(k, repeats), batched(v, repeats), {}, 0.0,
                                          /*is_causal=*/true)
      .squeeze(0)
      .transpose(0, 1);
}

at::Tensor attend_per_sequence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::vector<int64_t>& bounds) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (bounds[i + 1] > bounds[i]) lengths.push_back(bounds[i + 1] - bounds[i]);
  }
  if (lengths.size() <= 1) return attend_one(q, k, v);
  // split, not narrow: its backward pass is one concatenation, where each narrow would fill and add a whole tensor.
  const auto qs = q.split_with_sizes(lengths), ks = k.split_with_sizes(lengths), vs = v.split_with_sizes(lengths);
  std::vector<at::Tensor> outputs;
  outputs.reserve(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) outputs.push_back(attend_one(qs[i], ks[i], vs[i]));
  return at::cat(outputs, 0);
}

}  // namespace

AttentionFn packed_attention(std::vector<int64_t> cu_seqlens) {
  TF_CHECK(cu_seqlens.size() >= 2 && cu_seqlens.front() == 0, "cu_seqlens must be [0, len0, len0 + len1, ...]");
  TF_CHECK(std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()), "cu_seqlens must not decrease");
  int64_t longest = 0;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) longest = std::max(longest, cu_seqlens[i + 1] - cu_seqlens[i]);
  // One copy to the device for all layers, made at the first of them.
  auto on_device = std::make_shared<at::Tensor>();
  return [bounds = std::move(cu_seqlens), longest, on_device](int64_t, const at::Tensor& q, const at::Tensor& k,
                                                              const at::Tensor& v) {
    TF_CHECK(bounds.back() == q.size(0), "cu_seqlens end at {}, but there are {} tokens", bounds.back(), q.size(0));
    const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
    const int64_t head_dim = q.size(2);
    if (!q.is_cuda() || !half || head_dim % 8 != 0 || head_dim > 256) return attend_per_sequence(q, k, v, bounds);
    if (!on_device->defined()) *on_device = at::tensor(bounds, at::kInt).to(q.device());
    return std::get<0>(at::_flash_attention_forward(q, k, v, *on_device, *on_device, longest, longest,
                                                    /*dropout_p=*/0.0,
                                                    /*is_causal=*/true, /*return_debug_mask=*/false));
  };
}

}  // namespace tritonforge::model
