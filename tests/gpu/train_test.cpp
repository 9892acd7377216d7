// The trainer's own passes and optimizer on a GPU against autograd and AdamW in fp32 on the CPU.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cmath>
#include <future>

#include "base/clock.h"
#include "base/filesystem.h"
#include "bench/qwen3_8b.h"
#include "contract/step.h"
#include "gpu/fixture.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "train/checkpoint.h"
#include "train/flat_adamw.h"
#include "train/gpu/layers.h"
#include "train/gpu/ring_attention.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "train/service.h"
#include "train/trainer.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

using tritonforge::gpu::small_config;

class TrainOnGpu : public tritonforge::gpu::GpuTest {
 protected:
  at::Device device() const { return kernels::open_device("cuda"); }
};

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

std::vector<TrainSequence> sequences(size_t count, double temperature, size_t least = 20, size_t most = 300) {
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

MicroBatch batch_of(const std::vector<TrainSequence>& all, at::Device device) {
  std::vector<size_t> indices(all.size());
  for (size_t i = 0; i < all.size(); ++i) indices[i] = i;
  return make_micro_batch(all, indices, std::vector<double>(all.size(), 1.0), {}, device);
}

struct Ran {
  TargetScores scores;
  std::vector<std::pair<std::string, at::Tensor>> gradients;  // on the CPU, in double
};

// Two micro-batches, gradients of the scores drawn from a seed.
Ran run(Pass& pass, const std::vector<std::pair<std::string, at::Tensor>>& gradients_of, Gradients* arena,
        const std::vector<MicroBatch>& batches, bool entropy) {
  Ran ran;
  auto generator = at::detail::createCPUGenerator(11);
  for (const MicroBatch& batch : batches) {
    const TargetScores scores = pass.forward(batch, true);
    const auto drawn = [&] { return at::empty({batch.target_count}).normal_(0, 1, generator).to(batch.ids.device()); };
    const at::Tensor a = drawn(), b = drawn();
    pass.backward({a, entropy ? b : at::Tensor()});
    if (!ran.scores.log_probs.defined()) ran.scores = {scores.log_probs.cpu(), scores.entropy.cpu()};
  }
  for (const auto& [name, tensor] : gradients_of) {
    const at::Tensor of = arena == nullptr ? tensor.grad() : tensor;
    ran.gradients.emplace_back(name, of.to(at::kCPU, at::kDouble));
  }
  return ran;
}

Ran run_own(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<MicroBatch>& batches,
            at::Device device, bool entropy) {
  const model::Model model = made(shape, at::kBFloat16, device);
  Gradients gradients{.sums = model::Model(shape, at::kFloat, device)};
  gradients.sums.arena().fill_(std::numeric_limits<float>::quiet_NaN());  // nothing of before counts
  const auto pass = make_gpu_pass(model, config, &gradients);
  return run(*pass, gradients.sums.named_parameters(), &gradients, batches, entropy);
}

Ran run_own(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<TrainSequence>& all,
            at::Device device, bool entropy) {
  return run_own(shape, config, {batch_of(all, device), batch_of({all[1]}, device)}, device, entropy);
}

Ran run_autograd(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<MicroBatch>& batches,
                 at::ScalarType dtype, at::Device device, bool entropy) {
  const model::Model model = made(shape, dtype, device);
  for (auto& [name, tensor] : model.named_parameters()) tensor.requires_grad_();
  return run(*make_autograd_pass(model, config), model.named_parameters(), nullptr, batches, entropy);
}

Ran run_autograd(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<TrainSequence>& all,
                 at::ScalarType dtype, at::Device device, bool entropy) {
  return run_autograd(shape, config, {batch_of(all, device), batch_of({all[1]}, device)}, dtype, device, entropy);
}

double relative(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

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

struct Case {
  const char* name;
  model::Family family;
  int64_t head_dim;
  bool tied;
  double temperature;
  bool entropy;
};

// As near to fp32 as autograd in bfloat16 is, tensor by tensor.
TEST_F(TrainOnGpu, GradientsAreAutograds) {
  for (const Case& c : {Case{"qwen3", model::Family::kQwen3, 128, false, 1.0, false},
                        Case{"qwen3 tied, cold, entropy", model::Family::kQwen3, 64, true, 0.7, true},
                        Case{"qwen2", model::Family::kQwen2, 64, false, 1.0, true}}) {
    model::ModelConfig shape = small_config(c.family);
    shape.head_dim = c.head_dim;
    shape.tie_embeddings = c.tied;
    TrainConfig config = sample_train_config();
    config.lm_head_chunk = 100;
    config.loss.entropy_coef = c.entropy ? 1 : 0;
    const auto all = sequences(7, c.temperature);
    const Ran own = run_own(shape, config, all, device(), c.entropy);
    const Ran exact = run_autograd(shape, config, all, at::kFloat, at::kCPU, c.entropy);
    const Ran rounded = run_autograd(shape, config, all, at::kBFloat16, device(), c.entropy);
    EXPECT_LT((own.scores.log_probs - exact.scores.log_probs).abs().mean().item<double>(), 0.01) << c.name;
    EXPECT_LT((own.scores.entropy - exact.scores.entropy).abs().mean().item<double>(), 0.01) << c.name;
    for (size_t i = 0; i < own.gradients.size(); ++i) {
      const double error = relative(own.gradients[i].second, exact.gradients[i].second),
                   of_autograd = relative(rounded.gradients[i].second, exact.gradients[i].second);
      EXPECT_LT(error, 1.2 * of_autograd + 2e-3) << c.name << " " << own.gradients[i].first;
    }
  }
}

// Samples of prompts whose shared tokens end in the middle of a block of keys, and of a page; one of no group.
std::vector<TrainSequence> samples_of_prompts() {
  const auto prompts = sequences(2, 1.0, 170, 200), answers = sequences(9, 1.0, 40, 150);
  std::vector<TrainSequence> all{answers[0]};
  for (size_t i = 1; i < answers.size(); ++i) {
    TrainSequence s = prompts[i % 2];
    s.loss_mask.assign(s.tokens.size(), 0);
    s.advantages.assign(s.tokens.size(), 0);
    s.weight_versions.assign(s.tokens.size(), -1);
    const TrainSequence& answer = answers[i];
    s.tokens.insert(s.tokens.end(), answer.tokens.begin(), answer.tokens.end());
    s.loss_mask.insert(s.loss_mask.end(), answer.loss_mask.begin(), answer.loss_mask.end());
    s.old_log_probs.insert(s.old_log_probs.end(), answer.old_log_probs.begin(), answer.old_log_probs.end());
    s.advantages.insert(s.advantages.end(), answer.advantages.begin(), answer.advantages.end());
    s.weight_versions.insert(s.weight_versions.end(), answer.weight_versions.begin(), answer.weight_versions.end());
    all.push_back(std::move(s));
  }
  return all;
}

// As near to fp32's gradients of whole sequences as those of whole sequences are, and the same bits again.
TEST_F(TrainOnGpu, SharedPrefixesHaveTheGradientsOfWholeSequences) {
  const auto all = samples_of_prompts();
  std::vector<size_t> indices(all.size()), order;
  for (size_t i = 0; i < all.size(); ++i) indices[i] = i;
  const std::vector<double> weights(all.size(), 1.0);
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    const model::ModelConfig shape = small_config(family);
    const SharingCosts costs{TrainingFlops(shape), {.unit = tritonforge::gpu::kPage, .block = 0}};
    const auto segments = SharedPrefixes(all, indices, costs).segments(indices);
    order.clear();
    for (const Segment& s : segments) {
      if (s.has_targets) order.push_back(s.sequence);
    }
    const MicroBatch shared = to_device(pack_micro_batch(all, segments, weights, {}, true), device()),
                     whole = make_micro_batch(all, order, weights, {}, device()),
                     on_cpu = make_micro_batch(all, order, weights, {}, at::kCPU);
    EXPECT_GT(shared.shared_tokens, 6 * 128);
    TrainConfig config = sample_train_config();
    config.deterministic = true;
    const Ran once = run_own(shape, config, std::vector{shared}, device(), false),
              again = run_own(shape, config, std::vector{shared}, device(), false),
              each = run_own(shape, config, std::vector{whole}, device(), false),
              exact = run_autograd(shape, config, std::vector{on_cpu}, at::kFloat, at::kCPU, false);
    EXPECT_LT((once.scores.log_probs - exact.scores.log_probs).abs().mean().item<double>(), 0.01);
    EXPECT_TRUE(at::equal(once.scores.log_probs, again.scores.log_probs));
    for (size_t i = 0; i < once.gradients.size(); ++i) {
      const auto& [name, found] = once.gradients[i];
      EXPECT_LT(relative(found, exact.gradients[i].second),
                1.2 * relative(each.gradients[i].second, exact.gradients[i].second) + 2e-3)
          << name;
      EXPECT_TRUE(at::equal(found, again.gradients[i].second)) << name;
    }
  }
}

TEST_F(TrainOnGpu, SharedPrefixesTakeTheStepsOfWholeSequences) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.device = "cuda";
  config.dtype = "bfloat16";
  config.lr = 1e-4;
  config.max_tokens_per_micro_batch = 1024;
  Trainer shared(config, made(shape, at::kBFloat16, device()), std::nullopt);
  config.share_prefixes = false;
  Trainer whole(config, made(shape, at::kBFloat16, device()), std::nullopt);
  const auto all = samples_of_prompts();
  for (int step = 0; step < 5; ++step) {
    const StepMetrics a = shared.train_step(StepKind::kRl, all), b = whole.train_step(StepKind::kRl, all);
    EXPECT_EQ(a.tokens + a.shared_tokens, b.tokens);
    EXPECT_GT(a.shared_tokens, b.tokens / 5);
    EXPECT_NEAR(a.loss, b.loss, 0.01 * (1 + std::fabs(b.loss))) << "step " << step;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 0.03 * b.grad_norm) << "step " << step;
    EXPECT_NEAR(a.entropy, b.entropy, 0.02) << "step " << step;
  }
}

