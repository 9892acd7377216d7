// libs: tf_evaluate
// Whole conversations as bytes, through runner and judgement to a verdict, in every mode, timed and on a GPU, and
// without a process.
#include <algorithm>
#include <cmath>

#include "evaluate/timing.h"
#include "unit/evaluate/written_gpu.h"

namespace {

using namespace tritonforge;
using namespace tritonforge::evaluate;

// What is said: the modes without times, a live candidate that is timed, a plan on a GPU, and one whose problem is
// drawn there.
enum class Said { kInterpret, kPlan, kLive, kTimed, kOnGpu, kDrawnOnGpu };

// Right outputs, and nothing that speaks against them: what every correct verdict must rest on.
bool sound(const Verdict& verdict) {
  if (verdict.diagnostics.size() > 4100 || to_json(verdict).dump().size() > (1 << 20)) return false;
  if (!std::isfinite(verdict.speedup) || !std::isfinite(verdict.claimed_speedup)) return false;
  if (!verdict.correct) return verdict.speedup == 0 && verdict.claimed_speedup == 0;
  return !verdict.cheated() && verdict.fault == Fault::kNone && verdict.compiled && verdict.trials.size() == 1 &&
         verdict.trials[0].passed && (verdict.mode != EvaluationMode::kPlan || verdict.own_share.value_or(0) >= 0.1);
}

// The reference's side of a measurement: calls of a microsecond.
class Honest : public TimedProcess {
 public:
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>&, double) override {
    Frame frame;
    frame.header = {{"uuid", "written-timing"}};
    if (request.at("op") == "time")
      frame.header = {{"nonce", request.at("nonce")}, {"times", std::vector<double>(request.at("order").size(), 1e-6)}};
    return frame;
  }
  Frame answer(double) override { return {}; }
};

// A nonce is fresh each time: "$" stands for the one that was asked for.
class Knowing : public TimedChild {
 public:
  using TimedChild::TimedChild;
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s) override {
    Frame frame = TimedChild::ask(request, payload, limit_s);
    if (frame.header.is_object() && frame.header.value("nonce", Json()) == "$")
      frame.header["nonce"] = request.value("nonce", "");
    return frame;
  }
};

void time(Child& child, Verdict& verdict) {
  ReferenceData data = written_reference();
  data.trials[0]->outputs = data.trials[0]->after;  // as a written frame's first bytes are
  Honest reference;
  Knowing candidate(child, 2 * data.trials[0]->payload.size() + kPayloadSlack);
  measure({.reference = reference,
           .candidate = candidate,
           .data = data,
           .options = {},
           .sandbox_library = "",
           .max_samples = 10,
           .seed = 7,
           .limit_s = 30,
           .call_s = 0.01},
          verdict);
}

const GpuSetting kOnGpu{.pairs = 1, .bytes_per_s = 1e12, .reference_work = 1e6};
const GpuSetting kDrawn{.pairs = 1, .bytes_per_s = 1e12, .drawn = true, .reference_work = 1e6};

// The first process P says what the device is, before anything of a candidate is there: that stands.
std::string first_of_all() { return opened(kOnGpu.bytes_per_s) + "=\n"; }

Verdict judged(Said said, const std::string& text) {
  switch (said) {
    case Said::kTimed: return judge_written(text, EvaluationMode::kLive, Claims::kRefuse, time);
    case Said::kOnGpu: return judge_written_on_gpu(first_of_all() + text, kOnGpu);
    case Said::kDrawnOnGpu: return judge_written_on_gpu(first_of_all() + text, kDrawn);
    default: return judge_written(text, static_cast<EvaluationMode>(said));
  }
}

std::string seed(Said said, const std::string& text) {
  const bool on_gpu = said == Said::kOnGpu || said == Said::kDrawnOnGpu;
  return std::string(1, static_cast<char>(said)) + (on_gpu ? text.substr(first_of_all().size()) : text);
}

std::string timed_process() {
  std::string all = honest_process();
  const size_t without_launches = all.rfind("0 {\"failed\"");
  const std::string timing =
      "0 {\"device\":\"written\"}\n0 {}\n0 {\"nonce\":\"$\",\"times\":[1e-6,1e-6,1e-6,1e-6,1e-6]}\n"
      "0 {\"run_phase\":true}\n"
      "0 {\"nonce\":\"$\",\"times\":[1e-6,1e-6,1e-6,1e-6,1e-6,1e-6,1e-6,1e-6,1e-6,1e-6]}\n"
      "80 {\"tensors\":[{\"dtype\":\"float32\",\"shape\":[20],\"order\":[0],\"bytes\":80}]}\n";
  return all.insert(without_launches, timing);
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Verdict verdict;
  try {
    verdict = judged(static_cast<Said>(data[0] % 6), text);
  } catch (const DeviceFault&) {
    return 0;  // the pool has it run again
  }
  bound(verdict);
  return sound(verdict) ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  const auto timed = [](const std::string& before, const std::string& ready, int kernels, const std::string& ms) {
    return before + ready + profiled(kernels, ms) + one_pair(2, 4, 0);
  };
  const std::string again = kLoadedPlan + kReady + profiled(1, "0,1") + one_pair(1, 15, Rng::derive(0, "again"));
  GpuSetting two = kOnGpu;
  two.recorded = recorded_with_others(1);
  GpuSetting tuned = kOnGpu;
  tuned.tuned = true;
  std::string tuning = kRight + kChosen + kRight + kChosen + kChosen + kRight + kChosen + kReady + kChosen;
  for (const double ms : {3, 1, 2}) tuning += ten_calls(ms) + kChosen;
  return {
      seed(Said::kInterpret, honest_process()),
      seed(Said::kPlan, honest_plan()),
      seed(Said::kLive, honest_process()),
      seed(Said::kTimed, timed_process()),
      seed(Said::kOnGpu, on_gpu(timed(kRight, kReady, 2, "0,1,0,1,8") + kWrong + kRight + kNothingWritten, "", two)),
      seed(Said::kOnGpu,
           on_gpu(kRight + kReady + profiled(1, "0,1") + one_pair(1, 20, 0), again + kNothingWritten, kOnGpu)),
      seed(Said::kOnGpu, on_gpu(tuning + profiled(3, "0,1.0") + one_pair(2, 4, 0) + kNothingWritten, "", tuned)),
      seed(Said::kDrawnOnGpu, on_gpu(timed(kDrawnRight, kDrawnReady, 1, "0,1") + kNothingWritten, "", kDrawn))};
}
