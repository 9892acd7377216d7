#include "model/model.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <new>

#include "kernels/parallel.h"
#include "unit/model/small_models.h"

namespace tritonforge::model {
namespace {

using testing_models::forward_hidden;
using testing_models::small_config;
using testing_models::small_model;

double max_abs(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Blocks, RmsNormIsTheFormula) {
  const at::Tensor x = at::randn({3, 8}), weight = at::randn({8});
  const at::Tensor y = rms_norm(x, weight, 1e-6);
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 8; ++i) sum += std::pow(x[row][i].item<double>(), 2);
    const double scale = 1.0 / std::sqrt(sum / 8 + 1e-6);
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(y[row][i].item<double>(), x[row][i].item<double>() * scale * weight[i].item<double>(), 1e-5);
    }
  }
}

TEST(Blocks, RopeTurnsEachPairByPositionTimesFrequency) {
  const int64_t d = 8;
  const double theta = 10000.0;
  const at::Tensor positions = at::tensor({0, 1, 977}, at::kLong), x = at::randn({3, 2, d});
  const auto [cos, sin] = rope_table(positions, rope_inv_freq(d, theta, at::kCPU));
  const at::Tensor y = apply_rope(x, cos, sin);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < d / 2; ++i) {
        const double angle = positions[t].item<double>() * std::pow(theta, -2.0 * static_cast<double>(i) / d);
        const double a = x[t][h][i].item<double>(), b = x[t][h][i + d / 2].item<double>();
        EXPECT_NEAR(y[t][h][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 2e-4);
        EXPECT_NEAR(y[t][h][i + d / 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 2e-4);
      }
    }
  }
}

TEST(Blocks, SwigluIsTheFormula) {
  const at::NoGradGuard no_grad;
  LayerWeights w;
  w.gate_up_proj = at::randn({12, 4});
  w.gate_proj = w.gate_up_proj.narrow(0, 0, 6);
  w.up_proj = w.gate_up_proj.narrow(0, 6, 6);
  w.down_proj = at::randn({4, 6});
  const at::Tensor x = at::randn({3, 4});
  const at::Tensor gate = x.matmul(w.gate_proj.t()), up = x.matmul(w.up_proj.t());
  EXPECT_LT(max_abs(swiglu_mlp(x, w), (gate * at::sigmoid(gate) * up).matmul(w.down_proj.t())), 1e-4);
}

// Softmax over the keys up to the query's own, written as loops.
at::Tensor attention_by_loops(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const std::vector<int64_t>& bounds) {
  at::Tensor out = at::zeros_like(q);
  const int64_t group = q.size(1) / k.size(1);
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    for (int64_t t = bounds[s]; t < bounds[s + 1]; ++t) {
      for (int64_t h = 0; h < q.size(1); ++h) {
        std::vector<double> scores;
        double top = -1e30, sum = 0;
        for (int64_t u = bounds[s]; u <= t; ++u) {
          scores.push_back((q[t][h] * k[u][h / group]).sum().item<double>() /
                           std::sqrt(static_cast<double>(q.size(2))));
          top = std::max(top, scores.back());
        }
        for (double& score : scores) sum += score = std::exp(score - top);
        for (int64_t u = bounds[s]; u <= t; ++u) out[t][h] += v[u][h / group] * (scores[u - bounds[s]] / sum);
      }
    }
  }
  return out;
}

TEST(PackedAttention, IsCausalSoftmaxWithinEachSequence) {
  const at::Tensor q = at::randn({9, 4, 8}), k = at::randn({9, 2, 8}), v = at::randn({9, 2, 8});
  const std::vector<int64_t> bounds{0, 5, 6, 6, 9};
  EXPECT_LT(max_abs(packed_attention(bounds)(0, q, k, v), attention_by_loops(q, k, v, bounds)), 1e-5);
}

TEST(PackedAttention, RefusesBoundsThatDoNotFit) {
  const at::Tensor q = at::randn({4, 1, 8});
  EXPECT_THROW(packed_attention({0, 5})(0, q, q, q), Error);
  EXPECT_THROW(packed_attention({0, 3, 2}), Error);
  EXPECT_THROW(packed_attention({1, 3}), Error);
}

class BothFamilies : public ::testing::TestWithParam<Family> {};

TEST_P(BothFamilies, PackedEqualsEachSequenceAlone) {
  const at::NoGradGuard no_grad;
  const Model model = small_model(small_config(GetParam()));
  const at::Tensor a = at::randint(0, 40, {7}, at::kLong), b = at::randint(0, 40, {4}, at::kLong);
  const at::Tensor positions = at::cat({at::arange(7), at::arange(4)});
  const at::Tensor packed = model.forward(at::cat({a, b}), positions, packed_attention({0, 7, 11}));
  EXPECT_LT(max_abs(packed.narrow(0, 0, 7), forward_hidden(model, a)), 1e-5);
  EXPECT_LT(max_abs(packed.narrow(0, 7, 4), forward_hidden(model, b)), 1e-5);
}

