#pragma once
// What runs a candidate, one class a mode: its calls say what was seen, and a Judgement says what that means.
#include <functional>
#include <optional>

#include "evaluate/device.h"
#include "evaluate/judgement.h"
#include "evaluate/lowering.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

// What every runner is given; all of it outlives the runner.
struct RunContext {
  Children& children;
  LoweringPool& lowering;
  const EvaluatorOptions& options;
  const EvaluationRequest& request;
  const Language& language;
  const ReferenceData& reference;
  uint64_t init_seed = 0;
  uint64_t secret = 0;      // of this run alone, told to no process of a candidate's: nonces, the order of timed pairs
  uint64_t order_seed = 0;  // the order of programs
  double limit_s = 30;      // of the candidate's own work
  Deadline overall;
  std::stop_token left;      // nobody waits for the verdict any longer
  Spent* spent = nullptr;    // Client::spent
  bool compiles = true;      // the kernels of a plan; false: they are only replayed as IR
  Device* device = nullptr;  // of plan and live mode; null in live mode: the GPU that the environment shows
};

enum class Launches { kAll, kNone };  // kNone: every launch is left out

class Runner {
 public:
  virtual ~Runner() = default;
  // Each throws kUnavailable where our own machinery failed.
  virtual Loaded load() = 0;
  virtual Call call(size_t trial, Launches launches) = 0;
  // After the trials: the next other configuration of autotuned kernels; nullopt where there is none.
  virtual std::optional<ConfigurationCall> next_configuration() { return std::nullopt; }
  // What a device shows once the trials have passed; nullopt where there is none.
  virtual std::optional<Measured> measure() { return std::nullopt; }
  // What is right at reduced sizes must compile at the problem's own; nullopt where that is not looked at.
  virtual std::optional<FullSize> full_size() { return std::nullopt; }
};

// Runs all that is worth running. `begun`: the verdict's mode, device and notes. `time`: where the candidate's own
// process is timed; it is given the verdict on what is right so far, before any call without launches, since such a
// call may cost the process its device.
Verdict judge(Runner& runner, const RunContext& context, Verdict begun, const std::function<void(Verdict&)>& time = {});

// The limits of a child in which a candidate's code runs.
ChildLimits candidate_limits(const EvaluatorOptions& options);
// Of children that replay plans, one after the other; how long one may take is each conversation's own.
ChildLimits replay_limits(const EvaluatorOptions& options);
// Of the child that replays one plan whose kernels are machine code of its own process.
ChildLimits native_limits(const EvaluatorOptions& options);
// The same with the GPU of `device`.
ChildLimits on_gpu(const ChildLimits& limits, Device* device);

std::vector<std::string> names_of(const std::vector<Target>& targets);
// Lowers what has no error of the compiler's front end. Of all those for the target `runs`, `binaries` get what came of
// it.
std::vector<Compiled> lower(LoweringPool& pool, const Language& language, const std::vector<SentKernel>& kernels,
                            Deadline deadline, std::string_view runs = {}, std::vector<Lowered>* binaries = nullptr);

}  // namespace tritonforge::evaluate
