#include "evaluate/means.h"

#include <algorithm>

namespace tritonforge::evaluate {
namespace {

std::optional<Profiler> profiler_of(const EvaluatorOptions& options, const ZygoteOptions& zygote) {
  if (!options.profile) return std::nullopt;
  return Profiler(options.ncu, {zygote.python, zygote.worker, zygote.sandbox_library});
}

}  // namespace

Means::Means(EvaluatorOptions given, LoweringPool::Elsewhere elsewhere)
    : options(validated(std::move(given))),
      no_gpu(why_no_gpu(options)),
      zygote({.python = options.python,
              .gpu = no_gpu.empty(),
              .once = options.once,
              .records = options.mode == EvaluationMode::kPlan,
              .compiles = options.on_gpu() && options.times_compiled() && !options.once}),
      modes(options, no_gpu, zygote),
      lowering(zygote, options.compile_timeout_s, std::move(elsewhere)),
      problems(zygote, options),
      profiler(profiler_of(options, zygote.options())) {}

RunContext Means::context(const Posed& posed, const EvaluationRequest& request, Device* device, const Client& client) {
  return {.children = zygote,
          .lowering = lowering,
          .options = posed.options,
          .request = request,
          .language = language_of(request.backend),
          .reference = *posed.reference,
          .init_seed = posed.spec.init_seed,
          .secret = random_bits(),
          .order_seed = posed.order_seed,
          .limit_s = std::min(posed.options.candidate_timeout_s, request.timeout_s),
          .overall = Deadline::after(request.timeout_s),
          .left = client.left,
          .spent = client.spent,
          .device = device};
}

}  // namespace tritonforge::evaluate
