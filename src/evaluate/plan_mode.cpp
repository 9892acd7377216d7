#include "evaluate/plan_mode.h"

#include <algorithm>

#include "base/cuda_driver.h"
#include "base/log.h"
#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/plan/gpu_runner.h"

namespace tritonforge::evaluate {
namespace {

constexpr double kProbeSeconds = 30;  // a context of its own may be made first

std::vector<std::unique_ptr<Device>> gpus(Children& children, const EvaluatorOptions& options) {
  std::vector<std::unique_ptr<Device>> out;
  if (options.devices.size() < 2) {
    out.push_back(std::make_unique<GpuReplayers>(children, options, ""));
    return out;
  }
  const std::vector<std::string> uuids = gpu_uuids();
  if (uuids.size() != options.devices.size())
    fail(ErrorKind::kMachine, "evaluator: {} of the GPUs {} are there", uuids.size(), fmt::join(options.devices, ", "));
  for (const std::string& uuid : uuids) out.push_back(std::make_unique<GpuReplayers>(children, options, uuid));
  return out;
}

std::vector<std::unique_ptr<Device>> cpus(Children& children, const EvaluatorOptions& options,
                                          const ChildLimits& limits) {
  std::vector<std::unique_ptr<Device>> out;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const EmulatedFaults faults{.part = options.emulated_faults, .seed = i};
    out.push_back(std::make_unique<CpuDevice>(children, limits, static_cast<int>(i), faults));
  }
  if (out.empty()) out.push_back(std::make_unique<CpuDevice>(children, limits));
  return out;
}

ChildLimits limits_of_replayers(const EvaluatorOptions& options) {
  return replay_limits(options_for(EvaluationMode::kPlan, options));
}

std::vector<std::unique_ptr<Device>> devices_of(Children& children, const EvaluatorOptions& options) {
  return options.on_gpu(EvaluationMode::kPlan) ? gpus(children, options)
                                               : cpus(children, options, limits_of_replayers(options));
}

double patience(const EvaluatorOptions& options) {
  return std::min(kProbeSeconds, options_for(EvaluationMode::kPlan, options).candidate_timeout_s);
}

}  // namespace

PlanMode::PlanMode(Means& means)
    : means_(means), devices_(devices_of(means.zygote, means.options), [&means](Device& device) {
        return probe(device, means.lowering, Deadline::after(patience(means.options)));
      }) {
  if (means.options.on_gpu(EvaluationMode::kPlan))
    beside_gpus_.emplace(means.zygote, limits_of_replayers(means.options));
}

bool may_be_the_gpus(const Verdict& verdict) {
  if (verdict.fault == Fault::kProblemError) return true;
  const bool died = verdict.fault == Fault::kCrashed || verdict.fault == Fault::kTimeout ||
                    verdict.fault == Fault::kRuntimeError;
  const bool recorded_alone = verdict.mode == EvaluationMode::kPlan && verdict.compile_targets.empty();
  return died && !recorded_alone;
}

void PlanMode::on_devices(const Client& client, Verdict& verdict, const std::function<void(Device&, Verdict&)>& part) {
  std::optional<ProblemFault> problem;
  devices_.run(
      [&](Device& device) {
        Verdict attempt = verdict;
        problem.reset();
        try {
          part(device, attempt);
        } catch (const ProblemFault& fault) {
          problem = fault;
        }
        verdict = std::move(attempt);
        // Of a CPU a lost process alone is in doubt.
        const bool doubtful = device.gpu() && (problem || may_be_the_gpus(verdict));
        return doubtful ? DevicePool::Result::kDoubtful : DevicePool::Result::kSure;
      },
      client);
  if (problem) throw *problem;
}

