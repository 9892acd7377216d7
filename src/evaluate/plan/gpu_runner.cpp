#include "evaluate/plan/gpu_runner.h"

#include <algorithm>

#include "evaluate/plan/as_plan.h"

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMaxAnswer = 16 << 20;
constexpr double kTimingSeconds = 2;        // of pairs
constexpr size_t kMostKernelsLeftOut = 16;  // one at a time

}  // namespace

GpuPlanRunner::GpuPlanRunner(const RunContext& context, Weights weights, OwnTime& time, const GpuProblem& gpu)
    : PlanRunner(context, weights, time), gpu_(gpu), lock_(gpu.replayers.lock()) {}

void GpuPlanRunner::hand_over() {
  const Handed handed = handed_over();
  std::optional<DeviceLock::Hold> hold;
  time_.paused([&] {
    if (context_.reference.drawn) memory_.emplace(gpu_.replayers.memory().take(needed(), context_.overall));
    take_replayer();
    hold.emplace(lock_.shared(context_.overall));
  });
  replayer_->send(handed.header, handed.payload, "it was handed the plan");
  check_taken(replayer_->receive("it checked the plan", kMaxAnswer));
  check_drawn();
  replayer_sound_ = true;
}

// Bytes of the device, at most: both forwards, their inputs made twice, an output masked and opened while it is timed,
// what torch.compile's version has of it, and what is widened at a time.
double GpuPlanRunner::needed() const {
  const ReferenceTrial& trial = *context_.reference.trials.front();
  const auto data = static_cast<double>(trial.input_bytes + trial.output_bytes);
  constexpr double kWidened = 10.0 * 8 * (1 << 24);
  return memory_of(plan_) + memory_of(parse_plan(context_.reference.plan, context_.reference.plan_payload)) + 3 * data +
         std::min(kWidened, 20 * data);
}

Call GpuPlanRunner::call(size_t trial, Launches launches) {
  std::optional<DeviceLock::Hold> hold;
  time_.paused([&] { hold.emplace(lock_.shared(context_.overall)); });
  Call call = PlanRunner::call(trial, launches);
  call.own.reset();  // measured by time
  if (call.result && trial == 0 && launches == Launches::kAll)
    copied_ = call.frame.header.at("copied").get<std::vector<bool>>();
  return call;
}

// Kernels without which the output is the same. A replay that fails shows that its kernel matters.
std::set<int> GpuPlanRunner::idle_kernels() {
  std::set<int> used, idle;
  for (const PlanStep& step : plan_.steps) {
    if (step.kernel >= 0) used.insert(step.kernel);
  }
  if (used.size() < 2 || used.size() > kMostKernelsLeftOut) return {};
  const auto hold = lock_.shared(context_.overall);
  for (const int kernel : used) {
    const Call call = replay(0, true, kernel);
    if (!call.result) return idle;  // and it may have cost the context
    if (same_outputs(*call.result, call.whole ? &*call.whole : nullptr, *context_.reference.trials.front(),
                     context_.reference.tolerances))
      idle.insert(kernel);
  }
  return idle;
}

std::optional<Measured> GpuPlanRunner::measure() {
  replayer_sound_ = false;
  Measured measured;
  // None of it is the candidate's own time.
  OwnTime unbounded(context_.overall.remaining_s(), context_.left);
  Conversation replayer(replayer_->release(), unbounded, "the replayer");
  std::optional<Ended> failed;
  as_plan(failed, [&] {
    const auto ask = [&](const Json& request, const std::vector<std::span<const std::byte>>& payload) {
      replayer.send(request, payload, "timing");
      Frame frame = replayer.receive("timing", kMaxAnswer);
      if (!frame.header.contains("failed")) return frame;
      throw NotAPlan{"while it was timed: " + clipped(frame.header["failed"].value("text", ""), 300)};
    };
    GpuMeasurement measurement(gpu_, plan_, aten_, context_.reference, context_.options, ask, context_.secret);
    measurement.begin(copied_, context_.overall);
    measured.own = measurement.own({});
    const bool enough = context_.reference.own_share_of(measured.own, aten_) >= context_.options.min_own_share;
    if (enough && context_.request.measure_performance)
      measurement.time(static_cast<int>(context_.request.num_perf_trials), kTimingSeconds, context_.overall, measured);
    measurement.leave();
    replayer_.emplace(replayer.release(), time_, "the replayer");
    // Last, since without its kernels a plan may fail on the device.
    std::set<int> idle;
    time_.paused([&] { idle = idle_kernels(); });
    if (idle.empty()) return;
    std::vector<std::string> names;
    for (const int kernel : idle) names.push_back(plan_.kernels[static_cast<size_t>(kernel)].name);
    measured.notes["idle_kernels"] = fmt::format("{}", fmt::join(names, ", "));
    measured.own = measurement.own(idle);
  });
  if (failed) {
    check_device(gpu_.replayers, *failed);
    throw NotAPlan{"while it was timed: " + failed->text};
  }
  return measured;
}

}  // namespace tritonforge::evaluate
