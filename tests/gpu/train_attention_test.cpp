// The trainer's attention on a GPU, whole, in the rounds of a ring and behind shared prefixes, against attention in
// double.
#include <ATen/ATen.h>

#include <cmath>

#include "gpu/train_fixture.h"
#include "train/gpu/layers.h"
#include "train/gpu/ring_attention.h"

namespace tritonforge::train {
namespace {

using tritonforge::gpu::small_config;

struct AttentionShape {
  int64_t heads, kv_heads, head_dim;
  std::vector<int64_t> lengths;
  std::vector<int64_t> starts() const {
    std::vector<int64_t> starts{0};
    for (const int64_t length : lengths) starts.push_back(starts.back() + length);
    return starts;
  }
  model::ModelConfig config() const {
    model::ModelConfig config = small_config(model::Family::kQwen3);
    config.num_heads = heads;
    config.num_kv_heads = kv_heads;
    config.head_dim = head_dim;
    return config;
  }
};
struct AttentionTensors {  // [tokens, heads or kv_heads, head_dim] on the CPU
  at::Tensor q, k, v, d_out;
  explicit AttentionTensors(const AttentionShape& s)
      : q(random(s, s.heads)), k(random(s, s.kv_heads)), v(random(s, s.kv_heads)), d_out(random(s, s.heads)) {}
  static at::Tensor random(const AttentionShape& s, int64_t heads) {
    return at::randn({s.starts().back(), heads, s.head_dim}).to(at::kBFloat16);
  }
};

// Rows of a rank's tokens in the pages of its sequences: [tokens, kv_heads, d] to [pages, kv_heads, page, d].
at::Tensor to_pages(const at::Tensor& rows, const gpu::Attention& attention, const Zigzag& zigzag, int64_t rank) {
  const int64_t page = tritonforge::gpu::kPage;
  at::Tensor slots = at::zeros({attention.slots(), rows.size(1), rows.size(2)}, rows.options());
  int64_t slot = 0;
  for (size_t s = 0; s < zigzag.of(rank).size(); ++s) {
    const Zigzag::Chunks& chunks = zigzag.of(rank)[s];
    slots.narrow(0, slot, chunks.tokens()).copy_(rows.narrow(0, chunks.row, chunks.tokens()));
    int64_t most = 0;
    for (int64_t other = 0; other < zigzag.ranks(); ++other) most = std::max(most, zigzag.of(other)[s].tokens());
    slot += (most + page - 1) / page * page;
  }
  return slots.unflatten(0, {-1, page}).transpose(1, 2).contiguous();
}

// out and the gradients of q, k and v, [tokens, ...] on the CPU, against attention in double.
void expect_attention(const AttentionShape& shape, const AttentionTensors& in, const at::Tensor& out,
                      const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv) {
  const int64_t group = shape.heads / shape.kv_heads;
  const std::vector<int64_t> starts = shape.starts();
  for (size_t i = 0; i < shape.lengths.size(); ++i) {
    const int64_t length = shape.lengths[i];
    const auto of = [&](const at::Tensor& rows) {
      return rows.narrow(0, starts[i], length).to(at::kDouble).transpose(0, 1);
    };
    const at::Tensor wide_q = of(in.q).clone().requires_grad_(), wide_k = of(in.k).clone().requires_grad_(),
                     wide_v = of(in.v).clone().requires_grad_();
    const at::Tensor mask = at::ones({length, length}, at::kBool).tril().logical_not();
    const at::Tensor scores = wide_q.matmul(wide_k.repeat_interleave(group, 0).transpose(1, 2)) /
                              std::sqrt(static_cast<double>(shape.head_dim));
    const at::Tensor expected = at::softmax(scores.masked_fill(mask, -1e300), -1)
                                    .matmul(wide_v.repeat_interleave(group, 0));
    expected.backward(of(in.d_out));
    const auto error = [](const at::Tensor& found, const at::Tensor& expected) {
      return ((found - expected).norm() / expected.norm()).item<double>();
    };
    const auto where = [&] { return fmt::format("{} heads, {} tokens", shape.heads, length); };
    EXPECT_LT(error(of(out), expected.detach()), 6e-3) << where();
    EXPECT_LT(error(of(dv), wide_v.grad()), 6e-3) << where();
    if (length == 1) continue;  // the others are zero but for rounding
    EXPECT_LT(error(of(dk), wide_k.grad()), 8e-3) << where();
    EXPECT_LT(error(of(dq), wide_q.grad()), 8e-3) << where();
  }
}

// Lengths around those of tiles.
const std::vector<AttentionShape> kAttentionShapes{
    {4, 1, 128, {1, 17, 128, 300}}, {8, 2, 128, {700, 129, 64}}, {2, 2, 64, {33, 257}},
    {14, 2, 64, {100, 9, 400}},     {16, 1, 128, {150}},         {32, 8, 128, {2000, 1100}}};

TEST_F(TrainOnGpu, AttentionAndItsGradient) {
  for (const AttentionShape& shape : kAttentionShapes) {
    const AttentionTensors in(shape);
    const int64_t tokens = shape.starts().back();
    const Zigzag whole(shape.starts(), 1);
    gpu::Attention attention(shape.config(), device());
    attention.begin(whole, 0, tokens);
    const auto on_device = [&](int64_t heads) {
      return at::full({tokens, heads, shape.head_dim}, std::numeric_limits<float>::quiet_NaN(),
                      at::TensorOptions().dtype(at::kBFloat16).device(device()));
    };
    const gpu::Attention::Operands operands{
        in.q.to(device()), to_pages(in.k, attention, whole, 0).to(device()),
        to_pages(in.v, attention, whole, 0).to(device()), on_device(shape.heads),
        at::empty({tokens, shape.heads}, at::TensorOptions().dtype(at::kFloat).device(device()))};
    attention.forward(operands, 0);
    const at::Tensor dq = on_device(shape.heads), dk = on_device(shape.kv_heads), dv = on_device(shape.kv_heads),
                     grad = in.d_out.to(device());
    attention.backward(operands, 0, grad, dq, dk, dv);
    const at::Tensor again = at::empty_like(dq);
    attention.backward(operands, 0, grad, again, dk, dv);
    EXPECT_TRUE(at::equal(dq.cpu(), again.cpu()));
    expect_attention(shape, in, operands.out.cpu(), dq.cpu(), dk.cpu(), dv.cpu());
  }
}

// A rank of a ring that nothing is sent around: its rounds are taken by hand.
class RankOfRing : public parallel::Group {
 public:
  RankOfRing(int64_t rank, int64_t size) : Group("ring", rank, size, 1) {}
  parallel::PendingPtr all_reduce(const at::Tensor&, std::string_view) override { return none(); }
  parallel::PendingPtr reduce_scatter(const at::Tensor&, std::string_view) override { return none(); }
  parallel::PendingPtr all_gather(const at::Tensor&, std::string_view) override { return none(); }
  parallel::PendingPtr broadcast(const at::Tensor&, int64_t, std::string_view) override { return none(); }
  parallel::PendingPtr all_to_all(const at::Tensor&, const at::Tensor&, std::string_view) override { return none(); }
  parallel::PendingPtr shift(const at::Tensor&, const at::Tensor&, std::string_view) override { return none(); }
  parallel::PendingPtr send(const at::Tensor&, int64_t, std::string_view) override { return none(); }
  parallel::PendingPtr receive(const at::Tensor&, int64_t, std::string_view) override { return none(); }
  double waited_s() override { return 0; }

