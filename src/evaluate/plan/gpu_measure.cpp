#include "evaluate/plan/gpu_measure.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "evaluate/pairs.h"
#include "evaluate/plan/runner.h"
#include "evaluate/plan/sealed_text.h"
#include "evaluate/trial.h"

namespace tritonforge::evaluate {
namespace {

constexpr const char *kEager = "eager", *kTorchCompile = "torch.compile";
constexpr double kCompileSeconds = 120, kCallSeconds = 20;  // of the problem's own process
constexpr double kAnswerSeconds = 10;  // of process P's, beside its calls: buffers, events, a busy CPU
constexpr int kWarmupCalls = 3, kProfiledPasses = 5;
constexpr int kTuningCalls = 7;       // of each configuration, after as many calls to warm up
constexpr double kTuningSeconds = 2;  // then the fastest so far is taken
// At the intervals so far, and at the clock: after so many pairs, or sooner where they take longer than this.
constexpr size_t kPairsBetweenLooks = 4;
constexpr double kSecondsBetweenLooks = 0.1;

// The problem's own process with torch.compile's version of its module, and the trials' inputs.
class CompiledReference {
 public:
  CompiledReference(Child& child, Deadline deadline)
      : process_(child), opening_s_(std::min(kCompileSeconds, deadline.remaining_s())) {}
  // "" or why there is none. What it computes is beside others; what it compiles, for seconds, keeps nobody waiting.
  std::string open(const ReferenceData& reference, size_t trials, DeviceLock& lock, Deadline deadline) {
    if (std::string why = compile(reference, trials, lock, deadline); !why.empty()) return why;
    const auto computing = lock.shared(deadline);
    return why_not("warm");
  }
  // No more than that; it may have been, with other inputs.
  std::string compile(const ReferenceData& reference, size_t trials, DeviceLock& lock, Deadline deadline) {
    {
      const auto computing = lock.shared(deadline);
      for (size_t k = 0; k < trials; ++k) add(reference, *reference.trials[k]);
    }
    return why_not("compile");
  }
  double call(size_t input) {
    const Json request = {{"op", "time"}, {"order", {input}}, {"nonce", ""}, {"compiled", true}};
    const Frame answer = process_.ask(request, {}, kCallSeconds);
    return answer.header.at("times").at(0).get<double>();
  }
  void close() { process_.ask({{"op", "clear"}}, {}, kCallSeconds); }

 private:
  void add(const ReferenceData& reference, const ReferenceTrial& trial) {
    if (reference.drawn)
      process_.ask({{"op", "pool"}, {"seed", trial.seed}, {"draw", name_of(reference.admission.draw)}}, {}, opening_s_);
    else
      process_.ask({{"op", "pool"}, {"inputs", trial.inputs}, {"tensors", trial.input_tensors}},
                   {std::span(trial.payload).first(trial.input_bytes)}, opening_s_);
  }
  std::string why_not(const char* step) {
    return process_.ask({{"op", step}}, {}, opening_s_).header.value("unavailable", "");
  }

