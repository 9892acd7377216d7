#include "evaluate/modes.h"

#include "base/cuda_driver.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {
constexpr std::string_view kLive = "mode live";  // as a Refused names it
}

EvaluatorOptions validated(EvaluatorOptions options) {
  check_options(options);
  const bool live = options.on_gpu();
  if (options.reference_cache == 0) options.reference_cache = live ? size_t{8} << 30 : size_t{256} << 20;
  return options;
}

EvaluatorOptions options_for(EvaluationMode mode, EvaluatorOptions options) {
  const bool live = options.on_gpu(mode);
  if (options.candidate_timeout_s <= 0) options.candidate_timeout_s = live ? 120 : 30;
  if (!live && options.max_elements == 0) options.max_elements = kSmall.elements;
  if (!live && options.max_flops == 0) options.max_flops = kSmall.flops;
  return options;
}

// An evaluator on a GPU does not start without one, and one that makes a single evaluation elsewhere does not look.
std::string why_no_gpu(const EvaluatorOptions& options) {
  const bool needed = options.on_gpu();
  if (options.once && !needed) return "this evaluator makes one evaluation without it";
  try {
    cuda_driver();
    return "";
  } catch (const Error& error) {
    if (fs::exists("/dev/kfd")) return "";  // an AMD GPU; whether this torch can use it is seen once it is loaded
    if (needed) throw;
    return error.what();
  }
}

Modes::Modes(const EvaluatorOptions& options, std::string no_gpu, const Zygote& zygote)
    : default_(options.mode),
      no_gpu_(std::move(no_gpu)),
      rocm_(zygote.versions().value("hip", Json()).is_string()),
      refusals_(zygote.missing()) {
  if (options.on_gpu() && !why_not_on_a_gpu().empty()) fail(ErrorKind::kMachine, "evaluator: {}", why_not_on_a_gpu());
  if (rocm_ && options.mode == EvaluationMode::kPlan && options.on_gpu())
    fail(ErrorKind::kUnsupported,
         "evaluator: plans are replayed on NVIDIA GPUs and on the CPU; this torch is a ROCm build: --mode live runs "
         "candidates on its GPU, --device cpu replays plans");
  if (options.mode == EvaluationMode::kLive) refusals_.check(kLive);
}

std::string Modes::why_not_on_a_gpu() const {
  if (!no_gpu_.empty() || rocm_) return no_gpu_;
  try {
    cuda_driver();
    return "";
  } catch (const Error& error) {
    return fmt::format("{}; an AMD GPU needs a torch that is a ROCm build", error.what());
  }
}

EvaluationMode Modes::of(const EvaluationRequest& request) const {
  const EvaluationMode mode = request.mode.value_or(default_);
  if (mode == EvaluationMode::kLive) {
    std::vector<std::string> reasons;
    if (const std::string no_gpu = why_not_on_a_gpu(); !no_gpu.empty()) reasons.push_back(no_gpu);
    if (const Refused* refused = refused_live()) reasons.push_back(refused->text());
    if (!reasons.empty()) fail(ErrorKind::kUsage, "evaluator: mode 'live' was asked for: {}", fmt::join(reasons, "; "));
  }
  usable_language(request.backend, mode, refusals_);
  if (request.backend == Backend::kTriton) {
    for (const Target target : request.targets) refusals_.check(fmt::format("target {}", name_of(target)));
  }
  return mode;
}

const Refused* Modes::refused_live() const { return refusals_.find(kLive); }

Refusals Modes::refusals() const { return why_not_on_a_gpu().empty() ? refusals_ : refusals_.without(kLive); }

}  // namespace tritonforge::evaluate