 private:
  static parallel::PendingPtr none() { fail(ErrorKind::kUnsupported, "nothing is sent around"); }
};

// All ranks of a ring one after the other on one GPU: what their rounds make is the attention of all tokens.
TEST_F(TrainOnGpu, RoundsOfARingAreAttentionAndItsGradient) {
  for (const int64_t ranks : {2, 3, 8}) {
    for (const AttentionShape& shape : kAttentionShapes) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, fmt::format("{} ranks", ranks));
      const AttentionTensors in(shape);
      MicroBatch batch;
      batch.cu_seqlens = shape.starts();
      batch.tokens = batch.cu_seqlens.back();
      batch.positions = at::zeros({batch.tokens}, at::kLong);
      batch.targets = at::empty({0}, at::kLong);
      const Zigzag zigzag(batch.cu_seqlens, ranks);
      const auto places = [&](int64_t rank) {
        const std::vector<int64_t> tokens = zigzag.tokens_of(rank);
        return at::tensor(tokens, at::kLong);
      };
      at::Tensor out = at::zeros_like(in.q), dq = at::zeros_like(in.q);
      at::Tensor dk = at::zeros(in.k.sizes(), at::kFloat), dv = at::zeros_like(dk);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        RankOfRing group(rank, ranks);
        TokenShards shards({.cp = &group, .cp_form = parallel::CpForm::kRing}, shape.config(), gpu::kRowUnit);
        shards.begin(batch);
        const int64_t rows = shards.rows().shard;
        gpu::Attention attention(shape.config(), device());
        attention.begin(zigzag, rank, rows);
        gpu::RingAttention ring(shards, attention, device());
        ring.reserve(rows, attention.slots(), /*train=*/true);
        const auto padded = [&](const at::Tensor& all) {  // what lies beyond the tokens is of no meaning
          const at::Tensor own = all.index_select(0, places(rank));
          return at::cat({own, at::full({rows - own.size(0), own.size(1), own.size(2)}, NAN, own.options())})
              .to(device());
        };
        const auto operands_of = [&](int64_t from, const gpu::Attention::Operands& own) {
          const auto pages = [&](const at::Tensor& all) {
            return to_pages(all.index_select(0, places(from)), attention, zigzag, from).to(device());
          };
          return gpu::Attention::Operands{own.q, pages(in.k), pages(in.v), own.out, own.statistics};
        };
        const at::Tensor q = padded(in.q), d_out = padded(in.d_out);
        const gpu::Attention::Operands own{
            q,
            {},
            {},
            at::full_like(q, NAN).flatten(1),
            at::empty({rows, shape.heads}, at::TensorOptions().dtype(at::kFloat).device(device()))};
        for (int64_t round = 0; round < ranks; ++round) {
          const int64_t from = (rank + ranks - round) % ranks;
          ring.forward_round(operands_of(from, own), from, round == 0, round + 1 == ranks);
        }
        const int64_t tokens = shards.attended_tokens();
        const auto to_all = [&](at::Tensor& all, const at::Tensor& found, int64_t of) {
          const at::Tensor where = places(of);
          all.index_add_(0, where,
                         found.narrow(0, 0, where.size(0)).view({-1, all.size(1), all.size(2)}).cpu().to(all.dtype()));
        };
        ASSERT_EQ(tokens, places(rank).size(0));
        to_all(out, own.out, rank);
        for (int64_t round = 0; round < ranks; ++round) {
          const int64_t from = (rank + ranks - round) % ranks;
          ring.backward_round(operands_of(from, own), from, round == 0, d_out);
          to_all(dk, ring.made()[0], from);
          to_all(dv, ring.made()[1], from);
        }
        to_all(dq, ring.dq(), rank);
      }
      expect_attention(shape, in, out, dq, dk, dv);
    }
  }
}