TEST_P(BothFamilies, SomeRowsAloneHaveTheBitsOfAllOfThem) {
  const at::NoGradGuard no_grad;
  Model model = small_model(small_config(GetParam()));
  model.pack();
  const at::Tensor ids = at::randint(0, 40, {11}, at::kLong);
  const at::Tensor positions = at::cat({at::arange(7), at::arange(4)});
  const auto hidden = [&](const at::Tensor& rows) {
    return model.forward(ids, positions, packed_attention({0, 7, 11}), {.rows = rows});
  };
  const at::Tensor all = hidden({});
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{6, 10}, {3, 0, 3}, {}}) {
    const at::Tensor some = at::tensor(rows, at::kLong);
    EXPECT_TRUE(hidden(some).equal(all.index_select(0, some))) << some;
  }
}

TEST_P(BothFamilies, GradAndNoGradGiveTheSameNumbers) {
  Model model = small_model(small_config(GetParam()));
  const at::Tensor ids = at::randint(0, 40, {6}, at::kLong);
  at::Tensor without;
  {
    const at::NoGradGuard no_grad;
    without = forward_hidden(model, ids);
  }
  for (auto& [name, tensor] : model.named_parameters()) tensor.requires_grad_();
  EXPECT_LT(max_abs(forward_hidden(model, ids).detach(), without), 1e-5);
}

TEST_P(BothFamilies, RecomputeGivesBitwiseTheSameGradients) {
  Model model = small_model(small_config(GetParam()));
  for (auto& [name, tensor] : model.named_parameters()) tensor.requires_grad_();
  const at::Tensor ids = at::randint(0, 40, {11}, at::kLong);
  const at::Tensor positions = at::cat({at::arange(7), at::arange(4)});
  std::vector<at::Tensor> reference;
  for (const int64_t recomputed : {0, 1, 2, 3}) {
    const at::Tensor hidden = model.forward(ids, positions, packed_attention({0, 7, 11}),
                                            {.recompute_layers = recomputed});
    model.logits(hidden).log_softmax(-1).select(1, 3).sum().backward();
    size_t i = 0;
    for (auto& [name, tensor] : model.named_parameters()) {
      ASSERT_TRUE(tensor.grad().defined()) << name;
      if (recomputed == 0) {
        reference.push_back(tensor.grad().clone());
      } else {
        EXPECT_TRUE(at::equal(tensor.grad(), reference[i++])) << name << " with " << recomputed;
      }
      tensor.mutable_grad().reset();
    }
  }
}

TEST_P(BothFamilies, GradientsAgreeWithFiniteDifferences) {
  Model model = small_model(small_config(GetParam()));
  for (auto& [name, tensor] : model.named_parameters()) tensor.requires_grad_();
  const at::Tensor ids = at::randint(0, 40, {6}, at::kLong);
  const auto loss = [&] { return model.logits(forward_hidden(model, ids)).log_softmax(-1).select(1, 3).mean(); };
  loss().backward();
  for (auto& [name, tensor] : model.named_parameters()) {
    // Along the gradient itself the change is |gradient|^2 * step: large enough to be seen in fp32.
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = tensor.grad();
    const double norm = gradient.norm().item<double>();
    if (norm < 1e-3) continue;
    const double step = 5e-3 / norm;
    const at::Tensor saved = tensor.clone();
    tensor.copy_(saved + gradient * step);
    const double up = loss().item<double>();
    tensor.copy_(saved - gradient * step);
    const double down = loss().item<double>();
    tensor.copy_(saved);
    EXPECT_NEAR((up - down) / (2 * step), norm * norm, 0.05 * norm * norm + 1e-5) << name;
  }
}

TEST_P(BothFamilies, ParametersAreLeavesThatShareFusedRows) {
  Model model = small_model(small_config(GetParam()));
  for (auto& [name, tensor] : model.named_parameters()) {
    tensor.requires_grad_();
    EXPECT_TRUE(tensor.is_leaf() && !tensor.is_view()) << name;
    EXPECT_TRUE(tensor.is_contiguous()) << name;
  }
  int64_t count = 0;
  for (auto& [name, tensor] : model.named_parameters()) count += tensor.numel();
  EXPECT_EQ(count, model.config().parameter_count());
}