TEST_F(TrainOnGpu, RecomputeAndPaddingChangeNoBit) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.deterministic = true;
  const auto all = sequences(5, 1.0);
  std::vector<Ran> runs;
  for (const auto& [layers, qkv_layers] : {std::pair{0, 0}, {2, 0}, {3, 0}, {0, 3}, {1, 1}}) {
    config.recompute_layers = layers;
    config.recompute_qkv_layers = qkv_layers;
    runs.push_back(run_own(shape, config, all, device(), false));
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
  for (size_t r = 1; r < runs.size(); ++r) {
    EXPECT_TRUE(at::equal(runs[0].scores.log_probs, runs[r].scores.log_probs));
    for (size_t i = 0; i < runs[0].gradients.size(); ++i)
      EXPECT_TRUE(at::equal(runs[0].gradients[i].second, runs[r].gradients[i].second)) << runs[0].gradients[i].first;
  }
}

// A checkpoint that is written from a copy while the trainer goes on is of its step; a trainer that goes on from it
// takes the same steps to the bit.
TEST_F(TrainOnGpu, ACheckpointBehindTheStepsGoesOn) {
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  write_file_atomic(folder.path() / "model" / "tokenizer.json", "{}");
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = sample_train_config();
    config.model = folder.path() / "model";
    config.device = "cuda";
    config.dtype = "bfloat16";
    config.deterministic = true;
    config.optimizer_state = states;
    config.max_tokens_per_micro_batch = 512;
    const auto all = sequences(6, 1.0);
    const auto straight = make_trainer(config);
    CheckpointStore store(folder.path() / std::string(name_of(states)), 2);
    for (int step = 0; step < 2; ++step) {  // the second into the memory of the first
      straight->train_step(StepKind::kSft, all);
      store.collect(true);
      store.save_behind(*straight, {}, [] {});
    }
    straight->train_step(StepKind::kSft, all);
    const auto path = store.collect(true);
    ASSERT_TRUE(path);
    const auto resumed = resume_trainer(config, *path);
    EXPECT_EQ(resumed->state().step, 2);
    EXPECT_EQ(resumed->train_step(StepKind::kSft, all).loss, straight->state().last.loss);
    EXPECT_EQ(model::weight_checksums(resumed->model()), model::weight_checksums(straight->model()));
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
}