// Rows of a packed batch of segments, each behind the one that it goes on from.
struct Packed {
  Packed(const std::vector<int64_t>& lengths, const std::vector<int64_t>& parents) {
    batch.cu_seqlens = {0};
    for (size_t i = 0; i < lengths.size(); ++i) {
      batch.cu_seqlens.push_back(batch.cu_seqlens.back() + lengths[i]);
      const int64_t parent = parents.empty() ? -1 : parents[i];
      batch.before.push_back(parent < 0 ? 0 : batch.before[static_cast<size_t>(parent)] + batch.segment_tokens(parent));
      batch.parents.push_back(parent);
    }
    batch.tokens = batch.cu_seqlens.back();
  }
  // Of rows [begin, end), true where one does not see another.
  at::Tensor hidden(int64_t begin, int64_t end) const {
    const at::Tensor mask = at::ones({end - begin, end - begin}, at::kBool);
    for (int64_t i = 0; i < batch.segment_count(); ++i) {
      const int64_t from = batch.segment_begin(i) - begin, tokens = batch.segment_tokens(i);
      if (from < 0 || from >= end - begin) continue;
      const auto rows = mask.narrow(0, from, tokens);
      rows.narrow(1, from, tokens).copy_(at::ones({tokens, tokens}, at::kBool).tril().logical_not());
      for (int64_t s = batch.parent(i); s >= 0; s = batch.parent(s))
        rows.narrow(1, batch.segment_begin(s) - begin, batch.segment_tokens(s)).fill_(false);
    }
    return mask;
  }
  MicroBatch batch;
};

