// The trainer's kernels against autograd in float64 over the same bits.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "gpu/fixture.h"
#include "model/model.h"

namespace tritonforge::gpu {
namespace {

at::Tensor leaf(const at::Tensor& from) { return from.to(at::kDouble).requires_grad_(true); }

class TrainRows : public GpuTest {
 protected:
  Buffer partials(int64_t width) const { return Buffer(api().row_sums_bytes(width)); }
  GradientOut out(const Buffer& to, bool fp32, bool accumulate) const { return {to.as<void>(), fp32, accumulate}; }
  // What a gradient is added to, and where it comes back.
  struct Sum {
    at::Tensor before;
    Buffer memory;
  };
  Sum sum_of(at::IntArrayRef shape, bool fp32) const {
    const at::Tensor before = at::randn(shape).to(fp32 ? at::kFloat : at::kBFloat16);
    return {before, upload(before)};
  }
};

TEST_F(TrainRows, RmsNormBackward) {
  constexpr float kEps = 1e-6f;
  for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 64}, {7, 896}, {1500, 4096}, {40, 5120}, {9, 16384}}) {
    for (const bool fp32 : {true, false}) {
      const at::Tensor x = random_bf16({rows, d}), w = random_bf16({d}), dy = random_bf16({rows, d}),
                       more = random_bf16({rows, d});
      const at::Tensor wide = leaf(x), weight = leaf(w);
      const at::Tensor normed = wide / (wide.square().mean(-1, true) + kEps).sqrt() * weight;
      normed.backward(dy.to(at::kDouble));

      const Sum sum = sum_of({d}, fp32);
      const Buffer gx = upload(x), gw = upload(w), gdy = upload(dy), gmore = upload(more), scratch = partials(d);
      const RmsNormBackwardArgs args{.dx = gmore.as(),
                                     .normed = gdy.as(),
                                     .x = gx.as(),
                                     .w = gw.as(),
                                     .dy = gdy.as(),
                                     .residual = gmore.as(),
                                     .partials = scratch.as<float>(),
                                     .dw = out(sum.memory, fp32, true),
                                     .rows = rows,
                                     .d = d,
                                     .eps = kEps};
      check_cuda(api().rms_norm_backward(&args, stream));
      const auto type = fp32 ? at::kFloat : at::kBFloat16;
      EXPECT_LT(worst_row_error(download(gmore, {rows, d}, at::kBFloat16), wide.grad() + more.to(at::kDouble)), 4e-3);
      EXPECT_LT(worst_row_error(download(gdy, {rows, d}, at::kBFloat16), normed.detach()), 5e-3);
      EXPECT_LT(worst_row_error(download(sum.memory, {d}, type), weight.grad() + sum.before.to(at::kDouble)),
                fp32 ? 1e-5 : 4e-3)
          << rows << " x " << d;
    }
  }
}

TEST_F(TrainRows, SwigluBackward) {
  const int64_t rows = 130, width = 1544;
  const at::Tensor gate_up = random_bf16({rows, 2 * width}, 2), d_act = random_bf16({rows, width});
  const at::Tensor wide = leaf(gate_up);
  const at::Tensor act = at::silu(wide.narrow(1, 0, width)) * wide.narrow(1, width, width);
  act.backward(d_act.to(at::kDouble));
  const Buffer g = upload(gate_up), d = upload(d_act);
  const SwigluBackwardArgs args{.gate_up = g.as(), .d_act = d.as(), .rows = rows, .intermediate = width};
  check_cuda(api().swiglu_backward(&args, stream));
  EXPECT_LT(worst_row_error(download(g, {rows, 2 * width}, at::kBFloat16), wide.grad()), 4e-3);
  EXPECT_LT(worst_row_error(download(d, {rows, width}, at::kBFloat16), act.detach()), 5e-3);
}

