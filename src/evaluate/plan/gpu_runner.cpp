#include "evaluate/plan/gpu_runner.h"

#include <algorithm>

#include "base/rng.h"
#include "evaluate/pairs.h"
#include "evaluate/plan/as_plan.h"

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMaxAnswer = 16 << 20;
constexpr double kTimingSeconds = 2;        // of pairs
constexpr size_t kMostKernelsLeftOut = 16;  // one at a time

// Why a plan whose trials passed has no time, where that is not its own failure.
struct NotTimed {
  std::string text;
};

}  // namespace

GpuPlanRunner::GpuPlanRunner(const RunContext& context, Weights weights, OwnTime& time, const GpuProblem& gpu)
    : PlanRunner(context, weights, time), gpu_(gpu), lock_(gpu.replayers.lock()) {}

void GpuPlanRunner::hand_over() {
  const Spent::Range replaying(context_.spent, Part::kReplaying);
  const Handed handed = handed_over();
  if (context_.reference.drawn) {
    const Spent::Range waiting(context_.spent, Part::kTurn);
    time_.paused([&] { memory_.emplace(gpu_.replayers.memory().take(needed(), context_.overall)); });
  }
  time_.paused([&] { take_replayer(); });
  const DeviceLock::Hold hold = share_device();
  replayer_->send(handed.header, handed.payload, "it was handed the plan");
  check_taken(replayer_->receive("it checked the plan", kMaxAnswer));
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

// With others that compute on it; waiting is not the candidate's time.
DeviceLock::Hold GpuPlanRunner::share_device() {
  const Spent::Range waiting(context_.spent, Part::kTurn);
  std::optional<DeviceLock::Hold> hold;
  time_.paused([&] { hold.emplace(lock_.shared(context_.overall)); });
  return std::move(*hold);
}

Call GpuPlanRunner::call(size_t trial, Launches launches) {
  const DeviceLock::Hold hold = share_device();
  const auto begun = Clock::now();
  Call call = PlanRunner::call(trial, launches);
  call_s_ = std::max(call_s_, seconds_since(begun));
  if (call.result && call.own) as_replay([&] { note_copies(call.frame.header.at("copied").get<std::vector<bool>>()); });
  call.own.reset();  // measured by time
  return call;
}

void GpuPlanRunner::note_copies(const std::vector<bool>& of_launches) {
  size_t launch = 0;
  for (size_t k = 0; k < every_step_.size(); ++k) {
    if (every_step_[k].kernel < 0 || !is_done(every_step_[k], choice_)) continue;
    if (launch < of_launches.size() && of_launches[launch]) copying_.insert(k);
    ++launch;
  }
}

std::vector<bool> GpuPlanRunner::copies() const {
  std::vector<bool> of_launches;
  for (size_t k = 0; k < every_step_.size(); ++k) {
    if (every_step_[k].kernel >= 0 && is_done(every_step_[k], choice_)) of_launches.push_back(copying_.contains(k));
  }
  return of_launches;
}

// A replay that fails shows that its kernel matters.
GpuPlanRunner::Idle GpuPlanRunner::idle_kernels() {
  std::set<int> used;
  for (const PlanStep& step : plan_.steps) {
    if (step.kernel >= 0) used.insert(step.kernel);
  }
  Idle found;
  if (used.size() < 2) return found;
  if (used.size() > kMostKernelsLeftOut) {
    found.not_tried = fmt::format("{} kernels, of more than {} none is left out", used.size(), kMostKernelsLeftOut);
    return found;
  }
  const DeviceLock::Hold hold = share_device();
  for (const int kernel : used) {
    const Call call = replay(0, {.without = kernel});
    if (!call.result) {  // and it may have cost the context
      if (kernel != *used.rbegin())
        found.not_tried = fmt::format("those after {}, without which it fails",
                                      plan_.kernels[static_cast<size_t>(kernel)].name);
      break;
    }
    if (same_outputs(*call.result, call.whole ? &*call.whole : nullptr, *context_.reference.trials.front(),
                     context_.reference.tolerances))
      found.kernels.insert(kernel);
  }
  return found;
}

std::optional<Measured> GpuPlanRunner::measure() {
  // Until more is known: no more than what the launches are given.
  Measured measured{.own = bound_work(plan_, copies()), .aten = aten_};
  std::string not_timed = show(context_.secret, measured);
  if (not_timed.empty() && !measured.ended && measured.times && measured.times->eager_speedup > kBeyondEager)
    not_timed = show_again(measured);
  if (measured.ended) return measured;
  if (not_timed.empty()) {
    time_.paused([&] { leave_out_idle(measured); });
    return measured;
  }
  // It was right in every trial: what keeps its time from being known costs it the speedup alone. Whatever state that
  // process is in, another one does the rest.
  measured.times.reset();
  measured.notes["timing"] = "none: " + clipped(not_timed, 300);
  in_another_process();
  return measured;
}

void GpuPlanRunner::in_another_process() {
  memory_.reset();
  as_replay(*context_.device, [&] { hand_over(); });
}

// What the replayer shows, which can be asked further where the answer is "" and nothing ended.
std::string GpuPlanRunner::show(uint64_t seed, Measured& measured) {
  replayer_sound_ = false;
  // None of it is the candidate's own time: neither waiting for the device, nor for torch.compile.
  OwnTime ours(context_.overall.remaining_s(), context_.left);
  std::string not_timed;
  Conversation replayer(replayer_->release(), ours, "the replayer");
  time_.paused([&] { not_timed = why_not_timed(replayer, ours, seed, measured); });
  if (not_timed.empty() && !measured.ended) replayer_.emplace(replayer.release(), time_, "the replayer");
  return not_timed;
}

// In a process that has run none of its kernels, under another seed. The less of both counts; one that cannot be had
// twice is none.
std::string GpuPlanRunner::show_again(Measured& measured) {
  in_another_process();
  Measured again{.own = measured.own, .aten = measured.aten, .notes = measured.notes};
  if (const std::string not_timed = show(Rng::derive(context_.secret, "again"), again); !not_timed.empty())
    return not_timed;
  if (again.times) {
    const double first = measured.times->eager_speedup, second = again.times->eager_speedup;
    const std::string both = fmt::format("{:.1f}x eager, and {:.1f}x by another process", first, second);
    again.notes["measured_again"] = both;
    if (first < second) again.times = measured.times;
    if (again.times->eager_speedup > kBeyondEager) again.flags.push_back({Cheat::kExcessiveSpeedup, both});
  }
  measured = std::move(again);
  return "";
}

// Empty where it was timed, or where its own end, in `measured`, says why not.
std::string GpuPlanRunner::why_not_timed(Conversation& replayer, OwnTime& ours, uint64_t seed, Measured& measured) {
  try {
    measure(replayer, ours, seed, measured);
  } catch (const NotTimed& why) {
    return why.text;
  } catch (const Ended& ended) {
    // Where nothing but its launches keeps the process from an answer, a probe of the device tells whether it is to
    // blame (PlanMode::on_devices).
    const bool hangs = ended.fault == Fault::kTimeout && !context_.overall.expired();
    if (ended.how == Ended::How::kSilent && !hangs) check_device(gpu_.replayers, ended);
    // A launch of the candidate's that fails after it was right is no better than one that fails at once.
    if (ended.how != Ended::How::kFailed && !hangs) return ended.text;
    measured.ended = ended;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported &&
        error.kind() != ErrorKind::kCorrupt)
      throw;
    return error.what();
  } catch (const nlohmann::json::exception&) {
    return "an answer lacks a field, or one has the wrong type";
  }
  return "";
}

