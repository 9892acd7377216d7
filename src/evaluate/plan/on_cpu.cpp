#include "evaluate/plan/on_cpu.h"

#include <algorithm>

#include "evaluate/plan/runner.h"

namespace tritonforge::evaluate {
namespace {

// A replay that took nearly all of the time was ended for that (PlanRunner::ask).
constexpr double kTooLate = 0.15;

class Look {
 public:
  Look(const RunContext& context, SeenOnCpu& seen)
      : context_(context), seen_(seen), time_(context.limit_s, context.left) {}

  void run() {
    const ReferenceTrial& trial = *context_.reference.trials.front();
    for (const auto* tensors : {&trial.before, &trial.outputs}) {
      for (const TensorView& tensor : *tensors) check_size(tensor);
    }
    PlanRunner runner(context_, Weights::kReferences, time_);
    if (const Loaded loaded = runner.load(); loaded.ended) throw NotAPlan{loaded.ended->text};
    if (!goes_on(runner, runner.call(0, Launches::kAll), "")) return;
    while (const auto other = runner.next_configuration()) {
      if (other->call && !goes_on(runner, *other->call, "with " + other->name + ", ")) return;
    }
    seen_.note = "none, on a CPU at " + sizes();
  }

 private:
  void check_size(const TensorView& tensor) const {
    const auto elements = static_cast<int64_t>(tensor.bytes.size() / size_of(tensor.dtype));
    const int64_t most = context_.options.max_elements;
    if (most > 0 && elements > most)
      throw NotAPlan{fmt::format("the problem's sizes cannot be reduced to {} elements a tensor", most)};
  }
  bool reduced() const { return !context_.reference.sizes.empty(); }
  std::string sizes() const { return reduced() ? "reduced sizes" : "the problem's own sizes"; }

  bool right(const Call& call) const {
    return call.result && same_outputs(*call.result, call.whole ? &*call.whole : nullptr,
                                       *context_.reference.trials.front(), context_.reference.tolerances);
  }

  bool goes_on(PlanRunner& runner, const Call& call, const std::string& with) {
    const auto refuse = [&](const std::string& text) {
      seen_.refusal = fmt::format("on a CPU at {}, {}{}", sizes(), with, text);
      return false;
    };
    if (call.ended) {
      if (time_.deadline.remaining_s() < kTooLate * context_.limit_s) throw NotAPlan{"it takes a CPU too long"};
      if (reduced()) throw NotAPlan{"at reduced sizes it fails: " + call.ended->text};
      return refuse(call.ended->text);
    }
    const auto race = std::find_if(call.findings.begin(), call.findings.end(),
                                   [](const auto& finding) { return finding.first == "race"; });
    if (race == call.findings.end()) return true;
    if (right(call)) return refuse("race: " + race->second);
    // What is made for one size may be wrong at a reduced one, and its race there nobody's: it is wrong in whatever
    // order its programs run. Where it is right in one that a device may take, the race is its own.
    const auto is_right_in = [&](ir::Schedule schedule) { return right(runner.again(schedule)); };
    if (reduced() && !is_right_in(ir::Schedule::kRising) && !is_right_in(ir::Schedule::kAtOnce))
      throw NotAPlan{fmt::format("at {} it gives wrong outputs in any order, with a race: {}", sizes(), race->second)};
    return refuse("wrong outputs, with a race: " + race->second);
  }

  const RunContext& context_;
  SeenOnCpu& seen_;
  OwnTime time_;
};

}  // namespace

SeenOnCpu look_on_cpu(RunContext context) {
  context.compiles = false;
  SeenOnCpu seen;
  if (context.language.runs(context.device->target()) != Runs::kInterpreted) {
    seen.note = fmt::format("not looked for: nothing here evaluates {} on a CPU", context.language.name());
    return seen;
  }
  std::string why;
  try {
    Look(context, seen).run();
  } catch (const NotAPlan& no_plan) {
    why = no_plan.reason;
  } catch (const DeviceFault& lost) {
    why = lost.text;
  }
  if (!why.empty()) seen.note = "not looked for: " + clipped(why, 300);
  return seen;
}

void take(const SeenOnCpu& seen, Verdict& verdict) {
  verdict.notes["races"] = seen.refusal.empty() ? seen.note : "found";
  if (seen.refusal.empty()) return;
  verdict.correct = false;
  verdict.stage = Stage::kLaunched;
  verdict.fault = Fault::kRuntimeError;
  verdict.speedup = verdict.speedup_low = verdict.speedup_high = 0;
  verdict.eager_speedup = verdict.torch_compile_speedup = 0;
  verdict.runtime = verdict.ref_runtime = verdict.eager_runtime = verdict.torch_compile_runtime = {};
  verdict.profile.reset();
  for (const char* note : {"timing", "torch_compile"}) verdict.notes.erase(note);
  add_diagnostics(verdict, seen.refusal);
}

}  // namespace tritonforge::evaluate
