#include "evaluate/runner.h"

#include "evaluate/plan/gpu_replayers.h"

namespace tritonforge::evaluate {

Verdict judge(Runner& runner, const RunContext& context, Verdict begun, const std::function<void(Verdict&)>& time) {
  Judgement judgement(context.reference, context.options.min_own_share, std::move(begun));
  if (!judgement.take(runner.load())) return judgement.verdict();
  for (size_t trial = 0; trial < context.reference.trials.size(); ++trial) {
    if (!judgement.take(runner.call(trial, Launches::kAll), trial)) return judgement.verdict();
  }
  while (const auto other = runner.next_configuration()) {
    if (!judgement.take(*other)) return judgement.verdict();
  }
  if (const auto measured = runner.measure(); measured && !judgement.take(*measured)) return judgement.verdict();
  std::optional<Verdict> timed;
  if (time) {
    Judgement right = judgement;
    right.accept();
    timed = right.verdict();
    time(*timed);
    if (!timed->correct || timed->fault != Fault::kNone) return *timed;
  }
  if (!judgement.take_without_launches(runner.call(0, Launches::kNone))) return judgement.verdict();
  if (const auto full = runner.full_size(); full && !judgement.take(*full)) return judgement.verdict();
  if (timed) return *timed;
  judgement.accept();
  return judgement.verdict();
}

ChildLimits candidate_limits(const EvaluatorOptions& options) {
  return {.cpu_s = options.candidate_timeout_s,
          .file_bytes = uint64_t{64} << 20,
          .memory_bytes = options.memory_bytes,
          .device_memory = options.device_memory};
}

ChildLimits replay_limits(const EvaluatorOptions& options) {
  return {.cpu_s = options.candidate_timeout_s * kPlansPerReplayer,
          .file_bytes = uint64_t{1} << 20,
          .memory_bytes = options.memory_bytes};
}

ChildLimits native_limits(const EvaluatorOptions& options) {
  ChildLimits limits = candidate_limits(options);
  limits.native = true;
  return limits;
}

ChildLimits on_gpu(const ChildLimits& limits, Device* device) {
  return limits.with_gpu(device && device->gpu() ? device->gpu()->granted() : "");
}

std::vector<std::string> names_of(const std::vector<Target>& targets) {
  std::vector<std::string> names;
  for (const Target target : targets) names.emplace_back(name_of(target));
  return names;
}

std::vector<Compiled> lower(LoweringPool& pool, const Language& language, const std::vector<SentKernel>& kernels,
                            Deadline deadline, std::string_view runs, std::vector<Lowered>* binaries) {
  std::vector<Compiled> out;
  for (const SentKernel& kernel : kernels) {
    Compiled& compiled = out.emplace_back(Compiled{.target = kernel.target, .error = kernel.error});
    const bool keep = binaries && kernel.target == runs;
    Lowered lowered;
    if (kernel.error.empty()) {
      lowered = pool.lower(language, kernel.ir, kernel.target, kernel.options, deadline, keep);
      if (lowered.ok) {
        const std::string resources = string_or(lowered.shape, "resources", "");
        if (!resources.empty()) compiled.resources = fmt::format("{}: {}", kernel.name, resources);
        compiled.parameters = lowered.shape.value("parameters", Json());
      } else {
        compiled.error = fmt::format("kernel {}: {}", kernel.name, lowered.error);
      }
      compiled.tuner_skips = lowered.error.starts_with("OutOfResources: ") || lowered.error.starts_with("PTXASError: ");
    }
    if (keep) binaries->push_back(std::move(lowered));
  }
  return out;
}

}  // namespace tritonforge::evaluate