void GpuPlanRunner::measure(Conversation& replayer, OwnTime& ours, uint64_t seed, Measured& measured) {
  const auto ask = [&](const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s) {
    ours = OwnTime(std::min(limit_s, context_.overall.remaining_s()), context_.left);
    replayer.send(request, payload, "timing");
    Frame frame = replayer.receive("timing", kMaxAnswer);
    if (!frame.header.contains("failed")) return frame;
    const Json& failed = frame.header["failed"];
    const std::string said = clipped(failed.value("text", ""), 300), text = "while it was timed: " + said;
    // Timing holds more than the trials did: inputs and outputs of all of them.
    if (says_out_of_memory(said)) throw NotTimed{text};
    // A launch, or what one left of the device's context.
    if (failed.value("kind", "") == "fault" || text.find("CUDA error") != std::string::npos)
      throw Ended{.how = Ended::How::kFailed, .fault = Fault::kRuntimeError, .text = text};
    throw NotTimed{text};
  };
  const Lowered sealer = sealer_of(context_.lowering, gpu_.replayers.device().target, context_.overall);
  GpuMeasurement measurement(gpu_, plan_, aten_, context_.reference, context_.options, sealer, ask, call_s_, seed);
  measurement.begin(context_.overall);
  const Spent::Range timing(context_.spent, Part::kTiming);
  if (tunings_.choices().size() > 1 && !tuned_) {
    choose(measurement.fastest(tunings_, context_.overall));
    tuned_ = true;  // another process begins with that choice
    measured.notes["configuration"] = tunings_.name(choice_);
  }
  measurement.profile_steps(copies(), context_.overall);
  measured.own = measurement.own();
  measured.aten = aten_;
  step_ms_ = measurement.steps();
  const bool enough = context_.reference.own_share_of(measured.own, aten_) >= context_.options.min_own_share;
  if (enough && context_.request.measure_performance)
    measurement.time(static_cast<int>(context_.request.num_perf_trials), kTimingSeconds, context_.overall, measured);
}

// Last, since without its kernels a plan may fail on the device.
void GpuPlanRunner::leave_out_idle(Measured& measured) {
  const Idle idle = idle_kernels();
  if (!idle.not_tried.empty()) measured.notes["idle_kernels_not_tried"] = clipped(idle.not_tried, 300);
  if (idle.kernels.empty()) return;
  std::vector<std::string> names;
  for (const int kernel : idle.kernels) names.push_back(plan_.kernels[static_cast<size_t>(kernel)].name);
  measured.notes["idle_kernels"] = fmt::format("{}", fmt::join(names, ", "));
  measured.own = own_work(plan_, step_ms_, copies(), idle.kernels, aten_);
}

}  // namespace tritonforge::evaluate
