#include "gpu/fixture.h"

#include <ATen/core/grad_mode.h>

#include <limits>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/fp8.h"
#include "kernels/paged_attention.h"
#include "model/parts.h"

namespace tritonforge::gpu {
namespace {

std::string& why_not() {
  static std::string reason = [] {
    try {
      kernels::open_device("cuda");
      open_cuda_library();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  return reason;
}

}  // namespace

Buffer::Buffer(size_t bytes, int poison) : bytes_(bytes) {
  void* made = nullptr;
  check_cuda(open_cuda_library().allocate(&made, std::max<size_t>(bytes, 16)));
  memory_ = std::shared_ptr<void>(made, [](void* pointer) { open_cuda_library().release(pointer); });
  check_cuda(open_cuda_library().fill(made, poison, std::max<size_t>(bytes, 16), nullptr));
  check_cuda(open_cuda_library().stream_synchronize(nullptr));
}

void GpuTest::SetUpTestSuite() {
  why_not();  // before the seed: ATen looks for its CUDA half once
  at::manual_seed(7);
}
void GpuTest::SetUp() {
  if (!why_not().empty()) GTEST_SKIP() << why_not();
  check_cuda(api().stream_create(&stream, 0));
}
void GpuTest::TearDown() {
  if (stream != nullptr) check_cuda(api().stream_destroy(stream));
}

Buffer GpuTest::upload(const at::Tensor& host) const {
  const at::Tensor dense = host.contiguous();
  Buffer to(dense.nbytes());
  check_cuda(api().copy(to.as<void>(), dense.const_data_ptr(), dense.nbytes(), stream));
  check_cuda(api().stream_synchronize(stream));
  return to;
}

at::Tensor GpuTest::download(const Buffer& from, at::IntArrayRef shape, at::ScalarType type) const {
  at::Tensor to = at::empty(shape, type);
  TF_CHECK(to.nbytes() <= from.bytes(), "a buffer of {} bytes read as {}", from.bytes(), to.nbytes());
  check_cuda(api().copy(to.mutable_data_ptr(), from.as<void>(), to.nbytes(), stream));
  check_cuda(api().stream_synchronize(stream));
  return to;
}

Buffer GpuTest::like(at::IntArrayRef shape, at::ScalarType type) const {
  return Buffer(static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(type));
}

at::Tensor random_bf16(at::IntArrayRef shape, double scale) { return (at::randn(shape) * scale).to(at::kBFloat16); }
at::Tensor ints(const std::vector<int32_t>& values) { return at::tensor(values, at::kInt); }

namespace {
double largest(const at::Tensor& errors) {
  if (errors.numel() == 0) return 0;
  return at::nan_to_num(errors, std::numeric_limits<double>::infinity()).max().item<double>();
}
}  // namespace

Fp8Rows fp8_rows(const at::Tensor& x) {
  const int64_t d = x.size(-1);
  const at::Tensor in = x.to(at::kFloat).contiguous().view({-1, d});
  const at::Tensor bytes = at::empty(in.sizes(), at::kByte), scales = at::empty({in.size(0)}, at::kByte);
  for (int64_t r = 0; r < in.size(0); ++r) {
    const auto* row = in.const_data_ptr<float>() + r * d;
    auto* to = bytes.data_ptr<uint8_t>() + r * d;
    uint32_t largest = 0;
    for (int64_t i = 0; i < d; ++i) largest = std::max(largest, fp8::bits_of(row[i]) & 0x7FFFFFFF);
    const uint32_t scale = fp8::scale_of(largest);
    scales.data_ptr<uint8_t>()[r] = static_cast<uint8_t>(scale);
    for (int64_t i = 0; i < d; ++i)
      to[i / 16 * 16 + 2 * (i % 8) + i % 16 / 8] = static_cast<uint8_t>(fp8::encode(row[i] * fp8::inverse_of(scale)));
  }
  return {bytes.view(x.sizes()), scales.view(x.sizes().slice(0, static_cast<size_t>(x.dim() - 1))),
          kernels::fp8_rounded(x)};
}

double worst_row_error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor e = expected.to(at::kDouble), f = found.to(at::kDouble);
  return largest((f - e).norm(2, -1) / (e.norm(2, -1) + 1e-30));
}

double worst_element_error(const at::Tensor& found, const at::Tensor& expected, double floor) {
  const at::Tensor e = expected.to(at::kDouble), f = found.to(at::kDouble);
  return largest((f - e).abs() / (e.abs() + floor));
}

model::ModelConfig small_config(model::Family family) {
  model::ModelConfig config;
  config.family = family;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_layers = 3;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 1000;
  config.max_position = 2048;
  config.qk_norm = family == model::Family::kQwen3;
  config.attention_bias = family == model::Family::kQwen2;
  return config;
}

std::unique_ptr<model::Model> small_model(uint64_t seed, at::Device device) {
  auto made = std::make_unique<model::Model>(small_config(model::Family::kQwen3), at::kBFloat16, device);
  made->init_random(seed, 0.08);
  return made;
}

engine::EngineOptions small_engine_options() {
  engine::EngineOptions options;
  options.model = "random";
  options.device = "cuda";
  options.max_running = 4;
  options.max_context = 512;
  options.kv_cache_tokens = 4096;
  options.tune_gemms = false;
  return options;
}

std::unique_ptr<model::Model> copy_of(const model::Model& model, at::ScalarType dtype, at::Device device) {
  const at::NoGradGuard no_grad;
  auto made = std::make_unique<model::Model>(model.config(), dtype, device);
  const auto from = model::Parts(model).tensors();
  const auto to = made->named_parameters();
  for (size_t i = 0; i < from.size(); ++i) at::Tensor(to[i].second).copy_(from[i].whole());
  return made;
}

std::unique_ptr<model::Model> fp8_copy_of(const model::Model& model, at::Device device) {
  const at::NoGradGuard no_grad;
  auto made = std::make_unique<model::Model>(model.config(), model.dtype(), device, true);
  const auto from = model.named_parameters();
  const auto to = model::Parts(*made).tensors();
  for (size_t i = 0; i < from.size(); ++i) to[i].put(from[i].second.to(device));
  return made;
}

at::Tensor log_probs_of(const model::Model& model, std::vector<int64_t> prompt, std::span<const int64_t> said,
                        double temperature) {
  const at::NoGradGuard no_grad;
  const auto first = std::ssize(prompt) - 1;
  prompt.insert(prompt.end(), said.begin(), said.end());
  const int64_t n = std::ssize(prompt);
  const at::Tensor hidden = model.forward(at::tensor(prompt), at::arange(n), model::packed_attention({0, n}));
  return at::log_softmax(model.logits(hidden.slice(0, first, n - 1)) / temperature, 1);
}

}  // namespace tritonforge::gpu