// Segments that go on from others, of lengths around those of tiles, against attention in double.
TEST_F(TrainOnGpu, AttentionBehindSharedPrefixesAndItsGradient) {
  struct Shape {
    int64_t heads, kv_heads, head_dim;
    std::vector<int64_t> lengths, parents;
  };
  for (const Shape& shape : {Shape{8, 2, 128, {256, 100, 300, 129}, {-1, 0, 0, 0}},
                             {4, 1, 128, {16, 2, 1, 300, 77}, {-1, 0, 0, 0, -1}},
                             {14, 2, 64, {48, 80, 33, 17, 200, 64}, {-1, 0, 1, 1, 0, -1}},
                             {16, 1, 128, {144, 50, 50}, {-1, 0, 0}},
                             {32, 8, 128, {1040, 700, 500, 16, 90, 3, 131}, {-1, 0, 0, 0, 3, 3, -1}}}) {
    const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
    const Packed packed(shape.lengths, shape.parents);
    const MicroBatch& batch = packed.batch;
    model::ModelConfig config = small_config(model::Family::kQwen3);
    config.num_heads = shape.heads;
    config.num_kv_heads = shape.kv_heads;
    config.head_dim = d;
    const auto random = [&](int64_t heads) { return at::randn({batch.tokens, heads, d}).to(at::kBFloat16); };
    const at::Tensor q = random(shape.heads), k = random(shape.kv_heads), v = random(shape.kv_heads),
                     d_out = random(shape.heads);

    gpu::Attention attention(config, device());
    const Zigzag zigzag(batch.cu_seqlens, 1);
    attention.begin(zigzag, 0, batch.tokens, batch.parents, batch.before);
    const auto on_device = [&](int64_t heads) {
      return at::full({batch.tokens, heads, d}, std::numeric_limits<float>::quiet_NaN(),
                      at::TensorOptions().dtype(at::kBFloat16).device(device()));
    };
    const gpu::Attention::Operands operands{
        q.to(device()), to_pages(k, attention, zigzag, 0).to(device()), to_pages(v, attention, zigzag, 0).to(device()),
        on_device(shape.heads),
        at::empty({batch.tokens, shape.heads}, at::TensorOptions().dtype(at::kFloat).device(device()))};
    attention.forward(operands, 0);
    const at::Tensor dq = on_device(shape.heads), dk = on_device(shape.kv_heads), dv = on_device(shape.kv_heads),
                     grad = d_out.to(device());
    attention.backward(operands, 0, grad, dq, dk, dv);
    const at::Tensor again = at::empty_like(dq), dk_again = at::empty_like(dk);
    attention.backward(operands, 0, grad, again, dk_again, dv);
    EXPECT_TRUE(at::equal(dq.cpu(), again.cpu()));
    EXPECT_TRUE(at::equal(dk.cpu(), dk_again.cpu()));

    // Each sequence, or each tree of them, for itself.
    for (int64_t i = 0, next = 0; i < batch.segment_count(); i = next) {
      next = i + 1;
      while (next < batch.segment_count() && batch.parent(next) >= 0) ++next;
      const int64_t begin = batch.segment_begin(i), end = batch.cu_seqlens[static_cast<size_t>(next)];
      const auto of = [&](const at::Tensor& rows) {
        return rows.cpu().narrow(0, begin, end - begin).to(at::kDouble).transpose(0, 1);
      };
      const at::Tensor wide_q = of(q).clone().requires_grad_(), wide_k = of(k).clone().requires_grad_(),
                       wide_v = of(v).clone().requires_grad_();
      const at::Tensor scores = wide_q.matmul(wide_k.repeat_interleave(group, 0).transpose(1, 2)) /
                                std::sqrt(static_cast<double>(d));
      const at::Tensor out = at::softmax(scores.masked_fill(packed.hidden(begin, end), -1e300), -1)
                                 .matmul(wide_v.repeat_interleave(group, 0));
      out.backward(of(d_out));
      const auto error = [](const at::Tensor& found, const at::Tensor& expected) {
        return ((found - expected).norm() / expected.norm()).item<double>();
      };
      const auto where = [&] { return fmt::format("{} heads, {} tokens from {}", shape.heads, end - begin, begin); };
      EXPECT_LT(error(of(operands.out), out.detach()), 6e-3) << where();
      EXPECT_LT(error(of(dv), wide_v.grad()), 6e-3) << where();
      if (end - begin == 1) continue;  // the others are zero but for rounding
      EXPECT_LT(error(of(dk), wide_k.grad()), 8e-3) << where();
      EXPECT_LT(error(of(dq), wide_q.grad()), 8e-3) << where();
    }
  }
}

