#include "evaluate/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/device_lock.h"
#include "base/rng.h"

namespace tritonforge::evaluate {
namespace {

constexpr int kCallsPerRound = 10, kWarmupCalls = 5, kMinSamples = 30;
constexpr double kEnoughPrecision = 0.02;  // half-width of the interval relative to the ratio

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// The error of a child that gave no answer, for the verdict.
struct TimingFault {
  bool candidate;
  Fault fault;
  std::string text;
};

class Side {
 public:
  Side(Child& child, bool candidate, Deadline deadline) : child_(child), candidate_(candidate), deadline_(deadline) {}
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload = {}) {
    Frame frame;
    std::string detail;
    Silence silence = child_.channel().send(request, payload, deadline_);
    if (silence == Silence::kNone) silence = child_.channel().receive(frame, deadline_, detail);
    if (silence != Silence::kNone) {
      throw TimingFault{candidate_, silence == Silence::kTimeout ? Fault::kTimeout : Fault::kCrashed,
                        "while it was timed it " + describe_silence(silence, child_, detail, 0)};
    }
    if (frame.header.contains("failed"))
      throw TimingFault{candidate_, Fault::kRuntimeError,
                        "while it was timed: " + frame.header["failed"].value("text", "")};
    return frame;
  }
  std::vector<double> time(const std::vector<int>& order, const std::string& nonce, double& wall) {
    const auto start = Clock::now();
    Frame frame = ask({{"op", "time"}, {"order", order}, {"nonce", nonce}});
    wall = seconds_since(start);
    auto times = frame.header.at("times").get<std::vector<double>>();
    if (frame.header.value("nonce", "") != nonce || times.size() != order.size())
      throw TimingFault{candidate_, Fault::kForbidden, "a timing answer that was not asked for"};
    for (const double ms : times) {
      if (!std::isfinite(ms) || ms <= 0)
        throw TimingFault{candidate_, Fault::kForbidden, fmt::format("a call that took {} ms", ms)};
    }
    return times;
  }

