#include "engine/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace tritonforge::engine {

using kernels::Sampled;
using kernels::SampleRow;

Sampler::Sampler(at::Device device)
    : device_(device),
      generator_(
          device.is_cpu()
              ? at::detail::createCPUGenerator()
              : at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index())) {}

const std::vector<Sampled>& Sampler::sample(const at::Tensor& logits, std::span<const SampleRow> rows) {
  if (!device_.is_cpu()) return sample_with_aten(logits, rows);
  drawn_.resize(rows.size());
  const at::Tensor contiguous = logits.contiguous();
  kernels::sample_rows(contiguous.const_data_ptr<float>(), static_cast<int64_t>(rows.size()), logits.size(1),
                       rows.data(), drawn_.data());
  return drawn_;
}

const std::vector<Sampled>& Sampler::sample_with_aten(const at::Tensor& all_logits, std::span<const SampleRow> rows) {
  const auto count = static_cast<int64_t>(rows.size()), vocab = all_logits.size(1);
  const at::Tensor logits = all_logits.slice(0, 0, count);
  // temperature, top_p, min_p, top_k of each row, in one transfer.
  auto options = at::TensorOptions().dtype(at::kFloat);
  at::Tensor host = at::empty({4, count, 1}, device_.is_cpu() ? options : options.pinned_memory(true));
  auto* values = host.mutable_data_ptr<float>();
  bool cuts = false;
  for (int64_t i = 0; i < count; ++i) {
    const SampleRow& row = rows[i];
    const bool greedy = row.temperature == 0;
    values[i] = kernels::inverse_temperature(row.temperature);
    values[count + i] = greedy ? 1.0f : row.top_p;
    values[2 * count + i] = row.min_p;
    values[3 * count + i] = greedy ? 1.0f : static_cast<float>(row.top_k > 0 ? std::min(row.top_k, vocab) : vocab);
    cuts = cuts || (!greedy && (row.top_p < 1 || row.min_p > 0 || (row.top_k > 0 && row.top_k < vocab)));
  }
  const at::Tensor parameters = host.to(device_, /*non_blocking=*/true);
  const at::Tensor log_probs = at::log_softmax(logits * parameters[0], 1);

  at::Tensor noise = at::empty_like(log_probs);
  for (int64_t i = 0; i < count; ++i) {
    at::Tensor row = noise.select(0, i);
    if (rows[i].temperature == 0) {
      row.fill_(1);
    } else {
      generator_.set_current_seed(Rng::derive(rows[i].seed, rows[i].position));
      row.exponential_(1, generator_);
    }
  }
  // log(p / noise): the exponential race. Noise can come out as 0.
  const at::Tensor scores = log_probs - noise.clamp_min_(std::numeric_limits<float>::min()).log_();

  at::Tensor tokens;
  if (!cuts) {
    tokens = scores.argmax(1, true);
  } else {
    const auto [sorted, order] = log_probs.sort(/*stable=*/true, 1, /*descending=*/true);
    const at::Tensor p = sorted.exp();
    const at::Tensor kept = p.masked_fill(at::arange(vocab, parameters.options()) >= parameters[3], 0);
    const at::Tensor before = kept.cumsum(1) - kept;
    const at::Tensor out = (kept == 0) | ((before >= parameters[1] * kept.sum(1, true)) & (parameters[1] < 1)) |
                           (p < parameters[2] * p.slice(1, 0, 1));
    at::Tensor left = scores.gather(1, order).masked_fill(out, -std::numeric_limits<float>::infinity());
    tokens = order.gather(1, left.argmax(1, true));
  }
  const at::Tensor result = at::cat({tokens.to(at::kDouble), log_probs.gather(1, tokens).to(at::kDouble)}, 1).cpu();
  drawn_.resize(rows.size());
  const auto* pairs = result.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    drawn_[i] = {std::isfinite(pairs[2 * i + 1]) ? static_cast<int64_t>(pairs[2 * i]) : -1,
                 static_cast<float>(pairs[2 * i + 1])};
  }
  return drawn_;
}

}  // namespace tritonforge::engine