// A token's attention has the same bits wherever the keys before it lie.
TEST_F(TrainOnGpu, AttentionBehindASharedPrefixIsThatOfTheWholeSequence) {
  model::ModelConfig config = small_config(model::Family::kQwen3);
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 128;
  const std::vector<int64_t> own{100, 1, 300};
  for (const int64_t prefix : {16, 128, 400}) {
    const auto random = [&](int64_t tokens, int64_t heads) {
      return at::randn({tokens, heads, config.head_dim}).to(at::kBFloat16);
    };
    // q, k and v of the prefix and of each sequence.
    const auto parts_of = [&](int64_t heads) {
      std::vector<at::Tensor> parts{random(prefix, heads)};
      for (const int64_t tokens : own) parts.push_back(random(tokens, heads));
      return parts;
    };
    const auto q = parts_of(config.num_heads), k = parts_of(config.num_kv_heads), v = parts_of(config.num_kv_heads);
    const auto attended = [&](const Packed& packed, bool whole) {
      const auto rows = [&](const std::vector<at::Tensor>& parts) {
        if (!whole) return at::cat(parts);
        std::vector<at::Tensor> all;
        for (size_t i = 1; i < parts.size(); ++i) all.insert(all.end(), {parts[0], parts[i]});
        return at::cat(all);
      };
      gpu::Attention attention(config, device());
      const Zigzag zigzag(packed.batch.cu_seqlens, 1);
      attention.begin(zigzag, 0, packed.batch.tokens, packed.batch.parents, packed.batch.before);
      const at::Tensor queries = rows(q).to(device());
      const gpu::Attention::Operands operands{
          queries, to_pages(rows(k), attention, zigzag, 0).to(device()),
          to_pages(rows(v), attention, zigzag, 0).to(device()), at::empty_like(queries),
          at::empty({packed.batch.tokens, config.num_heads}, queries.options().dtype(at::kFloat))};
      attention.forward(operands, 0);
      return operands.out.cpu();
    };
    std::vector<int64_t> lengths{prefix}, whole;
    for (const int64_t tokens : own) {
      lengths.push_back(tokens);
      whole.push_back(prefix + tokens);
    }
    const at::Tensor once = attended(Packed(lengths, {-1, 0, 0, 0}), false), each = attended(Packed(whole, {}), true);
    int64_t shared_at = prefix, whole_at = 0;
    for (const int64_t tokens : own) {
      EXPECT_TRUE(at::equal(once.narrow(0, 0, prefix), each.narrow(0, whole_at, prefix))) << prefix;
      EXPECT_TRUE(at::equal(once.narrow(0, shared_at, tokens), each.narrow(0, whole_at + prefix, tokens))) << prefix;
      shared_at += tokens;
      whole_at += prefix + tokens;
    }
  }
}

}  // namespace
}  // namespace tritonforge::train
