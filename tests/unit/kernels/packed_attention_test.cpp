#include "kernels/packed_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/paged_attention.h"

namespace tritonforge::kernels {
namespace {

struct Shape {
  int64_t tokens, group, head_dim;
};

struct Heads {
  at::Tensor q, k, v, out, max, inverse;
  AttentionHeads args;
  explicit Heads(const Shape& s)
      : q(at::randn({s.tokens, s.group, s.head_dim})),
        k(at::randn({s.tokens, s.head_dim})),
        v(at::randn({s.tokens, s.head_dim})),
        out(at::empty_like(q)),
        max(at::empty({s.group, s.tokens})),
        inverse(at::empty_like(max)),
        args{.q = q.data_ptr<float>(),
             .k = k.data_ptr<float>(),
             .v = v.data_ptr<float>(),
             .q_stride = s.group * s.head_dim,
             .k_stride = s.head_dim,
             .v_stride = s.head_dim,
             .tokens = s.tokens,
             .keys = s.tokens,
             .causal = true,
             .group = s.group,
             .head_dim = s.head_dim,
             .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
             .out = out.data_ptr<float>(),
             .out_stride = s.group * s.head_dim,
             .max = max.data_ptr<float>(),
             .inverse = inverse.data_ptr<float>(),
             .statistic_stride = s.tokens} {}
};

class PackedAttention : public testing::TestWithParam<Shape> {};

// The sampler reads keys and values from its cache, a token at a time or a prompt at once: the same bits.
TEST_P(PackedAttention, HasTheBitsOfPagedAttention) {
  const Shape s = GetParam();
  at::manual_seed(1);
  Heads heads(s);
  AttentionScratch scratch;
  attend(heads.args, scratch);
  const int64_t blocks = s.tokens / 16 + 1;
  const PagedLayer layer = make_paged_layer(blocks, 1, s.head_dim, at::kFloat);
  const at::Tensor positions = at::arange(s.tokens, at::kLong);
  paged_write(layer, heads.k.unsqueeze(1), heads.v.unsqueeze(1), positions);
  const at::Tensor found = paged_attention(layer, heads.q, at::arange(blocks, at::kInt).unsqueeze(0),
                                           at::zeros({s.tokens}, at::kLong), positions, heads.args.scale);
  EXPECT_TRUE(at::equal(heads.out, found)) << (heads.out - found).abs().max().item<float>();
}

// Against autograd in fp64.
TEST_P(PackedAttention, GradientsAreThoseOfTheDefinition) {
  const Shape s = GetParam();
  at::manual_seed(2);
  Heads heads(s);
  AttentionScratch scratch;
  attend(heads.args, scratch);
  const at::Tensor grad = at::randn_like(heads.q);
  at::Tensor dq = at::empty_like(heads.q), dk = at::empty_like(heads.k), dv = at::empty_like(heads.v);
  attend_backward(heads.args,
                  {grad.data_ptr<float>(), dq.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>()}, scratch);

  const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
  const at::Tensor q = leaf(heads.q), k = leaf(heads.k), v = leaf(heads.v);
  const at::Tensor scores = at::einsum("thd,sd->hts", {q, k}) * static_cast<double>(heads.args.scale);
  const at::Tensor hidden = at::ones({s.tokens, s.tokens}, at::kBool).triu(1);
  const at::Tensor out = at::einsum("hts,sd->thd", {at::softmax(scores.masked_fill(hidden, -INFINITY), -1), v});
  EXPECT_LT((heads.out - out).abs().max().item<double>(), 5e-6);
  (out * grad.to(at::kDouble)).sum().backward();
  EXPECT_LT((dq - q.grad()).abs().max().item<double>(), 2e-5);
  EXPECT_LT((dk - k.grad()).abs().max().item<double>(), 5e-5);
  EXPECT_LT((dv - v.grad()).abs().max().item<double>(), 5e-5);
}

// Keys that come in parts, of which the first is causal: merged as one, and the gradients of one.
TEST_P(PackedAttention, OfPartsOfItsKeysIsThatOfAll) {
  const Shape s = GetParam();
  at::manual_seed(3);
  Heads heads(s);
  AttentionScratch scratch;
  std::vector<std::pair<at::Tensor, at::Tensor>> others;  // keys and values that all queries see
  for (const int64_t keys : {1, 17, 100})
    others.emplace_back(at::randn({keys, s.head_dim}), at::randn({keys, s.head_dim}) + 1);
  const auto over = [&](const AttentionHeads& whole, const std::pair<at::Tensor, at::Tensor>& part) {
    AttentionHeads args = whole;
    args.k = part.first.data_ptr<float>();
    args.v = part.second.data_ptr<float>();
    args.keys = part.first.size(0);
    args.causal = false;
    return args;
  };
  attend(heads.args, scratch);
  for (const auto& other : others) {
    const at::Tensor out = at::empty_like(heads.out), max = at::empty_like(heads.max), inverse = at::empty_like(max);
    AttentionHeads part = over(heads.args, other);
    part.out = out.data_ptr<float>();
    part.max = max.data_ptr<float>();
    part.inverse = inverse.data_ptr<float>();
    attend(part, scratch);
    merge(heads.args, part);
  }
  const at::Tensor grad = at::randn_like(heads.q);
  at::Tensor dq = at::empty_like(heads.q), dk = at::empty_like(heads.k), dv = at::empty_like(heads.v);
  attend_backward(heads.args,
                  {grad.data_ptr<float>(), dq.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>()}, scratch);
  std::vector<at::Tensor> dks{dk}, dvs{dv};
  for (const auto& other : others) {
    dks.push_back(at::empty_like(other.first));
    dvs.push_back(at::empty_like(other.second));
    attend_backward(over(heads.args, other),
                    {grad.data_ptr<float>(), dq.data_ptr<float>(), dks.back().data_ptr<float>(),
                     dvs.back().data_ptr<float>(), /*add_q=*/true},
                    scratch);
  }

  std::vector<at::Tensor> all_k{heads.k}, all_v{heads.v};
  for (const auto& [k, v] : others) {
    all_k.push_back(k);
    all_v.push_back(v);
  }
  const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
  const at::Tensor q = leaf(heads.q), k = leaf(at::cat(all_k)), v = leaf(at::cat(all_v));
  const at::Tensor scores = at::einsum("thd,sd->hts", {q, k}) * static_cast<double>(heads.args.scale);
  const at::Tensor hidden = at::ones({s.tokens, k.size(0)}, at::kBool).triu(1);
  hidden.narrow(1, s.tokens, k.size(0) - s.tokens).fill_(false);
  const at::Tensor out = at::einsum("hts,sd->thd", {at::softmax(scores.masked_fill(hidden, -INFINITY), -1), v});
  EXPECT_LT((heads.out - out).abs().max().item<double>(), 5e-6);
  (out * grad.to(at::kDouble)).sum().backward();
  EXPECT_LT((dq - q.grad()).abs().max().item<double>(), 2e-5);
  EXPECT_LT((at::cat(dks) - k.grad()).abs().max().item<double>(), 5e-5);
  EXPECT_LT((at::cat(dvs) - v.grad()).abs().max().item<double>(), 5e-5);
}

// A sequence in pieces that lie apart, each after those before it.
TEST_P(PackedAttention, KeysThatLieApartChangeNoBit) {
  const Shape s = GetParam();
  at::manual_seed(3);
  Heads whole(s);
  AttentionScratch scratch;
  attend(whole.args, scratch);
  const at::Tensor grad = at::randn_like(whole.q), dq = at::empty_like(whole.q), dk = at::empty_like(whole.k),
                   dv = at::empty_like(whole.v);
  const auto data = [](const at::Tensor& x) { return x.data_ptr<float>(); };
  attend_backward(whole.args, {data(grad), data(dq), data(dk), data(dv)}, scratch);

  const at::Tensor sum_k = at::zeros_like(dk), sum_v = at::zeros_like(dv);
  std::vector<at::Tensor> kept;
  std::vector<KeyRun> before;
  for (int64_t begin = 0; begin < s.tokens;) {
    const int64_t tokens = std::min<int64_t>(s.tokens - begin, 1 + (s.tokens + 1) / 3), end = begin + tokens;
    const auto piece = [&](const at::Tensor& x) { return x.slice(0, begin, end).clone(); };
    Heads heads({tokens, s.group, s.head_dim});
    heads.q.copy_(piece(whole.q));
    heads.k.copy_(piece(whole.k));
    heads.v.copy_(piece(whole.v));
    heads.args.before = before;
    attend(heads.args, scratch);
    EXPECT_TRUE(at::equal(heads.out, piece(whole.out))) << "from " << begin;
    const at::Tensor own_q = at::empty_like(heads.q), own_k = at::empty_like(heads.k), own_v = at::empty_like(heads.k),
                     of_before = at::empty({begin, 2 * s.head_dim + 3}), own_grad = piece(grad);
    attend_backward(heads.args,
                    {.out = data(own_grad),
                     .q = data(own_q),
                     .k = data(own_k),
                     .v = data(own_v),
                     .before_k = data(of_before),
                     .before_v = data(of_before) + s.head_dim,
                     .before_stride = of_before.size(1)},
                    scratch);
    EXPECT_TRUE(at::equal(own_q, piece(dq))) << "from " << begin;
    sum_k.slice(0, begin, end).add_(own_k);
    sum_v.slice(0, begin, end).add_(own_v);
    sum_k.slice(0, 0, begin).add_(of_before.narrow(1, 0, s.head_dim));
    sum_v.slice(0, 0, begin).add_(of_before.narrow(1, s.head_dim, s.head_dim));
    kept.insert(kept.end(), {heads.k, heads.v});
    before.push_back({data(heads.k), data(heads.v), tokens});
    begin = end;
  }
  // Sums of another order.
  EXPECT_LT((sum_k - dk).abs().max().item<float>(), 5e-5f);
  EXPECT_LT((sum_v - dv).abs().max().item<float>(), 5e-5f);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedAttention,
                         testing::Values(Shape{1, 1, 16}, Shape{5, 2, 32}, Shape{16, 3, 64}, Shape{47, 4, 64},
                                         Shape{48, 1, 64}, Shape{49, 6, 32}, Shape{150, 3, 64}, Shape{600, 7, 64},
                                         Shape{33, 8, 128}));

}  // namespace
}  // namespace tritonforge::kernels
