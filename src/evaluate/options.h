#pragma once
// What an evaluator is started with. A recipe holds it.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/options.h"
#include "contract/verdict.h"
#include "evaluate/compare.h"

namespace tritonforge::evaluate {

// What an evaluator does where the self-test breaks out of the sandbox, or a layer is not enforced: says so in every
// verdict, or does not start.
enum class SandboxRule { kAuto, kStrict };
constexpr std::array<std::string_view, 2> names_of(SandboxRule) { return {"auto", "strict"}; }

// What becomes of a candidate that is no plan and gives the right outputs: that its kernels made them is its own
// process's word.
enum class Claims { kRefuse, kAccept };
constexpr std::array<std::string_view, 2> names_of(Claims) { return {"refuse", "accept"}; }

// Where plan mode has a problem's inputs and expected outputs: made in the problem's own process and handed on, or
// drawn by the replayers from seeds.
enum class TrialData { kAuto, kHanded, kDrawn };
constexpr std::array<std::string_view, 3> names_of(TrialData) { return {"auto", "handed", "drawn"}; }

struct EvaluatorOptions {
  EvaluationMode mode = EvaluationMode::kPlan;
  std::string device = "cpu";
  std::vector<std::string> devices;  // where there are several; they take the place of `device`
  double emulated_faults = 0;
  int workers = 2, max_queue = 256;
  std::string python;
  bool once = false;  // it makes one evaluation and ends
  SandboxRule sandbox = SandboxRule::kAuto;
  Claims claims = Claims::kRefuse;
  TrialData trial_data = TrialData::kAuto;
  double min_own_share = 0.1;
  Tolerances tolerances;
  int64_t max_elements = 0, max_flops = 0;
  bool torch_compile = true, against_itself = false, race_check = true;
  bool profile = false;
  std::string ncu;
  double candidate_timeout_s = 0;
  double compile_timeout_s = 60;
  double plan_memory = 32;                    // GiB
  double device_memory = 0;                   // 0: all; a run that shares the GPU makes it half
  uint64_t memory_bytes = uint64_t{3} << 30;  // of one child, above the warm parent's
  size_t verdict_cache = 4096;                // verdicts
  size_t reference_cache = 0;                 // bytes of inputs and expected outputs; 0: 256 MiB, in live mode 8 GiB

  // Whether candidates of `of_mode` are run on a GPU, at the problem's own sizes. A request may ask for plan of an
  // evaluator in another mode: it replays on the CPU.
  bool on_gpu(EvaluationMode of_mode) const {
    const std::string& first = devices.empty() ? device : devices.front();
    return of_mode == EvaluationMode::kLive ||
           (of_mode == EvaluationMode::kPlan && mode == of_mode && first != "cpu" && !is_emulated(first));
  }
  bool on_gpu() const { return on_gpu(mode); }
  // Whether what is timed on a GPU is timed against torch.compile's version, too.
  bool times_compiled() const { return torch_compile && !against_itself; }
  static bool is_emulated(const std::string& name) { return name.starts_with("emulated-gfx942:"); }
  void validate() const {
    const bool emulated = std::all_of(devices.begin(), devices.end(), is_emulated);
    if (!emulated && std::any_of(devices.begin(), devices.end(), is_emulated))
      fail(ErrorKind::kUsage, "'devices' mixes emulated ones with others");
    if (!emulated && std::find(devices.begin(), devices.end(), "cpu") != devices.end())
      fail(ErrorKind::kUsage, "'devices' names cpu: leave it out, it is the default");
    if (std::set(devices.begin(), devices.end()).size() != devices.size())
      fail(ErrorKind::kUsage, "'devices' names one twice");
    if (!devices.empty() && mode != EvaluationMode::kPlan)
      fail(ErrorKind::kUsage, "'devices' is for mode plan; mode {} takes one, 'device'", name_of(mode));
    if (profile && sandbox == SandboxRule::kStrict)
      fail(ErrorKind::kUsage, "'profile' runs the replayer outside of the sandbox: not with sandbox strict");
    if (profile && mode != EvaluationMode::kPlan)
      fail(ErrorKind::kUsage, "'profile' is for mode plan: in mode {} the candidate's own code would run under ncu",
           name_of(mode));
    if (emulated_faults > 0 && (devices.empty() || !emulated))
      fail(ErrorKind::kUsage, "'emulated_faults' is for emulated devices (devices: emulated-gfx942:0)");
  }