 private:
  Child& child_;
  bool candidate_;
  Deadline deadline_;
};

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

bool measure(const TimingSession& session, Verdict& verdict, Deadline deadline) {
  Side reference(session.reference, false, deadline), candidate(session.candidate, true, deadline);
  Rng rng(session.seed);
  try {
    // Both sides on the same device, with the same pool of inputs.
    const Frame device = candidate.ask({{"op", "device"}});
    std::string uuid = reference.ask({{"op", "device"}}).header.value("uuid", "");
    if (!uuid.empty() && uuid.rfind("GPU-", 0) != 0) uuid = "GPU-" + uuid;  // as the engine and the trainer name it
    verdict.device = device.header.value("device", "").substr(0, 100);
    for (const auto& trial : session.data.trials) {
      const Json request = {{"op", "pool"}, {"inputs", trial->inputs}, {"tensors", trial->input_tensors}};
      const std::span<const std::byte> inputs(trial->payload.data(), trial->input_bytes);
      reference.ask(request, {inputs});
      candidate.ask(request, {inputs});
    }
    const int pool = static_cast<int>(session.data.trials.size());
    const auto order = [&](int calls) {
      std::vector<int> out(calls);
      for (auto& index : out) index = static_cast<int>(rng.below(pool));
      return out;
    };
    // Alone on the device from here on; warm up, then close the candidate's way to new processes.
    DeviceLock lock(uuid.empty() ? "gpu-0" : uuid);
    const auto hold = lock.exclusive();
    double wall = 0;
    reference.time(order(kWarmupCalls), "warm", wall);
    candidate.time(order(kWarmupCalls), "warm", wall);
    verdict.notes["run_phase"] = candidate.ask({{"op", "run_phase"}, {"library", session.sandbox_library.string()}})
                                         .header.value("run_phase", false)
                                     ? "enforced: no new process while timed"
                                     : "unavailable";
    // Rounds in random order of the sides, until the interval is narrow, the samples are enough or the time is up.
    std::vector<double> ours, theirs;
    Interval interval;
    while (static_cast<int>(ours.size()) < session.max_samples) {
      const bool reference_first = rng.below(2) == 0;
      for (const bool is_candidate : {reference_first ? false : true, reference_first}) {
        const auto calls = order(std::min(
            kCallsPerRound, session.max_samples - static_cast<int>(is_candidate ? ours.size() : theirs.size())));
        Side& side = is_candidate ? candidate : reference;
        const auto times = side.time(calls, fmt::format("{:016x}", rng.next()), wall);
        auto& all = is_candidate ? ours : theirs;
        all.insert(all.end(), times.begin(), times.end());
        if (!is_candidate) continue;
        // The candidate's clock against ours.
        const double claimed = std::accumulate(times.begin(), times.end(), 0.0) / 1000;
        if (claimed > wall * 1.001) {
          verdict.flags.push_back(
              {Cheat::kClockMismatch, fmt::format("{:.3f} s of GPU time were claimed in {:.3f} s", claimed, wall)});
        }
        // Which output is looked at is decided after all of them were made.
        const size_t chosen = rng.below(calls.size());
        const Frame fetched = candidate.ask({{"op", "fetch"}, {"index", chosen}});
        const auto tensors = parse_tensors(fetched.header.at("tensors"), fetched.payload);
        const auto& expected = session.data.trials[calls[chosen]]->outputs;
        bool same = tensors.size() == expected.size();
        std::string mismatch = same ? "" : "another number of outputs";
        for (size_t i = 0; same && i < expected.size(); ++i) {
          const auto result = compare(tensors[i], expected[i], session.options.tolerances, fmt::format("output {}", i));
          same = result.passed;
          mismatch = result.mismatch;
        }
        if (!same) verdict.flags.push_back({Cheat::kTimedOutputWrong, "an output of a timed call: " + mismatch});
      }
      if (verdict.cheated()) break;
      interval = bootstrap_ratio(theirs, ours, session.seed);
      const double half = (interval.high - interval.low) / 2;
      if (static_cast<int>(ours.size()) >= std::min(kMinSamples, session.max_samples) &&
          half < kEnoughPrecision * interval.low)
        break;
      if (deadline.remaining_s() < 2 * (wall + 1)) break;
    }
    // A cheat takes the verdict back; else the figures.
    if (verdict.cheated()) {
      verdict.correct = false;
      verdict.stage = Stage::kLaunched;
    } else {
      verdict.runtime = summarise(ours);
      verdict.ref_runtime = summarise(theirs);
      verdict.speedup_low = interval.low;
      verdict.speedup_high = interval.high;
      verdict.speedup = interval.low;
      verdict.stage = Stage::kTimed;
      verdict.notes["timing"] =
          "GPU time by CUDA events read in the candidate's process, checked against the evaluator's wall clock; "
          "interleaved with eager PyTorch, cold L2, fresh copies";
      if (interval.low > 10) verdict.flags.push_back({Cheat::kExcessiveSpeedup, fmt::format("{:.1f}x", interval.low)});
    }
  } catch (const TimingFault& fault) {
    if (fault.candidate) {
      verdict.fault = fault.fault;
      verdict.diagnostics = "the candidate was correct, but " + fault.text;
    } else {
      verdict.notes["timing"] = "the reference could not be timed: " + fault.text;
      return false;
    }
  } catch (const nlohmann::json::exception&) {
    verdict.fault = Fault::kForbidden;
    verdict.flags.push_back({Cheat::kProtocolForgery, "a timing answer without the expected fields"});
    verdict.correct = false;
  }
  // The reference's process lives on: without this pool.
  try {
    reference.ask({{"op", "clear"}});
  } catch (const TimingFault&) {
    return false;
  }
  return true;
}

}  // namespace tritonforge::evaluate