// Its tensors are those of fp32: what one wrote the other reads, and takes the steps that the first would have taken.
TEST_F(TrainOnGpu, CheckpointsOfHostStatesAndOfDeviceStatesAreTheSame) {
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  write_file_atomic(folder.path() / "model" / "tokenizer.json", "{}");
  TrainConfig config = sample_train_config();
  config.model = folder.path() / "model";
  config.device = "cuda";
  config.dtype = "bfloat16";
  config.deterministic = true;
  config.max_tokens_per_micro_batch = 512;
  const auto all = sequences(6, 1.0);
  for (const auto& [before, after] : {std::pair{OptimizerState::kFp32, OptimizerState::kCpu},
                                      std::pair{OptimizerState::kCpu, OptimizerState::kFp32}}) {
    config.optimizer_state = before;
    const auto straight = make_trainer(config);
    for (int step = 0; step < 2; ++step) straight->train_step(StepKind::kSft, all);
    CheckpointStore store(folder.path() / std::string(name_of(before)), 1);
    store.save(*straight, {});
    config.optimizer_state = after;
    const auto resumed = resume_trainer(config, store.latest());
    for (const auto& trainer : {&straight, &resumed}) (*trainer)->train_step(StepKind::kSft, all);
    EXPECT_EQ(model::weight_checksums(resumed->model()), model::weight_checksums(straight->model()));
    const StatePieces a = straight->optimizer().state(), b = resumed->optimizer().state();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].values.cpu(), b[i].values.cpu())) << a[i].name;
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// On any thread, as the server's: CUDA begins each with the first GPU.
TEST_F(TrainOnGpu, ATrainerOnTheSecondGpuIsTheFirstsTwin) {
  int devices = 0;
  tritonforge::gpu::check_cuda(tritonforge::gpu::open_cuda_library().device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one GPU";
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  ServiceOptions options;
  options.config = sample_train_config();
  options.config.model = folder.path() / "model";
  options.config.dtype = "bfloat16";
  options.config.deterministic = true;
  options.config.max_tokens_per_micro_batch = 512;
  std::vector<double> losses;  // of two steps on each
  for (const char* device : {"cuda:0", "cuda:1"}) {
    options.config.device = device;
    TrainerService service(options);
    const auto step = [&service](int64_t number) {
      service.set_up_thread();
      const StepRequest request{.kind = StepKind::kSft, .step = number, .sequences = sequences(6, 1.0)};
      return service.step([&request] { return request; }).metrics.loss;
    };
    losses.push_back(step(1));
    losses.push_back(std::async(std::launch::async, step, 2).get());
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_EQ(losses[3], losses[1]);
}

// What the trainer says it takes is what it takes, and every step says how long its parts took and what it reached.
void expect_used_as_planned(at::Device device) {
  const auto used = [&] { return kernels::used_memory(device); };
  for (const auto& [states, layers, qkv_layers] : {std::tuple{OptimizerState::kBf16Sr, 0, 0},
                                                   {OptimizerState::kFp32, 0, 4},
                                                   {OptimizerState::kBf16Sr, 3, 1},
                                                   {OptimizerState::kCpu, 0, 0}}) {
    at::getDeviceAllocator(at::kCUDA)->emptyCache();
    TrainConfig config;
    config.device = "cuda";
    config.optimizer_state = states;
    config.recompute_layers = layers;
    config.recompute_qkv_layers = qkv_layers;
    config.max_tokens_per_micro_batch = 6144;
    auto model = random_qwen3_8b("cuda", 4);
    const int64_t before = used();
    const auto started = Clock::now();
    Trainer trainer(config, std::move(*model), std::nullopt, device_rate(device, at::kBFloat16));
    const auto all = sequences(16, 1.0, 300, 400);
    StepMetrics metrics;
    for (int step = 0; step < 3; ++step) metrics = trainer.train_step(StepKind::kSft, all);
    const double off = static_cast<double>(used() - before) / static_cast<double>(trainer.memory_plan()->total()) - 1;
    for (const std::string& line : trainer.memory_plan()->lines()) fmt::print("{}\n", line);
    fmt::print("{:+.2f} % used\n", 100 * off);
    EXPECT_NEAR(off, 0, 0.05);

    double parts = 0;
    for (const double seconds : metrics.part_seconds) parts += seconds;
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kForward)], 0);
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kBackward)], 0);
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kUpdate)], 0);
    EXPECT_LT(parts, seconds_since(started));
    EXPECT_GT(metrics.mfu, 0.01);
    EXPECT_LT(metrics.mfu, 1);
    EXPECT_LT(metrics.of_product_rate, 1);
    fmt::print("{}\n", figures_json(metrics).dump());
  }
}

