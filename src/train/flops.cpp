#include "train/flops.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::train {
namespace {

// NVIDIA's data sheets, dense bfloat16. The first name that the device's holds.
constexpr std::array<std::pair<std::string_view, double>, 6> kPeaks = {{{"H100 PCIe", 756e12},
                                                                        {"H100", 989.4e12},
                                                                        {"H200", 989.4e12},
                                                                        {"H20", 148e12},
                                                                        {"A100", 312e12},
                                                                        {"A800", 312e12}}};

double peak_of(at::Device device) {
  if (!device.is_cuda() || !kernels::has_gpu_kernels()) return 0;
  gpu::DeviceProperties properties;
  gpu::check_cuda(gpu::open_cuda_library().device_properties(device.index(), &properties));
  const std::string_view name = properties.name;
  const auto known = std::ranges::find_if(
      kPeaks, [&](const auto& entry) { return name.find(entry.first) != std::string_view::npos; });
  return known == kPeaks.end() ? 0 : known->second;
}

}  // namespace

TrainingFlops::TrainingFlops(const model::ModelConfig& c) {
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  const double q = count(c.num_heads * c.head_dim), kv = count(c.num_kv_heads * c.head_dim),
               hidden = count(c.hidden_size);
  token = 6 * count(c.num_layers) * hidden * (2 * q + 2 * kv + 3 * count(c.intermediate_size));
  pair = 12 * count(c.num_layers) * q;
  target = 6 * hidden * count(c.vocab_size);
}

double TrainingFlops::of_run(int64_t before, int64_t tokens) const {
  const auto count = static_cast<double>(tokens);
  return count * token + count * (static_cast<double>(before) + count / 2) * pair;
}

double training_flops(const model::ModelConfig& config, std::span<const int64_t> lengths, int64_t targets) {
  const TrainingFlops flops(config);
  double total = flops.target * static_cast<double>(targets);
  for (const int64_t length : lengths) total += flops.of_run(0, length);
  return total;
}

double training_flops(const model::ModelConfig& config, const MicroBatch& batch) {
  const TrainingFlops flops(config);
  double total = flops.target * static_cast<double>(batch.target_count);
  for (int64_t i = 0; i < batch.segment_count(); ++i)
    total += flops.of_run(batch.tokens_before(i), batch.segment_tokens(i));
  return total;
}

DeviceRate device_rate(at::Device device, at::ScalarType dtype) {
  const int64_t n = device.is_cpu() ? 768 : 8192;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const at::Tensor a = at::randn({n, n}, options), b = at::randn({n, n}, options);
  at::Tensor c = at::empty({n, n}, options);
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {  // the first loads the kernel
    kernels::synchronize(device);
    const auto started = Clock::now();
    at::mm_out(c, a, b);
    kernels::synchronize(device);
    best = std::min(best, seconds_since(started));
  }
  return {peak_of(device), 2.0 * static_cast<double>(n * n * n) / best};
}

}  // namespace tritonforge::train
