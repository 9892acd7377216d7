#pragma once
// Plan mode on a GPU over conversations that were written down: what process P says at each step, and the verdict of
// all of it.
#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "evaluate/plan/gpu_measure.h"
#include "unit/evaluate/written_conversation.h"

namespace tritonforge::evaluate {

inline std::string opened(double bytes_per_s) {
  return R"(0 {"device":{"name":"written","uuid":"written-gpu","target":"sm_90","multiprocessors":1,"l2":1,)" +
         fmt::format(R"("memory":1e11,"bytes_per_s":{},"clock_hz":1}}}})", bytes_per_s) + "\n";
}
inline const std::string kLoadedPlan = "0 {\"loaded\":true}\n";
inline const std::string kRight = R"(160 {"findings":[],"own":[0,0],"copied":[false],)" + kWrittenTensors + "}\n";
inline const std::string kWrong =
    R"(120 {"findings":[],"own":[0,0],"copied":[false],"inputs":1,"aliases":[-1],"shared":[-1],"tensors":[)"
    R"({"dtype":"float32","shape":[20],"order":[0],"bytes":80},)"
    R"({"dtype":"float32","shape":[10],"order":[0],"bytes":40}]})"
    "\n";
inline const std::string kReady = "0 {\"ready\":true}\n";
inline const std::string kChosen = "0 {\"chosen\":true}\n";
inline const std::string kNothingWritten = "0 {\"failed\":{\"kind\":\"fault\",\"text\":\"nothing was written\"}}\n";

// A launch, of one kernel or of that of each of three configurations.
inline std::string recording(bool tuned) {
  const std::string launch = R"("grid":[1,1,1],"args":[{"t":0},{"t":1},{"i":20}])";
  std::string kernels, steps;
  for (int k = 0; k < (tuned ? 3 : 1); ++k) {
    kernels += fmt::format(R"({}{{"name":"k","options":{{"num_warps":{}}},"ir":{{"sm_90":0}},"errors":{{}}}})",
                           k > 0 ? "," : "", k + 1);
    steps += fmt::format(R"(,{{"launch":{},{}{}}})", k, launch, tuned ? fmt::format(R"(,"of":[0,{}])", k) : "");
  }
  const std::string tunings = tuned ? R"("tunings":[{"configurations":["B 1","B 2","B 3"],"left_out":0}],)" : "";
  return kWrittenLoad +
         R"(16 {"plan":{"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},{"dtype":"float32",)"
         R"("shape":[20],"stride":[1]}],"kernels":[)" +
         kernels + "]," + tunings +
         R"("steps":[{"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[1]})" + steps +
         R"(],"outputs":{"tensor":1},"inputs":1,"texts":[16],"constants":[],"own_weights":[]}})" + "\n";
}

// y = k(x + 1), the sum by torch, and launches of others that write into memory that nobody looks at.
inline std::string recorded_with_others(int others) {
  std::string kernels = R"({"name":"k","options":{},"ir":{"sm_90":0},"errors":{}})";
  std::string steps = R"({"launch":0,"grid":[1,1,1],"args":[{"t":2},{"t":1},{"i":20}]})";
  for (int k = 1; k <= others; ++k) {
    kernels += fmt::format(R"(,{{"name":"other{}","options":{{}},"ir":{{"sm_90":0}},"errors":{{}}}})", k);
    steps += fmt::format(R"(,{{"launch":{},"grid":[1,1,1],"args":[{{"t":0}},{{"t":3}},{{"i":20}}]}})", k);
  }
  return kWrittenLoad +
         R"(16 {"plan":{"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},)"
         R"({"dtype":"float32","shape":[20],"stride":[1]},{"dtype":"float32","shape":[20],"stride":[1]},)"
         R"({"dtype":"float32","shape":[20],"stride":[1]}],"kernels":[)" +
         kernels +
         R"(],"steps":[{"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[1]},)"
         R"({"aten":"aten::add","overload":"Scalar","args":[{"t":0},1],"kwargs":{},"out":[2]},)"
         R"({"aten":"aten::empty_like","overload":"","args":[{"t":0}],"kwargs":{},"out":[3]},)" +
         steps + R"(],"outputs":{"tensor":1},"inputs":1,"texts":[16],"constants":[],"own_weights":[]}})" + "\n";
}

// Of a profile: what its kernels take of the device, and the milliseconds of its steps.
inline std::string profiled(int kernels, const std::string& ms) {
  std::string each;
  for (int k = 0; k < kernels; ++k)
    each += fmt::format(R"({}{{"registers":9,"spilled_bytes":0,"shared":0,"warps":1,"occupancy":1}})",
                        k > 0 ? "," : "");
  return fmt::format(R"(0 {{"kernels":[{}],"candidate":[{}]}})", each, ms) + "\n";
}

// A drawn trial: what the candidate's forward left and gave, what was drawn, what the reference gave; and how they
// compare.
inline const std::string kDrawnSamples = R"("drawn":[{"dtype":"float32","shape":[20],"order":[0],"bytes":80}],)"
                                         R"("expected":[{"dtype":"float32","shape":[20],"order":[0],"bytes":80}])";