TEST_F(TrainOnGpu, TheMemoryPlanIsWhatIsUsed) {
  // In a process of its own: the plan counts the code of kernels and the libraries' workspaces, which the tests before
  // this one have loaded in theirs.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        expect_used_as_planned(device());
        std::exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

// 200 steps of own passes and of autograd, both in bfloat16 with fp32 states: as near to each other as either is to
// fp32 on the CPU.
TEST_F(TrainOnGpu, LearnsAsAutogradOver200Steps) {
  model::ModelConfig shape = small_config(model::Family::kQwen3);
  shape.num_layers = 2;
  TrainConfig config = sample_train_config();
  config.dtype = "bfloat16";
  config.lr = 2e-4;
  const auto trainer = [&](bool autograd, at::ScalarType dtype, at::Device on) {
    TrainConfig own = config;
    own.autograd = autograd;
    return std::make_unique<Trainer>(own, made(shape, dtype, on), std::nullopt);
  };
  const auto own = trainer(false, at::kBFloat16, device()), reference = trainer(true, at::kBFloat16, device()),
             exact = trainer(false, at::kFloat, at::kCPU);
  std::vector<double> of_own, of_reference;  // how far the losses are from fp32's
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto all = sequences(4, 1.0, 20, 60 + static_cast<size_t>(step % 5));
    const double a = own->train_step(StepKind::kSft, all).loss, b = reference->train_step(StepKind::kSft, all).loss,
                 c = exact->train_step(StepKind::kSft, all).loss;
    of_own.push_back(a - c);
    of_reference.push_back(b - c);
    if (step == 0) first = a;
    last = a;
  }
  const auto root_mean_square = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  fmt::print("loss {:.4f} -> {:.4f}; off fp32's by {:.2e} own, {:.2e} autograd\n", first, last,
             root_mean_square(of_own), root_mean_square(of_reference));
  EXPECT_LT(last, first / 2) << "nothing was learned";
  EXPECT_LT(root_mean_square(of_own), 1.5 * root_mean_square(of_reference) + 1e-3);
}

