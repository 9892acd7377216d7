#include "kernels/fused_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>

namespace tritonforge::kernels {
namespace {

using Op = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Output and gradients of every input that takes one.
std::vector<at::Tensor> outputs(const Op& op, const std::vector<at::Tensor>& values, size_t with_gradient) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < values.size(); ++i)
    inputs.push_back(values[i].detach().clone().requires_grad_(i < with_gradient));
  const at::Tensor y = op(inputs);
  at::manual_seed(9);
  y.backward(at::randn(y.sizes()).to(y.scalar_type()));
  std::vector<at::Tensor> result{y.detach()};
  for (size_t i = 0; i < with_gradient; ++i) result.push_back(inputs[i].grad());
  return result;
}

// The fused version in `dtype` against the reference in float64 on the same (rounded) inputs.
void compare(const Op& ours, const Op& reference, const std::vector<at::Tensor>& values, size_t with_gradient,
             const char* what) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> narrow, wide;
    for (size_t i = 0; i < values.size(); ++i) {
      narrow.push_back(values[i].to(i < with_gradient ? dtype : at::kFloat));
      wide.push_back(narrow.back().to(at::kFloat));
    }
    const auto a = outputs(ours, narrow, with_gradient), b = outputs(reference, wide, with_gradient);
    const double tolerance = dtype == at::kFloat ? 2e-5 : 2e-2;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].scalar_type(), dtype);
      const double scale = 1 + b[i].abs().max().item<double>();
      EXPECT_LT((a[i].to(at::kFloat) - b[i]).abs().max().item<double>(), tolerance * scale)
          << what << " " << dtype << " output " << i;
    }
    at::NoGradGuard no_grad;  // without recording, the same bits
    EXPECT_TRUE(at::equal(ours(narrow), a[0])) << what;
  }
}

TEST(FusedOps, RmsNorm) {
  at::manual_seed(1);
  for (const auto& [rows, d] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 33}, {300, 64}, {1000, 256}, {40, 896}}) {
    compare([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); },
            [](const auto& in) { return rms_norm_reference(in[0], in[1], 1e-6); },
            {at::randn({rows, d}) * 3, at::randn({d})}, 2, "rms_norm");
  }
  const at::Tensor x = at::randn({5, 4, 32});  // heads
  EXPECT_TRUE(at::allclose(rms_norm(x, at::ones({32}), 1e-6), rms_norm_reference(x, at::ones({32}), 1e-6), 1e-5, 1e-6));
  const at::Tensor strided = at::randn({6, 80}).narrow(1, 8, 64);
  EXPECT_TRUE(at::allclose(rms_norm(strided, at::ones({64}), 1e-6), rms_norm_reference(strided, at::ones({64}), 1e-6),
                           1e-5, 1e-6));
}

TEST(FusedOps, Rope) {
  at::manual_seed(2);
  for (const auto& [tokens, heads, d] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 2}, {37, 3, 6}, {200, 8, 32}, {50, 2, 128}}) {
    const at::Tensor angle = at::rand({tokens, d / 2}) * 100;
    compare([](const auto& in) { return rope(in[0], in[1], in[2]); },
            [](const auto& in) { return rope_reference(in[0], in[1], in[2]); },
            {at::randn({tokens, heads, d}), angle.cos(), angle.sin()}, 1, "rope");
  }
}

TEST(FusedOps, SwiGlu) {
  at::manual_seed(3);
  for (const int64_t n : {1, 17, 1000, 70000}) {
    compare([](const auto& in) { return swiglu(in[0], in[1]); },
            [](const auto& in) { return swiglu_reference(in[0], in[1]); }, {at::randn({n}) * 6, at::randn({n})}, 2,
            "swiglu");
  }
  // Far out, where exp would overflow.
  const at::Tensor gate = at::tensor({-1000.0f, -90.0f, 0.0f, 90.0f, 1000.0f});
  EXPECT_TRUE(at::allclose(swiglu(gate, at::ones({5})), swiglu_reference(gate, at::ones({5})), 1e-5, 1e-30));
}

TEST(FusedOps, TheNumberOfThreadsChangesNoBit) {
  at::manual_seed(4);
  const std::vector<at::Tensor> values{at::randn({3000, 64}), at::randn({64})};
  const Op op = [](const auto& in) { return rms_norm(in[0], in[1], 1e-6); };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = outputs(op, values, 2);
  at::set_num_threads(3);
  const auto three = outputs(op, values, 2);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i]));
}

TEST(FusedOps, ANaNStaysOne) {
  const at::Tensor x = at::full({2, 16}, std::nan(""), at::kBFloat16);
  EXPECT_TRUE(rms_norm(x, at::ones({16}, at::kBFloat16), 1e-6).isnan().all().item<bool>());
  EXPECT_TRUE(swiglu(x, x).isnan().all().item<bool>());
}

}  // namespace
}  // namespace tritonforge::kernels
