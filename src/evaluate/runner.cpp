#include "evaluate/runner.h"

#include "evaluate/plan/gpu_replayers.h"

namespace tritonforge::evaluate {

Verdict judge(Runner& runner, const RunContext& context, Verdict begun) {
  Judgement judgement(context.reference, context.options.min_own_share, std::move(begun));
  if (!judgement.take(runner.load())) return judgement.verdict();
  for (size_t trial = 0; trial < context.reference.trials.size(); ++trial) {
    if (!judgement.take(runner.call(trial, Launches::kAll), trial)) return judgement.verdict();
  }
  if (const auto measured = runner.measure(); measured && !judgement.take(*measured)) return judgement.verdict();
  if (!judgement.take_without_launches(runner.call(0, Launches::kNone))) return judgement.verdict();
  if (const auto full = runner.full_size(); full && !judgement.take(*full)) return judgement.verdict();
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
    std::string error = kernel.error, resources;
    Json parameters;
    if (error.empty()) {
      const bool keep = binaries && kernel.target == runs;
      Lowered lowered = pool.lower(language, kernel.ir, kernel.target, kernel.options, deadline, keep);
      if (lowered.ok) {
        resources = string_or(lowered.shape, "resources", "");
        parameters = lowered.shape.value("parameters", Json());
      }
      if (!lowered.ok) error = fmt::format("kernel {}: {}", kernel.name, lowered.error);
      if (keep) binaries->push_back(std::move(lowered));
    }
    if (!resources.empty()) resources = fmt::format("{}: {}", kernel.name, resources);
    out.push_back({kernel.target, error, resources, std::move(parameters)});
  }
  return out;
}

}  // namespace tritonforge::evaluate
