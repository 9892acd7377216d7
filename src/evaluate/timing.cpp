#include "evaluate/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/device_lock.h"
#include "base/rng.h"
#include "evaluate/pairs.h"
#include "evaluate/seeds.h"

namespace tritonforge::evaluate {
namespace {

constexpr int kCallsPerRound = 10, kWarmupCalls = 5, kMinSamples = 30;
constexpr double kEnoughPrecision = 0.02;  // half-width of the interval relative to the ratio
constexpr double kAnswerSeconds = 2;       // of an answer beside its calls: buffers, events, a busy CPU

struct HoldOver {};  // the device has to be given back while one is asked

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// A process with its answers read: one that cannot be understood is a fault of that process.
class Side {
 public:
  // `call_s`: what one of its calls may take; 0: nobody knows.
  Side(TimedProcess& process, double limit_s, double call_s) : process_(process), limit_s_(limit_s), call_s_(call_s) {}
  void hold_until(Deadline end) { hold_ = end; }

  // `read` takes what it needs from the frame; `calls`: of the kernel, that the answer needs.
  template <typename Read>
  auto ask(const Json& request, const std::vector<std::span<const std::byte>>& payload, Read read, size_t calls = 0) {
    const Frame frame = frame_of(request, payload, calls);
    try {
      return read(frame);
    } catch (const nlohmann::json::exception&) {
      throw TimingFault{Fault::kForbidden, "while it was timed it gave an answer without the expected fields"};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      throw TimingFault{Fault::kForbidden, fmt::format("while it was timed it answered nonsense: {}", error.what())};
    }
  }
  std::string text(const Json& request, const char* field) {
    return ask(request, {}, [&](const Frame& frame) { return frame.header.value(field, std::string()); });
  }

  std::vector<double> time(const std::vector<int>& order, const std::string& nonce, double& wall) {
    const auto start = Clock::now();
    const auto read = [&](const Frame& frame) {
      if (frame.header.value("nonce", "") != nonce) return std::vector<double>();
      return frame.header.at("times").get<std::vector<double>>();
    };
    const auto times = ask({{"op", "time"}, {"order", order}, {"nonce", nonce}}, {}, read, order.size());
    wall = seconds_since(start);
    if (times.size() != order.size()) throw TimingFault{Fault::kForbidden, "a timing answer that was not asked for"};
    for (const double ms : times) {
      if (!std::isfinite(ms) || ms <= 0)
        throw TimingFault{Fault::kForbidden, fmt::format("a call that took {} ms", ms)};
    }
    return times;
  }

 private:
  Frame frame_of(const Json& request, const std::vector<std::span<const std::byte>>& payload, size_t calls) {
    if (!hold_) return process_.ask(request, payload, limit_s_);
    const double own = call_s_ > 0 ? 2 * call_s_ * static_cast<double>(calls) + kAnswerSeconds : limit_s_;
    const double left = calls > 0 ? hold_->remaining_s() : own;
    try {
      return process_.ask(request, payload, std::min(own, left));
    } catch (const TimingFault& fault) {
      if (fault.fault == Fault::kTimeout && left < own) throw HoldOver{};
      throw;
    }
  }

  TimedProcess& process_;
  double limit_s_, call_s_;
  std::optional<Deadline> hold_;
};

// "" where the output agrees with what the trial expects, else where it does not.
std::string mismatch_of(const Frame& fetched, const ReferenceTrial& trial, const Tolerances& tolerances) {
  const auto tensors = parse_tensors(fetched.header.at("tensors"), fetched.payload);
  if (tensors.size() != trial.outputs.size()) return "another number of outputs";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto result = compare(tensors[i], trial.outputs[i], tolerances, fmt::format("output {}", i));
    if (!result.passed) return result.mismatch;
  }
  return "";
}

// Rounds in random order of the sides, until the interval is narrow, the samples are enough or the time is up.
struct Rounds {
  std::vector<double> ours, theirs;
  Interval interval;
};

class Measurement {
 public:
  Measurement(const TimingSession& session, Verdict& verdict)
      : session_(session),
        verdict_(verdict),
        reference_(session.reference, session.limit_s, 0),
        candidate_(session.candidate, session.limit_s, session.call_s),
        rng_(session.seed) {}