TEST_P(BothFamilies, FrozenParametersGetNoGradient) {
  Model model = small_model(small_config(GetParam()));
  for (auto& [name, tensor] : model.named_parameters()) {
    if (name.ends_with("v_proj.weight")) tensor.requires_grad_();
  }
  for (const int64_t recomputed : {0, 3}) {
    const at::Tensor ids = at::randint(0, 40, {6}, at::kLong);
    model.forward(ids, at::arange(6), packed_attention({0, 6}), {.recompute_layers = recomputed}).sum().backward();
    for (auto& [name, tensor] : model.named_parameters())
      EXPECT_EQ(tensor.grad().defined(), name.ends_with("v_proj.weight")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BothFamilies, ::testing::Values(Family::kQwen2, Family::kQwen3),
                         [](const auto& info) { return info.param == Family::kQwen2 ? "Qwen2" : "Qwen3"; });

TEST(Model, InitRandomIsAFunctionOfSeedAndName) {
  Model a = small_model(small_config(Family::kQwen3)), b = small_model(small_config(Family::kQwen3));
  ModelConfig deeper = small_config(Family::kQwen3);
  deeper.num_layers = 5;
  Model c(deeper, at::kFloat, at::kCPU);
  c.init_random(7, 0.2);
  const auto first = a.named_parameters(), second = b.named_parameters();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i].second, second[i].second)) << first[i].first;
  for (const auto& [name, tensor] : c.named_parameters()) {
    for (const auto& [other, found] : first) {
      if (name == other) {
        EXPECT_TRUE(at::equal(tensor, found)) << name;
      }
    }
  }
  b.init_random(8, 0.2);
  EXPECT_FALSE(at::equal(a.lm_head(), b.lm_head()));
}

// Every weight is in the arena, none overlaps another, and each begins where an allocation of its own might.
TEST(ModelArena, HoldsEveryWeightOnce) {
  for (const Family family : {Family::kQwen2, Family::kQwen3}) {
    const Model model = small_model(small_config(family));
    const at::Tensor& arena = model.arena();
    arena.zero_();
    int64_t elements = 0;
    for (auto& [name, tensor] : model.named_parameters()) {
      EXPECT_TRUE(tensor.is_alias_of(arena)) << name;
      EXPECT_TRUE(tensor.is_contiguous()) << name;
      EXPECT_EQ(tensor.abs().sum().item<float>(), 0) << name << " overlaps another";
      at::Tensor(tensor).fill_(1);
      elements += tensor.numel();
    }
    EXPECT_EQ(arena.sum().item<float>(), static_cast<float>(elements));
    EXPECT_EQ(model.layers()[1].qkv_proj.storage_offset() * 4 % 256, 0);
    EXPECT_EQ(model.layers()[1].down_proj.storage_offset() * 4 % 256, 0);
  }
}

TEST(ModelArena, LayoutIsOfNamesShapesAndDtype) {
  const ModelConfig config = small_config(Family::kQwen3);
  const std::string layout = small_model(config).layout();
  Model other = small_model(config);
  other.init_random(9);
  EXPECT_EQ(other.layout(), layout);
  EXPECT_NE(small_model(config, at::kBFloat16).layout(), layout);
  ModelConfig wider = config;
  wider.intermediate_size += 8;
  EXPECT_NE(small_model(wider).layout(), layout);
  EXPECT_NE(small_model(small_config(Family::kQwen2)).layout(), layout);
}

// In a child, for the limit is the process's: what has to be mapped for the panels is refused.
TEST(Pack, OfNoMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "its allocator ends the process";
#endif
  ModelConfig config = small_config(Family::kQwen3);
  config.hidden_size = 2048;  // gate and up are more than an allocator has at hand
  config.intermediate_size = 4096;
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::ThreadPool threads(2);
    Model model(config, at::kFloat, at::kCPU);
    const rlimit none{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(9);
    try {
      model.pack();
    } catch (const std::bad_alloc&) {
      ::_exit(0);
    }
    ::_exit(8);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// So weights that come while the machine has no memory left are installed whole.
TEST(Pack, AgainTakesNoMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "its allocator ends the process";
#endif
  ModelConfig config = small_config(Family::kQwen3);
  config.hidden_size = 2048;
  config.intermediate_size = 4096;
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::ThreadPool threads(2);
    const at::NoGradGuard no_grad;
    Model model(config, at::kFloat, at::kCPU);
    model.init_random(1);
    model.pack();
    Model other(config, at::kFloat, at::kCPU);
    other.init_random(2);
    other.pack();
    model.init_random(2);
    const rlimit none{1 << 20, RLIM_INFINITY}, any{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(9);
    try {
      model.pack();
    } catch (const std::bad_alloc&) {
      ::_exit(8);
    }
    if (::setrlimit(RLIMIT_AS, &any) != 0) ::_exit(9);
    const at::Tensor ids = at::arange(5), hidden = forward_hidden(other, ids);
    ::_exit(forward_hidden(model, ids).equal(hidden) && model.logits(hidden).equal(other.logits(hidden)) ? 0 : 7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tritonforge::model