TEST_F(TrainRows, RopeBackward) {
  constexpr float kEps = 1e-6f;
  for (const int64_t d : {64, 128}) {
    for (const bool normed : {true, false}) {
      const int64_t tokens = 300, used = 290, heads = 6, kv_heads = 2, rows = heads + 2 * kv_heads;
      const at::Tensor qkv = random_bf16({tokens, rows, d}), dq = random_bf16({used, heads, d}),
                       dk = random_bf16({used, kv_heads, d}), dv = random_bf16({used, kv_heads, d}),
                       q_norm = random_bf16({d}), k_norm = random_bf16({d});
      const at::Tensor positions = at::randint(0, 400, {tokens}, at::kInt);
      const at::Tensor inv_freq = model::rope_inv_freq(d, 1e6, at::kCPU);
      auto [cosine, sine] = model::rope_table(positions.to(at::kLong), inv_freq);

      const at::Tensor wide = leaf(qkv), wq = leaf(q_norm), wk = leaf(k_norm);
      const auto turned = [&](const at::Tensor& x, const at::Tensor& w) {
        const at::Tensor y = normed ? x / (x.square().mean(-1, true) + kEps).sqrt() * w : x;
        const at::Tensor c = cosine.to(at::kDouble).unsqueeze(1), s = sine.to(at::kDouble).unsqueeze(1),
                         u = y.narrow(2, 0, d / 2), v = y.narrow(2, d / 2, d / 2);
        return at::cat({u * c - v * s, v * c + u * s}, 2);
      };
      const at::Tensor q = turned(wide.narrow(1, 0, heads), wq), k = turned(wide.narrow(1, heads, kv_heads), wk),
                       v = wide.narrow(1, heads + kv_heads, kv_heads);
      torch::autograd::backward({q.narrow(0, 0, used), k.narrow(0, 0, used), v.narrow(0, 0, used)},
                                {dq.to(at::kDouble), dk.to(at::kDouble), dv.to(at::kDouble)});

      const Buffer rope = like({400, d}, at::kFloat), frequencies = upload(inv_freq), gqkv = upload(qkv),
                   gdq = upload(dq), gdk = upload(dk), gdv = upload(dv), gq_norm = upload(q_norm),
                   gk_norm = upload(k_norm), gpositions = upload(positions),
                   dqkv = like({tokens, rows, d}, at::kBFloat16), scratch = partials(2 * d);
      check_cuda(api().rope_table(rope.as<float>(), frequencies.as<float>(), 400, d, stream));
      const Sum q_sum = sum_of({d}, true), k_sum = sum_of({d}, true);
      const RopeBackwardArgs args{.dqkv = dqkv.as(),
                                  .dq = gdq.as(),
                                  .dk = gdk.as(),
                                  .dv = gdv.as(),
                                  .qkv = gqkv.as(),
                                  .q_norm = normed ? gq_norm.as() : nullptr,
                                  .k_norm = normed ? gk_norm.as() : nullptr,
                                  .rope = rope.as<float>(),
                                  .positions = gpositions.as<int32_t>(),
                                  .partials = scratch.as<float>(),
                                  .dq_norm = out(q_sum.memory, true, true),
                                  .dk_norm = out(k_sum.memory, true, false),
                                  .tokens = tokens,
                                  .used = used,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = d,
                                  .eps = kEps};
      check_cuda(api().rope_backward(&args, stream));
      const at::Tensor found = download(dqkv, {tokens, rows, d}, at::kBFloat16);
      EXPECT_LT(worst_row_error(found.narrow(0, 0, used), wide.grad().narrow(0, 0, used)), 4e-3) << d << normed;
      EXPECT_TRUE(at::equal(found.narrow(0, used, tokens - used), at::zeros({tokens - used, rows, d}, at::kBFloat16)));
      if (!normed) continue;
      EXPECT_LT(worst_row_error(download(q_sum.memory, {d}, at::kFloat), wq.grad() + q_sum.before), 1e-5);
      EXPECT_LT(worst_row_error(download(k_sum.memory, {d}, at::kFloat), wk.grad()), 1e-5);
    }
  }
}