  // Each throws TimingFault of its side; `at_reference` says whose turn it was.
  void run() {
    const std::string uuid = prepare();
    // Alone on the device from here on; warm up, then close the candidate's way to new processes.
    DeviceLock lock(uuid.empty() ? "gpu-0" : uuid);
    const auto hold = lock.exclusive();
    const Deadline end = Deadline::after(session_.most_hold_s);
    reference_.hold_until(end);
    candidate_.hold_until(end);
    double wall = 0;
    on_reference([&] { reference_.time(order(kWarmupCalls), "warm", wall); });
    candidate_.time(order(kWarmupCalls), "warm", wall);
    const Json close = {{"op", "run_phase"}, {"library", session_.sandbox_library.string()}};
    const bool enforced = candidate_.ask(close, {},
                                         [](const Frame& frame) { return frame.header.value("run_phase", false); });
    verdict_.notes["run_phase"] = enforced ? "claimed: no new process while timed" : "unavailable";
    record(rounds(end));
  }
  bool at_reference() const { return at_reference_; }

 private:
  // Both sides on the same device, with the same pool of inputs. Returns the device's UUID.
  std::string prepare() {
    verdict_.device = candidate_.text({{"op", "device"}}, "device").substr(0, 100);
    std::string uuid;
    on_reference([&] { uuid = reference_.text({{"op", "device"}}, "uuid"); });
    if (!uuid.empty() && uuid.rfind("GPU-", 0) != 0) uuid = "GPU-" + uuid;  // as the engine and the trainer name it
    for (const auto& trial : session_.data.trials) {
      const Json request = {{"op", "pool"}, {"inputs", trial->inputs}, {"tensors", trial->input_tensors}};
      const std::span<const std::byte> inputs(trial->payload.data(), trial->input_bytes);
      on_reference([&] { reference_.ask(request, {inputs}, [](const Frame&) { return 0; }); });
      candidate_.ask(request, {inputs}, [](const Frame&) { return 0; });
    }
    return uuid;
  }

  std::vector<int> order(int calls) {
    std::vector<int> out(calls);
    for (auto& index : out) index = static_cast<int>(rng_.below(session_.data.trials.size()));
    return out;
  }

  template <typename Action>
  void on_reference(Action action) {
    at_reference_ = true;
    action();
    at_reference_ = false;
  }

  Rounds rounds(Deadline end) {
    Rounds all;
    double wall = 0;
    const auto calls = [&](const std::vector<double>& so_far) {
      return order(std::min(kCallsPerRound, session_.max_samples - static_cast<int>(so_far.size())));
    };
    const auto add = [](std::vector<double>& all_times, const std::vector<double>& times) {
      all_times.insert(all_times.end(), times.begin(), times.end());
    };
    while (static_cast<int>(all.ours.size()) < session_.max_samples) {
      const bool reference_first = rng_.below(2) == 0;
      for (const bool is_candidate : {!reference_first, reference_first}) {
        const auto now = calls(is_candidate ? all.ours : all.theirs);
        const std::string nonce = fmt::format("{:016x}", random_bits());  // not of rng_'s
        if (is_candidate) add(all.ours, candidate_round(now, nonce, wall));
        else on_reference([&] { add(all.theirs, reference_.time(now, nonce, wall)); });
      }
      if (verdict_.cheated()) break;
      all.interval = bootstrap_ratio(all.theirs, all.ours, session_.seed);
      const double half = (all.interval.high - all.interval.low) / 2;
      if (static_cast<int>(all.ours.size()) >= std::min(kMinSamples, session_.max_samples) &&
          half < kEnoughPrecision * all.interval.low)
        break;
      if (end.remaining_s() < 2 * (wall + 1)) break;
    }
    return all;
  }

  // Times, the candidate's clock against ours, and one output, chosen after all of them were made.
  std::vector<double> candidate_round(const std::vector<int>& calls, const std::string& nonce, double& wall) {
    const auto times = candidate_.time(calls, nonce, wall);
    const double claimed = std::accumulate(times.begin(), times.end(), 0.0) / 1000;
    if (claimed > wall * 1.001) {
      verdict_.flags.push_back(
          {Cheat::kClockMismatch, fmt::format("{:.3f} s of GPU time were claimed in {:.3f} s", claimed, wall)});
    }
    const size_t chosen = rng_.below(calls.size());
    const std::string mismatch = candidate_.ask({{"op", "fetch"}, {"index", chosen}}, {}, [&](const Frame& fetched) {
      return mismatch_of(fetched, *session_.data.trials[calls[chosen]], session_.data.tolerances);
    });
    if (!mismatch.empty())
      verdict_.flags.push_back({Cheat::kTimedOutputWrong, "an output of a timed call: " + mismatch});
    return times;
  }

