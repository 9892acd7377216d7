#include "evaluate/plan/gpu_timer.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "evaluate/plan/drawn.h"

namespace tritonforge::evaluate {
namespace {

constexpr int64_t kFlushBytes = int64_t{256} << 20;  // five times the L2 of an H100 or H200
constexpr int kMostFlushes = 256;                    // 20 ms there

at::Tensor mask_of(const at::Tensor& words, uint64_t seed) {
  seed_torch(seed, words.device());
  at::Tensor mask = at::empty_like(words);
  mask.random_(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  return mask;
}

}  // namespace

SealedTensor::SealedTensor(const at::Tensor& tensor, uint64_t seed)
    : sizes_(tensor.sizes().vec()), strides_(tensor.strides().vec()), type_(tensor.scalar_type()), seed_(seed) {
  const at::Tensor bytes = storage_bytes(tensor);
  const int64_t padded = (bytes.numel() + 7) / 8 * 8;
  words_ = at::zeros({padded / 4}, tensor.options().dtype(at::kInt));
  storage_bytes(words_).narrow(0, 0, bytes.numel()).copy_(bytes);
  words_.bitwise_xor_(mask_of(words_, seed_));
}

at::Tensor SealedTensor::open() const {
  const at::Tensor mask = mask_of(words_, seed_), words = words_.bitwise_xor(mask);
  wipe(mask);
  return words.view(type_).as_strided(sizes_, strides_, 0);
}

at::Tensor within(const at::Tensor& output, const at::Tensor& expected, const Bounds& bounds) {
  if (output.sizes() != expected.sizes() || output.scalar_type() != expected.scalar_type()) {
    wipe(expected);
    return at::zeros({}, output.options().dtype(at::kBool));
  }
  if (!at::isFloatingType(output.scalar_type())) {
    const at::Tensor same = output.eq(expected).all();
    wipe(expected);
    return same;
  }
  const at::TensorOptions wide = output.options().dtype(at::kDouble);
  const at::Tensor each = at::ones({}, wide.dtype(at::kBool)), none = at::zeros({}, wide);
  const at::Tensor squares = at::zeros({}, wide), count = at::zeros({}, wide);
  const at::Tensor all_mine = output.reshape(-1), all_theirs = expected.reshape(-1);
  for (int64_t at = 0; at < all_mine.numel(); at += kElementsAtOnce) {
    const int64_t size = std::min(kElementsAtOnce, all_mine.numel() - at);
    const auto widened = [&](const at::Tensor& all) {
      return all.narrow(0, at, size).to(at::kDouble, false, /*copy=*/true);
    };
    const at::Tensor mine = widened(all_mine), theirs = widened(all_theirs);
    const at::Tensor finite = mine.isfinite().logical_and_(theirs.isfinite());
    const at::Tensor same = mine.eq(theirs).logical_or_(mine.isnan().logical_and_(theirs.isnan()));
    const at::Tensor error = mine.sub(theirs).abs_();
    const at::Tensor allowed = theirs.abs().mul_(bounds.relative).add_(bounds.absolute);
    each.logical_and_(at::where(finite, error.le(allowed), same).all());
    squares.add_(at::where(finite, error.square(), none).sum());
    count.add_(finite.sum());
    for (const at::Tensor& tensor : {mine, theirs, allowed}) wipe(tensor);
  }
  wipe(expected);
  if (!all_theirs.is_alias_of(expected)) wipe(all_theirs);
  if (!all_mine.is_alias_of(output)) wipe(all_mine);
  const at::Tensor rms = squares.div(count.clamp_min(1)).sqrt_();
  return each.logical_and_(rms.le(bounds.rms).logical_or_(rms.eq(0)));
}

GpuTimer::GpuTimer(uint64_t seed) : seed_(seed) {}

void GpuTimer::add(const Input& input) {
  const auto on_device = [](const std::vector<TensorView>& views) {
    std::vector<at::Tensor> tensors;
    for (const TensorView& view : views) tensors.push_back(tensor_of(view, at::Device(at::kCUDA, 0)));
    return tensors;
  };
  const std::vector<at::Tensor> outputs = on_device(input.outputs);
  add(on_device(input.inputs), outputs, input.bounds, input.forward_seed);
  for (const at::Tensor& output : outputs) wipe(output);
}

void GpuTimer::add(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& outputs, std::vector<Bounds> bounds,
                   uint64_t forward_seed) {
  if (bounds.size() != outputs.size()) fail(ErrorKind::kUsage, "timing: bounds for other outputs");
  Pooled pooled{std::move(inputs), {}, std::move(bounds), forward_seed};
  for (const at::Tensor& output : outputs)
    pooled.outputs.emplace_back(output, Rng::derive(seed_, pool_.size() * 1024 + pooled.outputs.size()) >> 1);
  pool_.push_back(std::move(pooled));
}

void GpuTimer::flush(int times) {
  if (!flushed_.defined()) flushed_ = at::empty({kFlushBytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  gpu_forget_persisting();
  for (int k = 0; k < times; ++k) flushed_.zero_();
}

Pass GpuTimer::prepare(Replayer& plan, const Pooled& input, Deadline deadline) {
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& tensor : input.inputs) inputs.push_back(tensor.clone());
  Pass pass = plan.begin(std::move(inputs), {.guard = false, .deadline = deadline});
  seed_torch(input.forward_seed, plan.launcher().device());
  return pass;
}

GpuTimer::Call GpuTimer::call(Replayer& plan, size_t input, bool checked, double limit_s) {
  if (input >= pool_.size()) fail(ErrorKind::kUsage, "timing: input {} of {}", input, pool_.size());
  const Pooled& pooled = pool_[input];
  Call result;
  for (;; ++result.late) {
    const Deadline deadline = Deadline::after(limit_s);
    Pass pass = prepare(plan, pooled, deadline);
    gpu_synchronize();
    flush(flushes_);
    start_.record();
    pass.run([](int) { return true; });
    end_.record();
    const bool late = start_.reached();
    end_.wait(deadline);
    at::Tensor right;
    if (checked) {
      const auto outputs = pass.outputs();
      right = at::ones({}, at::TensorOptions(at::kCUDA).dtype(at::kBool));
      if (outputs.size() != pooled.outputs.size()) right.zero_();
      for (size_t k = 0; k < std::min(outputs.size(), pooled.outputs.size()); ++k)
        right.logical_and_(within(outputs[k], pooled.outputs[k].open(), pooled.bounds[k]));
    }
    for (const at::Tensor& tensor : pass.placed()) wipe(tensor);
    plan.launcher().end();
    result.right = !checked || right.item<bool>();
    result.ms = end_.ms_since(start_);
    if (!late || flushes_ >= kMostFlushes) return result;
    flushes_ = std::min(kMostFlushes, 2 * flushes_);
  }
}

std::vector<double> GpuTimer::steps(Replayer& plan, size_t input, size_t passes, double limit_s) {
  if (input >= pool_.size()) fail(ErrorKind::kUsage, "timing: input {} of {}", input, pool_.size());
  if (passes == 0) fail(ErrorKind::kUsage, "timing: no pass");
  const size_t count = plan.plan().steps.size();
  std::vector<std::unique_ptr<GpuEvent>> marks;
  for (size_t k = 0; k <= count; ++k) marks.push_back(std::make_unique<GpuEvent>());
  std::vector<std::vector<double>> times(count);
  for (size_t round = 0; round < passes;) {
    const Deadline deadline = Deadline::after(limit_s);
    Pass pass = prepare(plan, pool_[input], deadline);
    gpu_synchronize();
    flush(flushes_);
    marks[0]->record();
    pass.run([](int) { return true; }, [&](size_t step) { marks[step + 1]->record(); });
    const bool late = marks[0]->reached();
    marks[count]->wait(deadline);
    for (const at::Tensor& tensor : pass.placed()) wipe(tensor);
    plan.launcher().end();
    if (late && flushes_ < kMostFlushes) {
      flushes_ = std::min(kMostFlushes, 2 * flushes_);
      continue;
    }
    for (size_t k = 0; k < count; ++k) times[k].push_back(marks[k + 1]->ms_since(*marks[k]));
    ++round;
  }
  std::vector<double> medians;
  for (auto& samples : times) {
    const auto middle = samples.begin() + static_cast<ptrdiff_t>(passes / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    medians.push_back(*middle);
  }
  return medians;
}

}  // namespace tritonforge::evaluate