// The keys of rope_cache() without slots are those that it puts into the cache.
TEST_F(TrainRows, RopeInRowsIsRopeInTheCache) {
  const int64_t tokens = 50, heads = 4, kv_heads = 2, d = 128, rows = heads + 2 * kv_heads, blocks = 5;
  const Buffer qkv = upload(random_bf16({tokens, rows, d})), norms = upload(random_bf16({2, d})),
               positions = upload(at::arange(tokens, at::kInt)), slots = upload(at::arange(16, 16 + tokens, at::kInt)),
               rope = like({64, d}, at::kFloat), frequencies = upload(model::rope_inv_freq(d, 1e6, at::kCPU));
  check_cuda(api().rope_table(rope.as<float>(), frequencies.as<float>(), 64, d, stream));
  const auto run = [&](bool paged, const Buffer& q, const Buffer& k, const Buffer& v) {
    const RopeCacheArgs args{.qkv = qkv.as(),
                             .q = q.as(),
                             .cache = {k.as(), paged ? v.as() : nullptr},
                             .q_norm = norms.as(),
                             .k_norm = norms.as() + d,
                             .rope = rope.as<float>(),
                             .positions = positions.as<int32_t>(),
                             .slots = paged ? slots.as<int32_t>() : nullptr,
                             .tokens = tokens,
                             .heads = heads,
                             .kv_heads = kv_heads,
                             .head_dim = d,
                             .eps = 1e-6f};
    check_cuda(api().rope_cache(&args, stream));
  };
  const Buffer q1 = like({tokens, heads, d}, at::kBFloat16), q2 = like({tokens, heads, d}, at::kBFloat16),
               cache_k = like({blocks, kv_heads, kPage, d}, at::kBFloat16),
               cache_v = like({blocks, kv_heads, kPage, d}, at::kBFloat16),
               k = like({tokens, kv_heads, d}, at::kBFloat16);
  run(true, q1, cache_k, cache_v);
  run(false, q2, k, {});
  EXPECT_TRUE(
      at::equal(download(q1, {tokens, heads, d}, at::kBFloat16), download(q2, {tokens, heads, d}, at::kBFloat16)));
  const at::Tensor pages = download(cache_k, {blocks, kv_heads, kPage, d}, at::kBFloat16)
                               .transpose(1, 2)
                               .reshape({blocks * kPage, kv_heads, d})
                               .narrow(0, 16, tokens);
  EXPECT_TRUE(at::equal(pages, download(k, {tokens, kv_heads, d}, at::kBFloat16)));
}

TEST_F(TrainRows, EmbedBackwardAndScatter) {
  const int64_t count = 1000, vocab = 300, hidden = 1032;
  const at::Tensor rows = random_bf16({count, hidden}), ids = at::randint(0, 40, {count}, at::kLong);
  ids.narrow(0, 0, 400).fill_(7);
  const auto [sorted, order] = at::sort(ids, std::optional<bool>(true));
  for (const bool fp32 : {true, false}) {
    const Sum table = sum_of({vocab, hidden}, fp32);
    const Buffer grows = upload(rows), gids = upload(sorted), gorder = upload(order);
    const EmbedBackwardArgs args{.d_table = table.memory.as<void>(),
                                 .fp32 = fp32,
                                 .rows = grows.as(),
                                 .ids = gids.as<int64_t>(),
                                 .order = gorder.as<int64_t>(),
                                 .count = count,
                                 .hidden = hidden};
    check_cuda(api().embed_backward(&args, stream));
    const at::Tensor expected = table.before.to(at::kDouble).index_add(0, ids, rows.to(at::kDouble));
    EXPECT_LT(worst_row_error(download(table.memory, {vocab, hidden}, fp32 ? at::kFloat : at::kBFloat16), expected),
              fp32 ? 1e-6 : 4e-3);
  }
  const at::Tensor to = at::randperm(2000).narrow(0, 0, count).to(at::kInt);
  const Buffer from = upload(rows), places = upload(to), target = upload(at::zeros({2000, hidden}, at::kBFloat16));
  check_cuda(api().scatter_rows(target.as(), from.as(), places.as<int32_t>(), count, hidden, stream));
  EXPECT_TRUE(at::equal(download(target, {2000, hidden}, at::kBFloat16),
                        at::zeros({2000, hidden}, at::kBFloat16).index_copy(0, to.to(at::kLong), rows)));
}

