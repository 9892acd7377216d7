#include "evaluate/plan/gpu_timer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/rng.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

constexpr int64_t kFlushBytes = int64_t{256} << 20;  // five times the L2 of an H100 or H200
constexpr double kPatience = 1e-3, kMostPatience = 20e-3;

}  // namespace

GpuTimer::GpuTimer(uint64_t seed, std::span<const std::byte> cubin, const KernelShape& sealer)
    : seed_(seed), sealer_(cubin, sealer), gate_(cubin), patience_s_(kPatience) {}

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

void GpuTimer::add(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& outputs,
                   const std::vector<Bounds>& bounds, uint64_t forward_seed) {
  pool_.push_back(
      {std::move(inputs), SealedOutputs(sealer_, outputs, bounds, Rng::derive(seed_, pool_.size())), forward_seed});
}

bool GpuTimer::queue(const std::function<void()>& run) {
  if (!flushed_.defined()) {  // memory is not asked for while the device waits
    const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
    flushed_ = at::zeros({kFlushBytes / int64_t{sizeof(float)}}, options);
    flushed_sum_ = at::empty({}, options);
  }
  gpu_forget_persisting();
  const GpuGate::Closed closed(gate_, patience_s_);
  at::sum_out(flushed_sum_, flushed_, at::OptionalIntArrayRef());
  start_.record();
  run();
  const bool in_time = !start_.reached();
  if (!in_time) patience_s_ = std::min(kMostPatience, 2 * patience_s_);
  return in_time;
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
    const bool last = patience_s_ >= kMostPatience;
    Pass pass = prepare(plan, pooled, deadline);
    const bool in_time = queue([&] {
      pass.run([](int) { return true; });
      end_.record();
    });
    end_.wait(deadline);
    std::optional<SealedOutputs::Comparison> compared;
    if (checked) compared = pooled.outputs.compare(sealer_, pass.outputs());
    for (const at::Tensor& tensor : pass.placed()) wipe(tensor);
    result.right = !compared || compared->right();
    result.ms = end_.ms_since(start_);
    if (in_time || last) return result;
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
    const bool last = patience_s_ >= kMostPatience;
    Pass pass = prepare(plan, pool_[input], deadline);
    const bool in_time = queue([&] {
      marks[0]->record();
      pass.run([](int) { return true; }, [&](size_t step) { marks[step + 1]->record(); });
    });
    marks[count]->wait(deadline);
    for (const at::Tensor& tensor : pass.placed()) wipe(tensor);
    if (!in_time && !last) continue;
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