  // A cheat takes the verdict back; else the figures.
  void record(const Rounds& all) {
    if (verdict_.cheated()) {
      verdict_.correct = false;
      verdict_.stage = Stage::kLaunched;
      return;
    }
    verdict_.runtime = summarise(all.ours);
    verdict_.eager_runtime = verdict_.ref_runtime = summarise(all.theirs);
    verdict_.speedup_low = all.interval.low;
    verdict_.speedup_high = all.interval.high;
    verdict_.claimed_speedup = all.interval.low;
    verdict_.stage = Stage::kTimed;
    verdict_.notes["timing"] =
        "GPU time by CUDA events read in the candidate's process, checked against the evaluator's wall clock; "
        "interleaved with eager PyTorch, cold L2, fresh copies";
    if (all.interval.low > kBeyondEager)
      verdict_.flags.push_back({Cheat::kExcessiveSpeedup, fmt::format("{:.1f}x", all.interval.low)});
  }

  const TimingSession& session_;
  Verdict& verdict_;
  Side reference_, candidate_;
  Rng rng_;
  bool at_reference_ = false;
};

void fail_candidate(const TimingFault& fault, Verdict& verdict) {
  verdict.correct = false;
  verdict.stage = Stage::kLaunched;
  verdict.fault = fault.fault;
  verdict.diagnostics = "in its trials the candidate was correct, but " + fault.text;
  if (fault.fault == Fault::kForbidden) verdict.flags.push_back({Cheat::kProtocolForgery, fault.text});
}

}  // namespace

Timing summarise(std::vector<double> samples) {
  Timing timing;
  timing.samples = static_cast<int>(samples.size());
  if (samples.empty()) return timing;
  const double n = static_cast<double>(samples.size());
  timing.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double ms : samples) squares += (ms - timing.mean) * (ms - timing.mean);
  timing.std = std::sqrt(squares / std::max(1.0, n - 1));
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  timing.min = *low;
  timing.max = *high;
  timing.median = median_of(samples);
  return timing;
}

Interval bootstrap_ratio(const std::vector<double>& reference, const std::vector<double>& candidate, uint64_t seed) {
  if (reference.empty() || candidate.empty()) return {};
  constexpr int kResamples = 2000;
  Rng rng(seed);
  std::vector<double> ratios(kResamples), sample;
  const auto resampled_median = [&](const std::vector<double>& values) {
    sample.resize(values.size());
    for (auto& value : sample) value = values[rng.below(values.size())];
    return median_of(sample);
  };
  for (auto& ratio : ratios) ratio = resampled_median(reference) / resampled_median(candidate);
  std::sort(ratios.begin(), ratios.end());
  return {ratios[kResamples * 25 / 1000], ratios[kResamples * 975 / 1000 - 1]};
}

Frame TimedChild::ask(const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s) {
  const Deadline deadline = Deadline::after(limit_s);
  return received(child_.channel().send(request, payload, deadline), limit_s, deadline);
}

Frame TimedChild::answer(double limit_s) { return received(Silence::kNone, limit_s, Deadline::after(limit_s)); }

Frame TimedChild::received(Silence silence, double limit_s, Deadline deadline) {
  Frame frame;
  std::string detail;
  if (silence == Silence::kNone) silence = child_.channel().receive(frame, deadline, detail, payload_bytes_);
  if (silence != Silence::kNone) {
    const std::string how = describe_silence(silence, child_, detail, limit_s);
    if (silence == Silence::kClosed && child_.orphaned())
      fail(ErrorKind::kUnavailable, "evaluator: the Python parent died while a kernel was timed");
    throw TimingFault{fault_of(silence, child_, how), "while it was timed it " + how};
  }
  if (frame.header.contains("failed")) {
    const Json& what = frame.header["failed"];
    const std::string text = what.is_object() ? what.value("text", what.dump()) : what.dump();
    throw TimingFault{says_out_of_memory(text) ? Fault::kOutOfMemory : Fault::kRuntimeError,
                      "while it was timed: " + text};
  }
  return frame;
}

bool measure(const TimingSession& session, Verdict& verdict) {
  Measurement measurement(session, verdict);
  try {
    measurement.run();
  } catch (const HoldOver&) {
    const bool reference = measurement.at_reference();
    verdict.notes["timing"] = fmt::format("none: {} too slow for the {:.0f} s that a measurement has the device",
                                          reference ? "the reference is" : "it is", session.most_hold_s);
    if (reference) return false;
    try {
      session.candidate.answer(session.limit_s);  // the device is free again
    } catch (const TimingFault& fault) {
      fail_candidate(fault, verdict);
    }
  } catch (const TimingFault& fault) {
    if (measurement.at_reference()) {
      verdict.fault = Fault::kProblemError;
      verdict.diagnostics = "the candidate is correct, but the problem's own code could not be timed: " + fault.text;
      return false;
    }
    fail_candidate(fault, verdict);
  }
  // The reference's process lives on: without this pool.
  try {
    session.reference.ask({{"op", "clear"}}, {}, session.limit_s);
  } catch (const TimingFault&) {
    return false;
  }
  return true;
}

}  // namespace tritonforge::evaluate