// The head's gradient in the forward pass is the one of the backward pass: to the bit where there is one chunk, else
// summed over the chunks in the other order.
TEST_F(TrainOnGpu, GradientsThatAreKnownBefore) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  const auto all = sequences(5, 0.8);
  const MicroBatch batch = batch_of(all, device());
  const model::Model model = made(shape, at::kBFloat16, device());
  for (const LossConfig& loss : losses_of_each_token()) {
    ASSERT_TRUE(is_of_each_token(loss));
    const KnownGradients known = [&](const TargetSlice& targets, const TargetScores& scores) {
      return policy_gradients(sample_inputs(batch, targets, scores), loss);
    };
    for (const int64_t chunk : {64, 4096}) {
      TrainConfig config = sample_train_config();
      config.deterministic = true;
      config.lm_head_chunk = chunk;
      std::vector<std::unique_ptr<Gradients>> runs;
      for (const bool once : {true, false}) {
        runs.push_back(std::make_unique<Gradients>(Gradients{.sums = model::Model(shape, at::kFloat, device())}));
        const auto pass = make_gpu_pass(model, config, runs.back().get());
        const TargetScores scores = pass->forward(batch, true, once ? known : nullptr);
        pass->backward(once ? ScoreGradients{} : known({0, batch.target_count}, scores));
      }
      const auto a = runs[0]->sums.named_parameters(), b = runs[1]->sums.named_parameters();
      for (size_t i = 0; i < a.size(); ++i) {
        if (chunk == 4096) EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
        else EXPECT_LT(relative(a[i].second.to(at::kDouble), b[i].second.to(at::kDouble)), 1e-5) << a[i].first;
      }
    }
  }
}