TEST_F(TrainRows, BiasBackward) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 64}, {777, 1152}, {3000, 40}}) {
    const at::Tensor dy = random_bf16({rows, width});
    const Sum sum = sum_of({width}, true);
    const Buffer gdy = upload(dy), scratch = partials(width);
    const GradientOut to = out(sum.memory, true, true);
    check_cuda(api().bias_backward(&to, gdy.as(), scratch.as<float>(), rows, width, stream));
    EXPECT_LT(worst_row_error(download(sum.memory, {width}, at::kFloat),
                              sum.before.to(at::kDouble) + dy.to(at::kDouble).sum(0)),
              1e-5);
  }
}

TEST_F(TrainRows, HeadScoresAndGradient) {
  for (const int64_t vocab : {int64_t{1000}, int64_t{151936}}) {
    for (const bool general : {false, true}) {
      const int64_t rows = 9;
      const at::Tensor logits = at::randn({rows, vocab}) * 4, targets = at::randint(0, vocab, {rows}, at::kInt),
                       cold = at::rand({rows}) + 0.5, of_log_prob = at::randn({rows}), of_entropy = at::randn({rows});
      const at::Tensor wide = leaf(logits);
      const at::Tensor all = at::log_softmax(general ? wide * cold.to(at::kDouble).unsqueeze(1) : wide, 1);
      const at::Tensor log_probs = all.gather(1, targets.to(at::kLong).unsqueeze(1)).squeeze(1),
                       entropy = -(all.exp() * all).sum(1);
      at::Tensor loss = (log_probs * of_log_prob.to(at::kDouble)).sum();
      if (general) loss = loss + (entropy * of_entropy.to(at::kDouble)).sum();
      loss.backward();

      const Buffer glogits = upload(logits), gtargets = upload(targets), gcold = upload(cold),
                   glog = upload(of_log_prob), gentropy = upload(of_entropy), scores = like({4, rows}, at::kFloat);
      const HeadScoresArgs forward{.logits = glogits.as<float>(),
                                   .targets = gtargets.as<int32_t>(),
                                   .inverse_temperature = general ? gcold.as<float>() : nullptr,
                                   .log_probs = scores.as<float>(),
                                   .entropy = scores.as<float>() + rows,
                                   .maximum = scores.as<float>() + 2 * rows,
                                   .inverse_total = scores.as<float>() + 3 * rows,
                                   .rows = rows,
                                   .vocab = vocab};
      check_cuda(api().head_scores(&forward, stream));
      const at::Tensor found = download(scores, {4, rows}, at::kFloat).to(at::kDouble);
      EXPECT_LT((found[0] - log_probs).abs().max().item<double>(), 2e-5);
      EXPECT_LT((found[1] - entropy).abs().max().item<double>(), 2e-5);
      const HeadGradientArgs backward{.logits = glogits.as<float>(),
                                      .targets = gtargets.as<int32_t>(),
                                      .inverse_temperature = forward.inverse_temperature,
                                      .entropy = forward.entropy,
                                      .maximum = forward.maximum,
                                      .inverse_total = forward.inverse_total,
                                      .grad_log_probs = glog.as<float>(),
                                      .grad_entropy = general ? gentropy.as<float>() : nullptr,
                                      .rows = rows,
                                      .vocab = vocab};
      check_cuda(api().head_gradient(&backward, stream));
      const at::Tensor gradient = download(glogits, {rows, 2 * vocab}, at::kBFloat16).narrow(1, 0, vocab);
      EXPECT_LT(worst_row_error(gradient, wide.grad()), 4e-3) << vocab << general;
    }
  }
}