  template <typename V>
  void describe(V& v) {
    v("mode", mode,
      "interpret: Triton's interpreter on the CPU; plan: recorded, then replayed by the trusted side, on a GPU where "
      "device names one; live: a GPU");
    v("device", device, "the GPU of modes plan and live, as cuda:N or its UUID; cpu: plan replays on the CPU");
    v("devices", devices, commas(),
      "mode plan: several in the place of device, GPUs or emulated-gfx942:N: a job goes to the least busy one that is "
      "well, and elsewhere where that one loses it. Emulated ones are test equipment: the CPU, with an AMD GPU's "
      "target "
      "and its ways to fail");
    v("emulated_faults", emulated_faults, in(0, 1),
      "test equipment: the part of the jobs under which an emulated device dies or hangs");
    v("workers", workers, at_least(1), "evaluations at once");
    v("max_queue", max_queue, at_least(0), "evaluations waiting beyond those; more are answered 503");
    v("python", python, by_run(), "Python with torch and triton (TRITONFORGE_PYTHON, else the build's)");
    v("sandbox", sandbox,
      "strict: refuses to run where a layer is not enforced (a control group among them) or the self-test breaks out");
    v("claims", claims,
      "plan mode: whether a candidate that cannot be recorded as a plan is judged by what its own process says");
    v("trial_data", trial_data,
      "plan mode: a problem's inputs and expected outputs are handed from process to process, or drawn where plans are "
      "replayed, which takes get_inputs to be a plan; auto: drawn on a GPU, handed on a CPU");
    v("min_own_share", min_own_share, in(0, 1),
      "plan mode: the part of the work that a candidate's own kernels must do to be correct; less is "
      "torch_does_the_work");
    v("torch_compile", torch_compile,
      "plan mode on a GPU: the speedup is over the faster of eager PyTorch and torch.compile, else over eager alone");
    v("against_itself", against_itself,
      "plan mode on a GPU: each candidate is timed against itself (A/A): what differs from 1 is the clock's own error");
    v("race_check", race_check,
      "plan mode on a GPU: what is right there is run once more by the CPU's evaluator of Triton IR, at sizes that it "
      "takes, which finds races, deadlocks and reads of memory that nobody wrote");
    v("profile", profile,
      "plan mode on a GPU: what is right is replayed once more under NVIDIA's ncu, and the GPU's counters of its "
      "kernels are in the verdict and in the feedback. The replayer is outside of the sandbox then, which takes no "
      "strict one");
    v("ncu", ncu, by_run(), "NVIDIA's profiler for profile (else of PATH, CUDA_HOME/bin or /usr/local/cuda/bin)");
    v("candidate_timeout_s", candidate_timeout_s, at_least(0),
      "seconds for import, build and trials of one candidate; 0 = 30, in live mode 120");
    v("compile_timeout_s", compile_timeout_s, above(0),
      "seconds for the compiler (ptxas among them) of one kernel and target, beside candidate_timeout_s: a few kernels "
      "keep it for minutes");
    v("device_memory", device_memory, in(0, 1),
      "live mode: the part of the GPU's memory that a candidate may take through PyTorch; 0 = all of it, in a run that "
      "shares the GPU half");
    v("plan_memory", plan_memory, above(0), at_most(32),
      "mode plan: GiB that all tensors of a candidate's forward may take together, on a GPU its device memory; views "
      "count like tensors of their own");
    v("max_elements", max_elements, at_least(0),
      "a problem's sizes are halved until no tensor has more elements; 0 = interpret mode 131072, live mode as they "
      "are");
    v("max_flops", max_flops, at_least(0),
      "the same for operations of one forward; 0 = interpret mode 134217728, live mode as they are");
  }
};

}  // namespace tritonforge::evaluate