// fp32 states against AdamW over the same gradients, one step with NaN among them.
TEST_F(TrainOnGpu, FlatAdamWIsAdamW) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.clip_grad = 0.5;
  const model::Model own = made(shape, at::kBFloat16, device()), reference = made(shape, at::kBFloat16, at::kCPU);
  Gradients gradients{.sums = model::Model(shape, at::kFloat, device())};
  FlatAdamW flat(own, gradients, {}, config);
  AdamW adamw(reference.named_parameters(), config);
  for (int step = 1; step <= 6; ++step) {
    const auto sums = gradients.sums.named_parameters(), parameters = reference.named_parameters();
    for (size_t i = 0; i < sums.size(); ++i) {
      at::Tensor gradient = at::randn(sums[i].second.sizes()).mul_(step == 2 ? 1e-6 : 0.1).to(at::kBFloat16);
      if (step == 4 && i == 3) gradient.flatten()[5] = std::numeric_limits<float>::quiet_NaN();
      sums[i].second.copy_(gradient);
      at::Tensor parameter = parameters[i].second;
      parameter.mutable_grad() = gradient;
    }
    gradients.empty = false;
    adamw.accumulate_gradients();
    const auto a = flat.step(1e-2), b = adamw.step(1e-2);
    EXPECT_EQ(a.skipped.cpu().item<float>(), step == 4 ? 1 : 0);
    EXPECT_EQ(b.skipped.item<float>(), step == 4 ? 1 : 0);
    if (step != 4) {
      const auto norm = b.gradient_norm.item<float>();
      EXPECT_NEAR(a.gradient_norm.cpu().item<float>(), norm, 1e-4 * norm);
    }
    EXPECT_TRUE(gradients.empty);
  }
  const auto a = flat.state(), b = adamw.state();
  ASSERT_EQ(a.size(), b.size());
  std::map<std::string, at::Tensor> expected;
  for (const StatePiece& piece : b) expected[piece.name] = piece.values;
  for (const StatePiece& piece : a) {
    ASSERT_EQ(expected.count(piece.name), 1u) << piece.name;
    const double scale = expected[piece.name].abs().max().item<double>();
    EXPECT_LT((piece.values.cpu() - expected[piece.name]).abs().max().item<double>(), 2e-5 * scale) << piece.name;
  }
  const auto weights = own.named_parameters();
  std::map<std::string, at::Tensor> masters;
  for (const StatePiece& piece : a) masters[piece.name] = piece.values;
  for (const auto& [name, tensor] : weights)
    EXPECT_TRUE(at::equal(tensor, masters["master." + name].to(at::kBFloat16)));
}

// The CPU's update of states in the host's memory is the kernel's of states on the GPU, to the bit: a model of several
// buckets, the last of them not full, one step with NaN among the gradients.
TEST_F(TrainOnGpu, StatesOnTheHostAreThoseOfTheDevice) {
  model::ModelConfig shape = small_config(model::Family::kQwen3);
  shape.vocab_size = 100'000;
  shape.tie_embeddings = false;
  TrainConfig config = sample_train_config();
  config.clip_grad = 0.5;
  struct Side {
    model::Model model;
    Gradients gradients;
    std::unique_ptr<FlatAdamW> adamw;
  };
  std::vector<std::unique_ptr<Side>> sides;
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kCpu}) {
    config.optimizer_state = states;
    sides.push_back(std::make_unique<Side>(
        Side{made(shape, at::kBFloat16, device()), {.sums = model::Model(shape, at::kFloat, device())}, nullptr}));
    Side& side = *sides.back();
    side.adamw = std::make_unique<FlatAdamW>(side.model, side.gradients, parallel::Groups{}, config);
  }
  const int64_t weights = sides[0]->model.arena().numel();
  ASSERT_GT(weights, (gpu::HostExchange::kSlots + 2) * gpu::HostExchange::kBucket) << "places are used again";
  ASSERT_NE(weights % gpu::HostExchange::kBucket, 0);
  for (int step = 1; step <= 6; ++step) {
    const at::Tensor gradient = at::randn_like(sides[0]->gradients.sums.arena()).mul_(step == 2 ? 1e-9 : 0.1);
    if (step == 4) gradient[5].fill_(std::numeric_limits<float>::quiet_NaN());
    std::vector<float> norms;
    for (const auto& side : sides) {
      side->gradients.sums.arena().copy_(gradient);
      side->gradients.empty = false;
      const Optimizer::Applied applied = side->adamw->step(1e-2);
      EXPECT_EQ(applied.skipped.cpu().item<float>(), step == 4 ? 1 : 0);
      norms.push_back(applied.gradient_norm.cpu().item<float>());
    }
    if (step != 4) {
      EXPECT_EQ(norms[0], norms[1]);
    }
    const auto on_device = sides[0]->model.named_parameters(), on_host = sides[1]->model.named_parameters();
    for (size_t i = 0; i < on_device.size(); ++i)
      EXPECT_TRUE(at::equal(on_device[i].second, on_host[i].second)) << on_device[i].first << ", step " << step;
  }
  const StatePieces a = sides[0]->adamw->state(), b = sides[1]->adamw->state();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(b[i].name.starts_with("step.") || b[i].values.is_cpu()) << b[i].name;
    EXPECT_TRUE(at::equal(a[i].values.cpu(), b[i].values.cpu())) << a[i].name;
  }
}