void PlanMode::prepare(const EvaluationRequest& request, const Client& client) {
  const EvaluatorOptions options = options_for(EvaluationMode::kPlan, means_.options);
  Verdict nobodys;
  try {
    on_devices(client, nobodys, [&](Device& device, Verdict& verdict) {
      const Posed posed = means_.problems.pose(options, request, EvaluationMode::kPlan, &device, true, client, verdict);
      if (!device.gpu() || !options.times_compiled()) return;
      DeviceLock lock = device.gpu()->lock();
      means_.problems.references().compile_ahead(
          posed.key, posed.spec, posed.limits, client.deadline,
          [&](Child& child) { compile_ahead(child, *posed.reference, lock, client.deadline); });
    });
  } catch (const ProblemFault& fault) {
    log::debug("problem {}: {}", request.problem_id, fault.text);
  } catch (const TimingFault& fault) {
    log::debug("problem {}: torch.compile's version is not made ahead: {}", request.problem_id, fault.text);
  }
}

std::optional<NotAPlan> PlanMode::judge(const EvaluationRequest& request, const Client& client, Verdict& verdict) {
  std::optional<NotAPlan> why;
  std::optional<Counting> counting;
  try {
    on_devices(client, verdict,
               [&](Device& device, Verdict& attempt) { why = on_device(request, device, client, attempt, counting); });
  } catch (const DeviceFault& lost) {  // whatever the device: it is the plan's doing
    why = NotAPlan{
        .reason = lost.text, .ended = Ended{.fault = lost.fault, .text = lost.text}, .stage = Stage::kCompiled};
  }
  if (!why && verdict.correct && beside_gpus_ && means_.options.race_check) {
    const Spent::Range looking(client.spent, Part::kRaces);
    look_for_races(means_, *beside_gpus_, request, client, verdict);
  }
  if (!why && verdict.correct && counting) count(*counting, client, verdict);
  return why;
}

void PlanMode::count(const Counting& counting, const Client& client, Verdict& verdict) const {
  Counted counted;
  try {
    // Some counters are the whole device's: nothing else of ours is on it meanwhile.
    std::optional<MeasuringTurns::Turn> turn;
    if (counting.gpu) turn.emplace(counting.gpu->measuring().take(counting.overall));
    counted = means_.profiler->count(counting.job, counting.overall, client.left);
  } catch (const Error& error) {  // what is right stays so
    check_waited_for(client.left);
    counted.unavailable = clipped(error.what(), 300);
  }
  verdict.counters = std::move(counted.kernels);
  if (!counted.unavailable.empty()) verdict.notes["counters"] = counted.unavailable;
}

std::optional<NotAPlan> PlanMode::on_device(const EvaluationRequest& request, Device& device, const Client& client,
                                            Verdict& verdict, std::optional<Counting>& counting) {
  counting.reset();
  const EvaluatorOptions options = options_for(EvaluationMode::kPlan, means_.options);
  const Posed posed = means_.problems.pose(options, request, EvaluationMode::kPlan, &device, true, client, verdict);
  const RunContext context = means_.context(posed, request, &device, client);
  verdict.device = device.name();
  std::optional<GpuProblem> problem;
  if (device.gpu()) {
    ReferenceCache& references = means_.problems.references();
    const auto with_reference = [&](const std::function<bool(Child&)>& use) {
      references.with_process(posed.key, posed.spec, posed.limits, client.deadline, use);
    };
    const auto compiled = [&](const std::function<CompiledBaseline(Child&)>& measure) {
      return references.compiled(posed.key, posed.spec, posed.limits, client.deadline, measure);
    };
    problem.emplace(GpuProblem{*device.gpu(), with_reference, compiled, client.spent});
  }
  std::optional<Profiler::Job> job;
  std::optional<NotAPlan> why = judge_as_plan(context, verdict, problem ? &*problem : nullptr,
                                              means_.profiler ? &job : nullptr);
  if (job) counting = Counting{std::move(*job), device.gpu(), context.overall};
  if (why) verdict.notes.erase("trials");  // another mode's are handed
  const ReferenceTrial& trial = *posed.reference->trials.front();
  const double bytes = 2.0 * static_cast<double>(trial.input_bytes) + static_cast<double>(trial.output_bytes);
  if (why && posed.reference->drawn && bytes > static_cast<double>(ChannelLimits().frame_bytes)) {
    why->alone = true;
    why->reason += fmt::format("; a process of its own is not handed {:.1f} GB of inputs and outputs", bytes / 1e9);
  }
  return why;
}

}  // namespace tritonforge::evaluate