// Products whose operands lie the other way round, with gaps, or added to something else.
// Statistics are exact but for rounding; rows whose part has no keys stay, whatever lies there.
TEST_F(TrainRows, AttentionMerge) {
  for (const auto& [rows, heads, d] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 64}, {37, 5, 64}, {300, 32, 128}}) {
    const at::Tensor sum = at::randn({rows, heads, d}), part = random_bf16({rows, heads, d});
    const at::Tensor statistics = at::randn({rows, heads}) * 20, added = at::randn({rows, heads}) * 20;
    const at::Tensor none = at::rand({rows, heads}).gt(0.8);
    added.masked_fill_(none, -INFINITY);
    part.masked_fill_(none.unsqueeze(-1), std::nan(""));
    const at::Tensor wide = at::stack({statistics, added}).to(at::kDouble),
                     share = at::softmax(wide * std::log(2.0), 0);
    const at::Tensor expected = sum.to(at::kDouble) * share[0].unsqueeze(-1) +
                                part.to(at::kDouble).nan_to_num(0) * share[1].unsqueeze(-1);
    const at::Tensor total = at::logsumexp(wide * std::log(2.0), 0) / std::log(2.0);

    const Buffer gsum = upload(sum), gpart = upload(part), gstatistics = upload(statistics), gadded = upload(added),
                 gout = like({rows, heads, d}, at::kBFloat16);
    const AttentionMergeArgs args{.sum = gsum.as<float>(),
                                  .statistics = gstatistics.as<float>(),
                                  .part = gpart.as(),
                                  .part_statistics = gadded.as<float>(),
                                  .out = gout.as(),
                                  .rows = rows,
                                  .heads = heads,
                                  .head_dim = d};
    check_cuda(api().attention_merge(&args, stream));
    EXPECT_LT(worst_row_error(download(gsum, {rows, heads, d}, at::kFloat), expected), 1e-5);
    EXPECT_LT(worst_row_error(download(gout, {rows, heads, d}, at::kBFloat16), expected), 4e-3);
    EXPECT_LT((download(gstatistics, {rows, heads}, at::kFloat) - total).abs().max().item<double>(), 1e-4);
  }
}

TEST_F(TrainRows, ProductsOfABackwardPass) {
  const int64_t rows = 264, in = 328, width = 136;
  const Buffer workspace(size_t{8} << 20, 0);
  Gemm* gemm = nullptr;
  check_cuda(api().gemm_open(&gemm, workspace.as<void>(), workspace.bytes()));
  const at::Tensor x = random_bf16({rows, in}), w = random_bf16({width, in}), dy = random_bf16({rows, 2 * width}),
                   y0 = random_bf16({rows, width}), used = dy.narrow(1, 0, width);
  const Buffer gx = upload(x), gw = upload(w), gdy = upload(dy), gy0 = upload(y0);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  {
    const Buffer dx = like({rows, in}, at::kBFloat16);
    const GemmArgs args{.y = dx.as<void>(),
                        .x = gdy.as(),
                        .w = gw.as(),
                        .m = rows,
                        .n = in,
                        .k = width,
                        .w_transposed = true,
                        .x_stride = 2 * width};
    check_cuda(api().gemm(gemm, &args, stream));
    EXPECT_LT(worst_row_error(download(dx, {rows, in}, at::kBFloat16), wide(used).mm(wide(w))), 4e-3);
  }
  for (const bool fp32 : {true, false}) {
    const Sum dw = sum_of({width, in}, fp32);
    const GemmArgs args{.y = dw.memory.as<void>(),
                        .x = gdy.as(),
                        .w = gx.as(),
                        .m = width,
                        .n = in,
                        .k = rows,
                        .fp32_out = fp32,
                        .accumulate = true,
                        .x_transposed = true,
                        .w_transposed = true,
                        .x_stride = 2 * width};
    check_cuda(api().gemm(gemm, &args, stream));
    EXPECT_LT(worst_row_error(download(dw.memory, {width, in}, fp32 ? at::kFloat : at::kBFloat16),
                              wide(dw.before) + wide(used).t().mm(wide(x))),
              fp32 ? 2e-5 : 4e-3);
  }
  {
    const Buffer y = like({rows, width}, at::kBFloat16);
    const GemmArgs args{.y = y.as<void>(),
                        .x = gx.as(),
                        .w = gw.as(),
                        .m = rows,
                        .n = width,
                        .k = in,
                        .accumulate = true,
                        .addend = gy0.as<void>()};
    check_cuda(api().gemm(gemm, &args, stream));
    EXPECT_LT(worst_row_error(download(y, {rows, width}, at::kBFloat16), wide(y0) + wide(x).mm(wide(w).t())), 4e-3);
    EXPECT_TRUE(at::equal(download(gy0, {rows, width}, at::kBFloat16), y0));
  }
  check_cuda(api().gemm_close(gemm));
}

}  // namespace
}  // namespace tritonforge::gpu