// A thousand steps of a hundredth of a rounding step each: as far as fp32 would go, on the mean and within chance.
TEST_F(TrainOnGpu, RoundingAtRandomLosesNothingOnTheMean) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.optimizer_state = OptimizerState::kBf16Sr;
  config.weight_decay = 0;
  config.clip_grad = 0;
  model::Model own(shape, at::kBFloat16, device()), again(shape, at::kBFloat16, device());
  for (model::Model* model : {&own, &again}) {
    model->arena().fill_(1);
    Gradients gradients{.sums = model::Model(shape, at::kBFloat16, device())};
    FlatAdamW flat(*model, gradients, {}, config);
    for (int step = 0; step < 1000; ++step) {
      gradients.sums.arena().fill_(1);
      gradients.empty = false;
      flat.step(1e-5);  // Adam moves by the learning rate; bfloat16 below 1 goes in steps of 0.0039
    }
  }
  const at::Tensor moved = own.embed_tokens().to(at::kFloat);
  EXPECT_NEAR(moved.mean().item<double>(), 0.99, 2e-4);
  EXPECT_GT(moved.std().item<double>(), 1e-3);  // by chance, not all together
  EXPECT_TRUE(at::equal(own.arena(), again.arena()));
}

// A checkpoint's tensors put back go on as if nothing had happened, to the bit.
TEST_F(TrainOnGpu, StatesPutBackGoOn) {
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = sample_train_config();
    config.dtype = "bfloat16";
    config.deterministic = true;
    config.optimizer_state = states;
    config.max_tokens_per_micro_batch = 512;
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    const model::ModelConfig shape = small_config(model::Family::kQwen3);
    const auto all = sequences(6, 1.0);
    Trainer straight(config, made(shape, at::kBFloat16, device()), std::nullopt);
    Trainer resumed(config, made(shape, at::kBFloat16, device()), std::nullopt);
    straight.train_step(StepKind::kSft, all);
    straight.train_step(StepKind::kSft, all);
    {
      const at::NoGradGuard no_grad;
      const auto from = straight.optimizer().state();
      auto to = resumed.optimizer().state();
      for (size_t i = 0; i < to.size(); ++i) to[i].values.copy_(from[i].values);
      resumed.model().arena().copy_(straight.model().arena());
      resumed.restore(straight.state());
    }
    const StepMetrics a = straight.train_step(StepKind::kSft, all), b = resumed.train_step(StepKind::kSft, all);
    at::globalContext().setDeterministicAlgorithms(false, false);
    EXPECT_EQ(a.loss, b.loss);
    for (size_t i = 0; i < straight.model().named_parameters().size(); ++i) {
      EXPECT_TRUE(
          at::equal(straight.model().named_parameters()[i].second, resumed.model().named_parameters()[i].second));
    }
  }
}

}  // namespace
}  // namespace tritonforge::train
