#include "evaluate/problems.h"

#include <algorithm>

#include "base/checksum.h"

namespace tritonforge::evaluate {
namespace {

// One RL step has about this many problems under evaluation at once.
constexpr size_t kKeptReferences = 8;
constexpr size_t kKnownProblems = 4096;

Budget budget_of(const EvaluatorOptions& options) {
  if (options.max_elements <= 0 && options.max_flops <= 0) return {};
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  return {options.max_elements > 0 ? options.max_elements : kNoLimit,
          options.max_flops > 0 ? options.max_flops : kNoLimit};
}

std::string forms_key(const std::string& source, const Device& device) { return checksum(source) + device.uuid(); }

void note(const ReferenceData& reference, Verdict& verdict) {
  const Admission& admission = reference.admission;
  if (admission.draw != Draw::kAsGiven) verdict.notes["draw"] = name_of(admission.draw);
  if (admission.tolerance != 1) verdict.notes["tolerance"] = fmt::format("{:.3g} of the usual", admission.tolerance);
  if (reference.drawn) verdict.notes["trials"] = "drawn by the replayer, sampled by one that runs no candidates";
  for (const auto& [name, change] : reference.sizes.items())
    verdict.notes["reduced." + name] = fmt::format("{} -> {}", change.at(0).dump(), change.at(1).dump());
}

}  // namespace

Problems::Problems(Children& children, const EvaluatorOptions& options)
    : trial_data_(options.trial_data),
      process_secret_{random_bits(), random_bits()},
      admissions_(kKnownProblems),
      not_drawn_(kKnownProblems),
      forms_(kKnownProblems),
      references_(children, options.reference_cache, kKeptReferences,
                  std::max<size_t>(1, static_cast<size_t>(options.workers) / 4)) {}

std::optional<Admission> Problems::admission_of(const std::string& source) { return admissions_.get(checksum(source)); }

bool Problems::draws(const EvaluationRequest& request, Device& device) {
  const bool believed = language_of(request.backend).runs(device.target()) != Runs::kNatively;
  if (!believed || trial_data_ == TrialData::kHanded || not_drawn_.get(checksum(request.problem_source))) return false;
  return device.gpu() || trial_data_ == TrialData::kDrawn;
}

ReferenceSpec Problems::spec_of(const EvaluatorOptions& options, const EvaluationRequest& request, const Seeds& seeds,
                                EvaluationMode mode, Device* draws_on) {
  ReferenceSpec spec{.problem_id = request.problem_id,
                     .source = request.problem_source,
                     .init_seed = seeds.of("init"),
                     .weight_seed = seeds.of("weights"),
                     .budget = budget_of(options),
                     .tolerances = options.tolerances,
                     .admission = admission_of(request.problem_source),
                     .timed = options.on_gpu(mode),
                     .weigh = mode == EvaluationMode::kPlan,
                     .draws_on = draws_on,
                     .fractions_seed = seeds.of("fractions")};
  if (draws_on) spec.forms = forms_.get(forms_key(request.problem_source, *draws_on)).value_or(nullptr);
  for (uint64_t i = 0; i < static_cast<uint64_t>(request.num_correct_trials); ++i)
    spec.trials.push_back({.inputs = seeds.of("inputs", i), .forward = seeds.of("forward", i)});
  return spec;
}

// Every part has its own time from when it begins, so that no candidate has less because others were before it.
Posed Problems::pose(const EvaluatorOptions& options, const EvaluationRequest& request, EvaluationMode mode,
                     Device* device, bool may_draw, const Client& client, Verdict& verdict) {
  const Spent::Range posing(client.spent, Part::kProblem);
  const bool gpu = options.on_gpu(mode);
  // The seeds' secret is one of this process, not of the request: candidates of one problem share its reference, and
  // none can know them.
  const Seeds seeds(request.fresh_seeds ? process_secret_ : SipKey{}, request.seed);
  Device* const draws_on = may_draw && draws(request, *device) ? device : nullptr;
  Posed posed{.options = options, .spec = spec_of(options, request, seeds, mode, draws_on)};
  // Processor time is no bound of its own: what it ended would look as if somebody had killed it.
  const ChildLimits on_cpu{
      .cpu_s = request.timeout_s, .file_bytes = uint64_t{64} << 20, .memory_bytes = options.memory_bytes};
  posed.limits = gpu ? on_gpu(on_cpu, device) : on_cpu;
  // Diagnostics may name the first programs that a race is between: whoever wants the same verdict again wants the same
  // order of programs.
  posed.order_seed = request.fresh_seeds ? random_bits() : seeds.of("orders");
  // The process that is kept for timing is one GPU's.
  posed.key = fmt::format("{} {} {} {} {} {} {} {}", checksum(request.problem_source), request.seed,
                          request.fresh_seeds, request.num_correct_trials, name_of(mode), gpu, posed.limits.gpu_uuid,
                          draws_on != nullptr);
  // Admission has a second module, and one of them in float64, besides.
  ChildLimits limits = posed.limits;
  if (!posed.spec.admission) limits.memory_bytes *= 2;
  posed.reference = references_.data(posed.key, posed.spec, limits,
                                     Deadline::after(std::min(request.timeout_s, client.deadline.remaining_s())));
  check_waited_for(client.left);  // the rest is this client's alone
  const Admission& admission = posed.reference->admission;
  if (!posed.spec.admission) admissions_.put(checksum(request.problem_source), admission);
  if (!admission.barred.empty()) throw ProblemFault{"the problem is barred: " + admission.barred};
  // One that was drawn before may be drawn again: its recorder may have died, say.
  if (draws_on && !posed.reference->drawn && !posed.spec.forms) not_drawn_.put(checksum(request.problem_source), true);
  if (posed.reference->drawn && posed.reference->drawn->forms != posed.spec.forms)
    forms_.put(forms_key(request.problem_source, *draws_on), posed.reference->drawn->forms);
  note(*posed.reference, verdict);
  return posed;
}

}  // namespace tritonforge::evaluate
