#include "evaluate/means.h"

#include <algorithm>

namespace tritonforge::evaluate {

Means::Means(EvaluatorOptions given, LoweringPool::Elsewhere elsewhere)
    : options(validated(std::move(given))),
      no_gpu(why_no_gpu(options)),
      zygote({.python = options.python,
              .gpu = no_gpu.empty(),
              .once = options.once,
              .records = options.mode == EvaluationMode::kPlan}),
      modes(options, no_gpu, zygote),
      lowering(zygote, std::move(elsewhere)),
      problems(zygote, options) {}

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
          .device = device};
}

}  // namespace tritonforge::evaluate