  TimedChild process_;
  double opening_s_;
};

// Dense matrix units, by architecture: of the 16-bit floats, and of tf32, the fastest that is nearly float32. 0: not
// known here.
double peak_flops(const GpuDevice& device, bool narrow) {
  const double a_clock = device.target == "sm_90" ? 4096 : device.target == "sm_80" ? 2048 : 0;
  return a_clock * (narrow ? 1 : 0.5) * device.multiprocessors * device.clock_hz;
}

// Operations that the problem takes at least: without what its own masks, and zeros in its inputs and weights, let a
// kernel leave out.
double least_flops(const ReferenceData& reference) {
  if (reference.plan.is_null()) return 0;
  const Plan plan = parse_plan(reference.plan, reference.plan_payload);
  const auto tensors = parse_tensors(reference.tensors, reference.payload);
  std::map<std::string, const TensorView*> state;
  for (const Json& item : reference.state) state[item.at(0)] = &tensors.at(item.at(1).get<size_t>());
  const auto known = [&](const PlanValue& value) -> const TensorView* {
    if (value.input >= 0) return &reference.trials.front()->before.at(static_cast<size_t>(value.input));
    if (value.constant >= 0) return &plan.constants.at(static_cast<size_t>(value.constant));
    return value.weight.empty() ? nullptr : state.at(value.weight);
  };
  std::set<size_t> with_zeros;
  for (size_t k = 0; k < plan.values.size(); ++k) {
    const TensorView* tensor = known(plan.values[k]);
    if (tensor && part_of_zeros(*tensor) > kLargePart) with_zeros.insert(k);
  }
  return product_flops(plan, with_zeros);
}

// "1650 MHz (power cap)"
std::string clock_of(const GpuState& state) {
  const std::string why = state.throttled.empty() ? "" : fmt::format(" ({})", state.throttled);
  return fmt::format("{:.0f} MHz{}", state.clock_mhz, why);
}

}  // namespace

void compile_ahead(Child& child, const ReferenceData& reference, DeviceLock& lock, Deadline deadline) {
  CompiledReference compiled(child, deadline);
  compiled.compile(reference, 1, lock, deadline);
  compiled.close();
}

TimedWork timed_work(const Plan& plan, const std::vector<double>& ms, const std::vector<bool>& copied,
                     const std::set<int>& idle) {
  TimedWork work;
  size_t launch = 0;
  for (size_t k = 0; k < plan.steps.size() && k < ms.size(); ++k) {
    const PlanStep& step = plan.steps[k];
    if (step.kernel < 0) {
      if (!is_free(step.name)) (only_moves(step.name) ? work.aten.moving : work.aten.computing) += ms[k];
      continue;
    }
    const bool copies = launch < copied.size() && copied[launch];
    ++launch;
    if (!idle.contains(step.kernel)) (copies ? work.own.moving : work.own.computing) += ms[k];
  }
  return work;
}

Work own_work(const Plan& plan, const std::vector<double>& ms, const std::vector<bool>& copied,
              const std::set<int>& idle, const Work& aten) {
  const TimedWork timed = timed_work(plan, ms, copied, idle);
  const double aten_ms = timed.aten.of(true);
  const double rate = aten_ms > 0 ? aten.of(true) / aten_ms : 1;
  return {.computing = rate * timed.own.computing, .moving = rate * timed.own.moving};
}

double CallLimits::of(const Json& calls) const {
  double seconds = kAnswerSeconds;
  for (const Json& call : calls) seconds += call.at(0) == "candidate" ? candidate : reference;
  return seconds;
}

Frame GpuMeasurement::make(const Json& calls) {
  return ask_({{"calls", calls}, {"limit_s", {limits_.candidate, limits_.reference}}}, {}, limits_.of(calls));
}

Lowered sealer_of(LoweringPool& lowering, const std::string& target, Deadline deadline) {
  constexpr int kThreads = 256;
  const Json options = {{"entry", "sealed_words"}, {"block", {kThreads, 1, 1}}};
  Lowered found = lowering.lower(language_of(Backend::kCuda), std::string(source_sealed_words_h), target, options,
                                 deadline, /*with_binary=*/true);
  if (!found.ok)
    fail(ErrorKind::kUnsupported, "timing: the kernel that compares outputs: {}", clipped(found.error, 300));
  return found;
}

Json GpuMeasurement::begin_request() const {
  Json sealer = sealer_.shape;
  sealer["bytes"] = sealer_.binary->size();
  return {{"time", true}, {"seed", seed_}, {"sealer", std::move(sealer)}};
}

void GpuMeasurement::begin(Deadline deadline) {
  has_reference_ = !reference_.plan.is_null();
  pooled_ = reference_.trials.size();
  if (reference_.drawn) return begin_drawn(deadline);
  // The trials' inputs and expected outputs, and the reference's own plan where all its weights are known.
  Json trials = Json::array(), tensors = Json::array();
  std::vector<std::span<const std::byte>> payload{*sealer_.binary, reference_.plan_payload};
  for (const auto& trial : reference_.trials) {
    trials.push_back({trial->before.size(), json_of(trial->bounds), trial->forward_seed});
    for (const auto* list : {&trial->before, &trial->outputs}) {
      for (const TensorView& view : *list) {
        tensors.push_back({{"dtype", name_of(view.dtype)},
                           {"shape", view.shape},
                           {"order", view.order},
                           {"bytes", view.bytes.size()}});
        payload.push_back(view.bytes);
      }
    }
  }
  Json request = begin_request();
  request["plan_bytes"] = reference_.plan_payload.size();
  request["trials"] = std::move(trials);
  request["tensors"] = std::move(tensors);
  if (has_reference_) request["reference"] = reference_.plan;
  DeviceLock lock = gpu_.replayers.lock();
  const auto computing = lock.shared(deadline);
  ask_(request, payload, deadline.remaining_s());
}

// As many trials as a fifth of the device's memory has room for.
void GpuMeasurement::begin_drawn(Deadline deadline) {
  const ReferenceTrial& first = *reference_.trials.front();
  const double room = 0.2 * gpu_.replayers.device().memory /
                      static_cast<double>(first.input_bytes + first.output_bytes + 1);
  pooled_ = std::clamp(static_cast<size_t>(room), size_t{1}, reference_.trials.size());
  Json drawn = Json::array();
  for (size_t k = 0; k < pooled_; ++k) {
    const ReferenceTrial& trial = *reference_.trials[k];
    drawn.push_back({trial.seed, json_of(trial.bounds), trial.forward_seed});
  }
  Frame answer;
  {
    DeviceLock lock = gpu_.replayers.lock();
    const auto computing = lock.shared(deadline);
    Json request = begin_request();
    request["drawn"] = std::move(drawn);
    answer = ask_(request, {*sealer_.binary}, deadline.remaining_s());
  }
  size_t input = 0, output = 0, at = 0;
  for (size_t k = 0; k < pooled_; ++k) {
    if (!drawn_alike(answer, *reference_.trials[k], reference_.tolerances, input, output, at))
      fail(ErrorKind::kUsage, "timing: the reference gave something else than it does alone");
  }
}

double GpuMeasurement::median_ms() {
  Json asked = Json::array();
  for (int k = 0; k < kWarmupCalls + kTuningCalls; ++k) asked.push_back({"candidate", 0, false});
  const Frame answer = make(asked);
  std::vector<double> ms;
  for (int k = kWarmupCalls; k < kWarmupCalls + kTuningCalls; ++k)
    ms.push_back(answer.header.at("calls").at(static_cast<size_t>(k)).at(0).get<double>());
  return summarise(ms).median;
}

Choice GpuMeasurement::fastest(const Tunings& tunings, Deadline deadline) {
  hold(deadline);
  Choice best = tunings.first();
  const Deadline end = Deadline::after(std::min(kTuningSeconds, deadline.remaining_s()));
  const auto choose = [&](const Choice& choice) { ask_({{"choose", choice}}, {}, kAnswerSeconds); };
  for (size_t g = 0; g < best.size(); ++g) {
    if (tunings.usable()[g].size() < 2) continue;
    double least = 0;
    Choice tried = best;
    for (const int configuration : tunings.usable()[g]) {
      if (end.expired() && least > 0) break;
      tried[g] = configuration;
      choose(tried);
      const double ms = median_ms();
      if (least > 0 && ms >= least) continue;
      least = ms;
      best[g] = configuration;
    }
  }
  choose(best);
  return best;
}

void GpuMeasurement::profile_steps(const std::vector<bool>& copied, Deadline deadline) {
  copied_ = copied;
  hold(deadline);
  const Frame found = ask_({{"profile", kProfiledPasses}, {"limit_s", limits_.candidate}}, {},
                           kAnswerSeconds + kProfiledPasses * limits_.candidate);
  resources_ = found.header.at("kernels");
  steps_ = found.header.at("candidate").get<std::vector<double>>();
}

void GpuMeasurement::hold(Deadline deadline) {
  if (turn_) return;
  const Spent::Range waiting(gpu_.spent, Part::kTurn);
  turn_.emplace(gpu_.replayers.measuring().take(deadline));
  held_since_ = Clock::now();
}

void GpuMeasurement::leave() {
  if (!turn_) return;
  held_s_ += seconds_since(held_since_);
  turn_.reset();
}

Profile GpuMeasurement::profile() const {
  Profile profile;
  std::map<size_t, double> own;
  std::map<size_t, std::string> chosen;
  double torch = 0;
  for (size_t k = 0; k < plan_.steps.size(); ++k) {
    const PlanStep& step = plan_.steps[k];
    const auto kernel = static_cast<size_t>(step.kernel);
    if (step.kernel >= 0) own[kernel] += steps_[k];
    else if (!is_free(step.name)) torch += steps_[k];
    if (step.kernel < 0 || step.tuning < 0) continue;
    const PlanTuning& tuning = plan_.tunings[static_cast<size_t>(step.tuning)];
    if (tuning.configurations.size() > 1)
      chosen[kernel] = tuning.configurations[static_cast<size_t>(step.configuration)];
  }
  double all = torch;
  for (const auto& [k, ms] : own) all += ms;
  all = std::max(all, 1e-9);
  for (const auto& [k, ms] : own) {
    const Json& found = resources_.at(k);
    profile.kernels.push_back({.name = plan_.kernels[k].name,
                               .configuration = chosen[k],
                               .registers = found.at("registers"),
                               .spilled_bytes = found.at("spilled_bytes"),
                               .shared = found.at("shared"),
                               .warps = found.at("warps"),
                               .occupancy = found.at("occupancy"),
                               .share = ms / all,
                               .ms = ms});
  }
  profile.torch_share = torch / all;
  return profile;
}

// One side of the pairs.
struct GpuMeasurement::Side {
  std::string name, plan;                    // of process P's two, empty: its own `call`
  std::function<double(size_t input)> call;  // milliseconds on a trial's inputs
  std::vector<double> ms;
};

namespace {

// A call of a side on a trial's inputs.
struct TimedCall {
  size_t side, input;
};

// What each other side took over what the first one did.
template <typename Side>
std::vector<Interval> over_first(const std::vector<Side>& sides) {
  std::vector<Interval> found;
  for (size_t s = 1; s < sides.size(); ++s) {
    std::vector<double> ratios;
    for (size_t k = 0; k < sides[s].ms.size(); ++k) ratios.push_back(sides[s].ms[k] / sides[0].ms[k]);
    found.push_back(median_interval(ratios));
  }
  return found;
}

}  // namespace

void GpuMeasurement::run_pairs(std::vector<Side>& sides, const Pairing& how, Measured& measured) {
  // Those of process P that follow one another are asked for at once: it waits for nobody between them.
  const auto run_calls = [&](const std::vector<TimedCall>& calls, bool kept) {
    for (size_t k = 0; k < calls.size();) {
      const size_t first = k;
      Json asked = Json::array();
      for (; k < calls.size() && !sides[calls[k].side].plan.empty(); ++k) {
        const std::string& plan = sides[calls[k].side].plan;
        asked.push_back({plan, calls[k].input, plan == "candidate"});
      }
      if (k == first) {
        Side& side = sides[calls[k].side];
        const double ms = side.call(calls[k++].input);
        if (kept) side.ms.push_back(ms);
        continue;
      }
      const Frame answer = make(asked);
      for (size_t at = first; at < k; ++at) {
        const Json& found = answer.header.at("calls").at(at - first);
        if (kept) sides[calls[at].side].ms.push_back(found.at(0).get<double>());
        if (!found.at(1).get<bool>() && measured.flags.empty())
          measured.flags.push_back({Cheat::kTimedOutputWrong,
                                    fmt::format("an output of a timed call on trial {}'s inputs", calls[at].input)});
      }
    }
  };
  hold(how.deadline);
  Rng rng(Rng::derive(seed_, "pairs"));
  const PairRule rule{.least = std::min(20, how.most_pairs), .most = how.most_pairs};
  std::vector<TimedCall> calls;
  for (size_t side = 0; side < sides.size(); ++side) calls.insert(calls.end(), kWarmupCalls, {side, 0});
  const auto begun = Clock::now();
  run_calls(calls, false);
  const double pair_s = seconds_since(begun) / kWarmupCalls;
  before_ = gpu_.state(gpu_.replayers.device().uuid);  // warm as it is
  const size_t at_once = std::clamp(static_cast<size_t>(kSecondsBetweenLooks / pair_s), size_t{1}, kPairsBetweenLooks);
  const Deadline end = Deadline::after(std::min(how.limit_s, how.deadline.remaining_s()));
  std::vector<size_t> order(sides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t pairs = 0; pairs < static_cast<size_t>(rule.most) && measured.flags.empty() && !end.expired();) {
    calls.clear();
    for (size_t k = 0; k < at_once && pairs < static_cast<size_t>(rule.most); ++k, ++pairs) {
      const size_t input = rng.below(pooled_);
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
      for (const size_t side : order) calls.push_back({side, input});
    }
    run_calls(calls, true);
    const auto found = over_first(sides);
    if (std::all_of(found.begin(), found.end(), [&](const Interval& one) { return enough_pairs(one, pairs, rule); }))
      break;
  }
  after_ = gpu_.state(gpu_.replayers.device().uuid);
  leave();
}

CompiledBaseline GpuMeasurement::time_compiled(Child& child, const Pairing& how, Measured& measured) {
  CompiledReference compiled(child, how.deadline);
  CompiledBaseline found;
  DeviceLock lock = gpu_.replayers.lock();
  found.unavailable = compiled.open(reference_, pooled_, lock, how.deadline);
  found.may_pass = says_out_of_memory(found.unavailable);
  if (!found.unavailable.empty()) return found;
  std::vector<Side> sides(2);
  sides[0] = {kTorchCompile, "", [&](size_t input) { return compiled.call(input); }, {}};
  sides[1] = {kEager, "reference", {}, {}};
  run_pairs(sides, how, measured);
  found.pairs = sides[0].ms.size();
  if (found.pairs == 0) throw TimingFault{Fault::kTimeout, "no time is left for torch.compile's version"};
  found.timing = summarise(sides[0].ms);
  found.eager_over_it = over_first(sides).front();
  return found;
}

std::vector<GpuMeasurement::Side> GpuMeasurement::beside_compiled(const Pairing& how, Measured& measured) {
  std::vector<Side> sides;
  gpu_.with_reference([&](Child& child) {
    CompiledReference compiled(child, how.deadline);
    DeviceLock lock = gpu_.replayers.lock();
    const std::string why = compiled.open(reference_, pooled_, lock, how.deadline);
    if (why.empty()) {
      sides.push_back({"candidate", "candidate", {}, {}});
      sides.push_back({kTorchCompile, "", [&](size_t input) { return compiled.call(input); }, {}});
      run_pairs(sides, how, measured);
    } else {
      measured.notes["torch_compile"] = "none: " + clipped(why, 300);
    }
    compiled.close();
    return true;
  });
  return sides;
}

// torch.compile's version: against eager once for all candidates of the problem, or in turns with this one, which fills
// `sides`. Where there is none the notes say why.
std::optional<CompiledBaseline> GpuMeasurement::against_compiled(const Pairing& how, std::vector<Side>& sides,
                                                                 Measured& measured) {
  std::optional<CompiledBaseline> compiled;
  std::string unavailable;
  leave();  // it may have to be compiled first
  try {
    if (has_reference_) compiled = gpu_.compiled([&](Child& child) { return time_compiled(child, how, measured); });
    else sides = beside_compiled(how, measured);
    if (compiled) unavailable = compiled->unavailable;
  } catch (const TimingFault& fault) {
    sides.clear();
    unavailable = fault.text;
  }
  leave();
  if (unavailable.empty()) return compiled;
  measured.notes["torch_compile"] = "none: " + clipped(unavailable, 300);
  return std::nullopt;
}

void GpuMeasurement::time(int most_pairs, double limit_s, Deadline deadline, Measured& measured) {
  const Pairing how{.most_pairs = most_pairs, .limit_s = limit_s, .deadline = deadline};
  std::vector<Side> sides;
  std::optional<CompiledBaseline> compiled;
  if (options_.times_compiled()) compiled = against_compiled(how, sides, measured);
  if (options_.against_itself || has_reference_) {
    sides.push_back({"candidate", "candidate", {}, {}});
    if (options_.against_itself) sides.push_back({"itself", "candidate", {}, {}});
    else sides.push_back({kEager, "reference", {}, {}});
    run_pairs(sides, how, measured);
  }
  if (sides.empty()) {
    measured.notes["timing"] = "none: the reference is neither a plan nor compiled by torch";
    return;
  }
  if (!measured.flags.empty() || sides[0].ms.empty()) return;
  Measured::Times times = times_of(sides, compiled);
  if (compiled)
    measured.notes["torch_compile"] = fmt::format(
        "timed once for this problem: eager takes {:.3f} to {:.3f} of its time, {} pairs", compiled->eager_over_it.low,
        compiled->eager_over_it.high, compiled->pairs);
  if (const double least = times.profile.floor_ms; times.runtime.median < kBelowFloor * least) {
    measured.flags.push_back(
        {Cheat::kExcessiveSpeedup,
         fmt::format("{:.4g} ms, and what the problem reads, writes and multiplies takes {:.4g} ms here",
                     times.runtime.median, least)});
    times.speedup = times.eager_speedup = times.torch_compile_speedup = 0;  // no reward is paid for what cannot be
  }
  measured.notes["timing"] = fmt::format(
      "by the evaluator's clock, {} interleaved pairs with {}, cold L2, fresh memory, every output compared, "
      "the device alone for {:.0f} ms",
      sides[0].ms.size(), sides[1].name, 1e3 * held_s_);
  if (before_ && after_ && !(before_->throttled.empty() && after_->throttled.empty()))
    measured.notes["throttled"] = fmt::format("{} before the pairs, {} after", clock_of(*before_), clock_of(*after_));
  measured.times = std::move(times);
}

// The speedup is over the faster baseline. What torch.compile's version takes over eager comes with an interval of its
// own: the speedup over it lies between what the ends of both allow.
Measured::Times GpuMeasurement::times_of(const std::vector<Side>& sides,
                                         const std::optional<CompiledBaseline>& compiled) const {
  struct Baseline {
    std::string name;
    Interval speedup;
    Timing timing;
  };
  std::vector<Baseline> baselines{{sides[1].name, over_first(sides).front(), summarise(sides[1].ms)}};
  if (compiled) {
    const Interval eager = baselines[0].speedup, less = compiled->eager_over_it;
    baselines.push_back({kTorchCompile, {eager.low / less.high, eager.high / less.low}, compiled->timing});
  }
  const Baseline& fastest = *std::ranges::min_element(baselines, {}, [](const Baseline& b) { return b.speedup.low; });
  Measured::Times times{.runtime = summarise(sides[0].ms),
                        .ref_runtime = fastest.timing,
                        .speedup = fastest.speedup.low,
                        .low = fastest.speedup.low,
                        .high = fastest.speedup.high,
                        .profile = profile()};
  for (const Baseline& baseline : baselines) {
    times.profile.baselines[baseline.name] = baseline.timing.median;
    if (baseline.name == kEager) {
      times.eager = baseline.timing;
      times.eager_speedup = baseline.speedup.low;
    } else if (baseline.name == kTorchCompile) {
      times.torch_compile = baseline.timing;
      times.torch_compile_speedup = baseline.speedup.low;
    }
  }
  add_physics(times);
  if (after_) {
    times.profile.clock_mhz = after_->clock_mhz;
    times.profile.power_w = after_->power_w;
    times.profile.temperature = after_->temperature;
    times.profile.throttled = after_->throttled;
  }
  return times;
}

void GpuMeasurement::add_physics(Measured::Times& times) const {
  const GpuDevice& device = gpu_.replayers.device();
  double weights = 0;
  std::set<std::string> counted;
  for (const PlanValue& value : plan_.values) {
    if (!value.weight.empty() && counted.insert(value.weight).second)
      weights += static_cast<double>(value.elements() * static_cast<int64_t>(size_of(value.dtype)));
  }
  const ReferenceTrial& trial = *reference_.trials.front();
  const bool narrow = std::any_of(trial.before.begin(), trial.before.end(), [](const TensorView& input) {
    return input.dtype == Dtype::kFloat16 || input.dtype == Dtype::kBFloat16;
  });
  const Physics physics{.read_bytes = static_cast<double>(trial.input_bytes) + weights,
                        .written_bytes = static_cast<double>(trial.output_bytes),
                        .flops = least_flops(reference_),
                        .l2 = device.l2,
                        .bytes_per_s = device.bytes_per_s,
                        .flops_per_s = peak_flops(device, narrow)};
  const double seconds = times.runtime.median / 1e3;
  times.profile.floor_ms = floor_ms(physics);
  times.profile.bytes_per_s = (physics.read_bytes + physics.written_bytes) / seconds;
  times.profile.peak_bytes_per_s = device.bytes_per_s;
  times.profile.flops_per_s = physics.flops / seconds;
  times.profile.peak_flops_per_s = physics.flops_per_s;
}

}  // namespace tritonforge::evaluate