inline const std::string kDrawnRight = R"(320 {"findings":[],"own":[0,0],"copied":[false],)" + kDrawnSamples +
                                       R"(,"whole":{"inputs":[[true,null]],"outputs":[[true,"0","0",""]]},)" +
                                       kWrittenTensors + "}\n";
inline const std::string kDrawnReady = "160 {\"ready\":true," + kDrawnSamples + "}\n";

// The reference as the same, all of it by torch.
inline Json reference_plan() {
  return parse_json(R"({"values":[{"dtype":"float32","shape":[20],"stride":[1],"input":0},)"
                    R"({"dtype":"float32","shape":[20],"stride":[1]}],"kernels":[],"steps":[{"aten":"aten::add",)"
                    R"("overload":"Scalar","args":[{"t":0},1],"kwargs":{},"out":[1]}],"outputs":{"tensor":1},)"
                    R"("inputs":1,"texts":[],"constants":[],"own_weights":[]})",
                    "the reference");
}

// Timed calls: those that warm up, then one pair, in the order that is drawn under this seed.
inline std::string one_pair(double candidate_ms, double eager_ms, uint64_t seed) {
  Rng rng(Rng::derive(seed, "pairs"));
  rng.below(1);  // of one trial
  const bool eager_first = rng.below(2) == 0;
  const auto call = [](double ms) { return fmt::format("[{},true,0]", ms); };
  const std::string candidate = call(candidate_ms), eager = call(eager_ms);
  std::string warm;
  for (int k = 0; k < 6; ++k) warm += (k > 0 ? "," : "") + candidate;
  return fmt::format("0 {{\"calls\":[{}]}}\n0 {{\"calls\":[{},{}]}}\n", warm, eager_first ? eager : candidate,
                     eager_first ? candidate : eager);
}

// Calls of a tuner: `ms` each.
inline std::string ten_calls(double ms) {
  std::string made;
  for (int k = 0; k < 10; ++k) made += fmt::format("{}[{},true,0]", k > 0 ? "," : "", ms);
  return "0 {\"calls\":[" + made + "]}\n";
}

struct GpuSetting {
  bool tuned = false;
  double limit_s = 30;                        // of the candidate's own time
  std::string* heard = nullptr;               // all that its processes were sent
  std::function<void()> while_compiled = {};  // where it is timed: torch.compile's version, of which there is none
  std::string recorded = {};                  // by another candidate
  int pairs = 0;                              // that it is timed
  bool against_itself = false;
  double bytes_per_s = 1;  // of the device
  bool drawn = false;      // by process P; its forward gives back what it is given
  double reference_work = 100;
  std::vector<GpuState> states = {};  // of the device, one after the other
};

// What all children say: `first` the process P that tries the plan, once it has it; `second` the one after it.
inline std::string on_gpu(const std::string& first, const std::string& second, const GpuSetting& setting) {
  const std::string open = opened(setting.bytes_per_s);
  const std::string recorded = setting.recorded.empty() ? recording(setting.tuned) : setting.recorded;
  return open + "=\n" + recorded + "=\n" + open + kLoadedPlan + first + "=\n" + open + second;
}

// Throws kMachine where no process P opens the device.
inline Verdict judge_written_on_gpu(const std::string& text, const GpuSetting& setting) {
  ReferenceData reference = written_reference(setting.drawn ? 0 : 1);
  reference.work->work.computing = setting.reference_work;
  if (setting.drawn || (setting.pairs > 0 && !setting.against_itself)) reference.plan = reference_plan();
  if (setting.drawn) reference.drawn.emplace().inputs = Json::object();
  WrittenChildren children(text, reference);
  LoweringPool lowering(children);
  EvaluatorOptions options;
  options.torch_compile = static_cast<bool>(setting.while_compiled);
  options.against_itself = setting.against_itself;
  options.candidate_timeout_s = 30;
  GpuReplayers device(children, options, "");
  EvaluationRequest request;
  request.measure_performance = setting.while_compiled || setting.pairs > 0;
  if (setting.pairs > 0) request.num_perf_trials = setting.pairs;
  RunContext context = written_context(children, lowering, options, request, reference, device);
  context.limit_s = setting.limit_s;
  const auto with_reference = [&](const std::function<bool(Child&)>&) {
    setting.while_compiled();
    throw TimingFault{Fault::kTimeout, "torch.compile did not end"};
  };
  size_t looked = 0;
  const auto state = [&](const std::string&) {
    return looked < setting.states.size() ? std::optional(setting.states[looked++]) : std::nullopt;
  };
  const GpuProblem gpu{device, with_reference, {}, nullptr, state};
  Verdict verdict;
  verdict.mode = EvaluationMode::kPlan;
  verdict.stage = Stage::kExtracted;
  const auto why = judge_as_plan(context, verdict, &gpu);
  if (setting.heard) *setting.heard = children.heard();
  verdict.notes["mode_reason"] = why ? why->reason : "";
  return verdict;
}

inline Verdict judge_on_gpu(const std::string& first, const std::string& second = "", const GpuSetting& setting = {}) {
  return judge_written_on_gpu(on_gpu(first, second, setting), setting);
}

}  // namespace tritonforge::evaluate
