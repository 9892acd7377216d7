#include "kernels/linear.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/parallel.h"

// BLAS as libtorch exports it; a libtorch without one computes in at::linear.
extern "C" __attribute__((weak)) void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                                             const int* k, const float* alpha, const float* a, const int* lda,
                                             const float* b, const int* ldb, const float* beta, float* c,
                                             const int* ldc);

namespace tritonforge::kernels {
namespace {

constexpr int64_t kPanels = 4;           // of the output, of which threads take one after another
constexpr int64_t kColumns = 48;         // that MKL's kernels take at once: panels are multiples
constexpr int64_t kWorth = 64 * 1024;    // multiplications of a panel at least
constexpr int64_t kLargest = INT32_MAX;  // BLAS counts in 32 bits

bool shared_out(const at::Tensor& x, const at::Tensor& weight) {
  if (sgemm_ == nullptr || ThreadPool::of_this_thread() == nullptr || at::GradMode::is_enabled()) return false;
  return x.is_cpu() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && x.dim() == 2 &&
         weight.dim() == 2 && x.is_contiguous() && weight.is_contiguous() && x.size(1) == weight.size(1) &&
         x.numel() > 0 && weight.numel() > 0 && std::max(x.size(0), weight.size(0)) < kLargest && x.size(1) < kLargest;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!shared_out(x, weight)) {
    return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  }
  const int64_t tokens = x.size(0), in = x.size(1), out = weight.size(0);
  at::Tensor y = at::empty({tokens, out}, x.options());
  const float *rows = x.const_data_ptr<float>(), *weights = weight.const_data_ptr<float>(),
              *biases = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  auto* result = y.mutable_data_ptr<float>();
  // The same calls whatever the threads: BLAS may divide a sum otherwise in a wider product.
  const int64_t panel = std::max((out + kPanels * kColumns - 1) / (kPanels * kColumns),
                                 kWorth / (kColumns * in * tokens)) *
                        kColumns;
  const auto part = [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * panel; first < std::min(end * panel, out); first += panel) {
      const int64_t count = std::min(panel, out - first);
      const float one = 1, beta = biases != nullptr ? 1 : 0;
      for (int64_t t = 0; biases != nullptr && t < tokens; ++t)
        std::copy_n(biases + first, count, result + t * out + first);
      const int m = static_cast<int>(count), n = static_cast<int>(tokens), k = static_cast<int>(in),
                ldc = static_cast<int>(out);
      sgemm_("T", "N", &m, &n, &k, &one, weights + first * in, &k, rows, &k, &beta, result + first, &ldc);
    }
  };
  over_threads((out + panel - 1) / panel, 1, part);
  return y;
}

}  // namespace tritonforge::kernels
