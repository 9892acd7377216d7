#include <algorithm>

#include "evaluate/plan/on_cpu.h"
#include "evaluate/plan_mode.h"

namespace tritonforge::evaluate {
namespace {
constexpr double kLookSeconds = 5;

SeenOnCpu look(Means& means, CpuDevice& cpu, const EvaluationRequest& request, const Client& client) {
  EvaluatorOptions on_cpu = means.options;
  on_cpu.device = "cpu";
  on_cpu.devices.clear();
  EvaluationRequest once = request;
  once.num_correct_trials = 1;
  SeenOnCpu unseen;
  try {
    Verdict ignored;
    const EvaluatorOptions options = options_for(EvaluationMode::kPlan, on_cpu);
    const Posed posed = means.problems.pose(options, once, EvaluationMode::kPlan, &cpu, false, client, ignored);
    RunContext context = means.context(posed, once, &cpu, client);
    context.limit_s = std::min(context.limit_s, kLookSeconds);
    return look_on_cpu(context);
  } catch (const ProblemFault& fault) {
    unseen.note = "not looked for: " + clipped(fault.text, 300);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    unseen.note = "not looked for: " + clipped(error.what(), 300);
  }
  return unseen;
}

}  // namespace

void look_for_races(Means& means, CpuDevice& cpu, const EvaluationRequest& request, const Client& client,
                    Verdict& verdict) {
  take(look(means, cpu, request, client), verdict);
}

}  // namespace tritonforge::evaluate
