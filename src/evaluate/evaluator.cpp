#include "evaluate/evaluator.h"

#include <mutex>

#include "base/log.h"
#include "evaluate/alike.h"
#include "evaluate/in_its_process.h"
#include "evaluate/means.h"
#include "evaluate/plan_mode.h"
#include "evaluate/preparing.h"
#include "evaluate/self_test.h"
#include "evaluate/workers.h"

namespace tritonforge::evaluate {
namespace {

// A candidate that is no plan, in a language that is judged as one alone.
void end_unrecorded(const NotAPlan& why, Verdict& verdict) {
  verdict.stage = why.stage;
  verdict.fault = why.ended ? why.ended->fault : Fault::kRuntimeError;
  add_diagnostics(verdict, why.ended ? why.ended->text : "forward cannot be recorded as a plan: " + why.reason);
}

// A candidate that is no plan and gives the right outputs.
void leave_unproven(Verdict& verdict) {
  if (!verdict.correct) return;
  verdict.correct = false;
  verdict.stage = Stage::kLaunched;
  verdict.fault = Fault::kUnproven;
  add_diagnostics(verdict,
                  "the outputs are right, but forward cannot be recorded, so that nothing shows that its kernels "
                  "made them: " +
                      verdict.notes["mode_reason"]);
}

// Problems that wait for their reference, a lease of groups and more, and the bytes of one.
constexpr size_t kMostPrepared = 256, kLargestPrepared = 1 << 20;

// How often at most an evaluation loses something of one kind that may have been taken from outside.
constexpr int kAttempts = 3;

// A process has no way to be killed by SIGKILL of its own but by taking too much; whoever does is seen to again.
bool was_struck(const std::string& ending) { return ending.find("was killed by signal 9") != std::string::npos; }

// What the default mode's children may do is told; the others must hold as well.
SelfTest tested(Means& means) {
  const bool live = means.options.on_gpu();
  SelfTest test = test_sandbox(means.zygote, live, Deadline::after(60));
  if (means.modes.why_not_on_a_gpu().empty()) {
    const SelfTest others = test_sandbox(means.zygote, !live, Deadline::after(60));
    test.breaches.insert(test.breaches.end(), others.breaches.begin(), others.breaches.end());
    for (const auto& [layer, state] : others.layers.items()) {
      if (!state.get<std::string>().starts_with("enforced")) test.layers[layer] = state;
    }
  }
  require_strict(means.options.sandbox, test);
  return test;
}

}  // namespace

struct Evaluator::Impl {
  Impl(EvaluatorOptions given, LoweringPool::Elsewhere elsewhere)
      : means(std::move(given), std::move(elsewhere)),
        test(tested(means)),
        plans(means),
        verdicts(means.options.verdict_cache),
        workers(means.options.workers, means.options.max_queue),
        // As many as may be under way at once: half of those who judge are left for candidates.
        preparing(std::max(1, means.options.workers / 2), kMostPrepared,
                  [this](const EvaluationRequest& request, const Client& client) { prepare(request, client); }) {}

  void evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client);
  Verdict attempt(const EvaluationRequest& request, const Verdict& begun, const Client& client);
  void prepare(const EvaluationRequest& request, const Client& client);
  Verdict judge(const EvaluationRequest& request, EvaluationMode mode, const Client& client);
  Verdict known_or_judged(const EvaluationRequest& request, EvaluationMode mode, const Client& client);

  Means means;
  const SelfTest test;
  PlanMode plans;
  LruCache<Verdict> verdicts;
  Alike alike;
  Workers workers;
  std::mutex mutex;
  uint64_t evaluated = 0, abandoned = 0;   // verdicts; evaluations whose client left
  std::map<std::string, uint64_t> faults;  // error kind -> count
  Preparing preparing;                     // last: it uses all of this
};

void Evaluator::Impl::evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client) {
  const EvaluationMode mode = *verdict.mode;
  if (mode != EvaluationMode::kPlan) return judge_in_its_process(means, request, mode, nullptr, client, verdict);
  std::optional<NotAPlan> why = plans.judge(request, client, verdict);
  if (!why) return;
  if (why->alone || !language_of(request.backend).runs_in_the_candidates_process())
    return end_unrecorded(*why, verdict);
  const bool gpu = means.options.on_gpu(mode);
  if (const Refused* refused = means.modes.refused_live(); gpu && refused) {
    why->reason += "; what is no plan would be run in mode live: " + refused->text();
    return end_unrecorded(*why, verdict);
  }
  // What the candidate's own process says of itself is a claim from here on, and none of its times is taken.
  verdict.mode = gpu ? EvaluationMode::kLive : EvaluationMode::kInterpret;
  verdict.notes["mode_reason"] = why->reason;
  const auto in_a_process = [&](Device& device, Verdict& attempt) {
    judge_in_its_process(means, request, mode, &device, client, attempt);
  };
  if (gpu) plans.on_devices(client, verdict, in_a_process);
  else judge_in_its_process(means, request, mode, nullptr, client, verdict);
  if (means.options.claims == Claims::kRefuse) leave_unproven(verdict);
}

// Once there is a worker: again where something of ours failed, or may have been taken from outside. Each has its own
// attempts: what failed of ours is no death of the candidate's, and the other way round.
Verdict Evaluator::Impl::attempt(const EvaluationRequest& request, const Verdict& begun, const Client& client) {
  for (int struck = 1, failed = 1;;) {
    Verdict verdict = begun;
    try {
      evaluate(request, verdict, client);
      if (verdict.fault != Fault::kCrashed || !was_struck(verdict.diagnostics) || struck++ == kAttempts) return verdict;
    } catch (const ProblemFault& fault) {
      if (was_struck(fault.text) && struck++ < kAttempts) continue;
      verdict = begun;
      verdict.fault = Fault::kProblemError;
      verdict.diagnostics = fault.text;
      return verdict;
    } catch (const Error& error) {
      // Our own machinery failed (the Python parent was killed): the candidate is not to blame.
      if (error.kind() != ErrorKind::kUnavailable || failed++ == kAttempts || client.deadline.expired()) throw;
      log::warn("evaluation is tried again: {}", error.what());
    }
  }
}

Evaluator::Evaluator(EvaluatorOptions options, LoweringPool::Elsewhere elsewhere)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(elsewhere))) {}
Evaluator::~Evaluator() { end(); }
void Evaluator::end() { impl_->means.zygote.end(); }
const EvaluatorOptions& Evaluator::options() const { return impl_->means.options; }

// By a worker, once one is free.
Verdict Evaluator::Impl::judge(const EvaluationRequest& request, EvaluationMode mode, const Client& client) {
  Verdict verdict;
  verdict.seed = request.seed;
  verdict.mode = mode;
  verdict.device = means.options.on_gpu(mode) ? "cuda:0" : "cpu";
  verdict.stage = Stage::kExtracted;
  {
    const Workers::Place place(workers, client);
    verdict = attempt(request, verdict, client);
  }
  bound(verdict);
  const std::lock_guard lock(mutex);
  ++evaluated;
  if (verdict.fault != Fault::kNone) ++faults[std::string(name_of(verdict.fault))];
  return verdict;
}

void Evaluator::Impl::prepare(const EvaluationRequest& request, const Client& client) {
  const Workers::Place place(workers, client);
  plans.prepare(request, client);
}

bool Evaluator::prepare(EvaluationRequest request) {
  const bool small = request.problem_source.size() <= kLargestPrepared;
  if (!small || impl_->means.modes.of(request) != EvaluationMode::kPlan) return false;
  return impl_->preparing.ask(std::move(request));
}

// Or by an equal one's verdict.
Verdict Evaluator::Impl::known_or_judged(const EvaluationRequest& request, EvaluationMode mode, const Client& client) {
  const std::string key = key_of(request, mode);
  std::optional<Alike::Place> equal;
  {
    const Spent::Range waiting(client.spent, Part::kQueue);
    equal.emplace(alike, key, client);
  }
  Alike::Place& place = *equal;
  std::optional<Verdict> known = place.known();
  if (!known && (known = verdicts.get(key))) place.tell(*known);
  if (known) {
    known->notes["cache"] = "hit";
    return *known;
  }
  Verdict verdict = judge(request, mode, client);
  if (client.deadline.expired()) return verdict;  // it may be of work that was cut short then
  if (lasting(verdict.fault)) verdicts.put(key, verdict);
  place.tell(verdict);
  return verdict;
}

Verdict Evaluator::evaluate(const EvaluationRequest& request, const Client& asked) {
  Impl& impl = *impl_;
  const auto start = Clock::now();
  Spent spent;
  Client client = asked;
  client.spent = &spent;
  const EvaluationMode mode = impl.means.modes.of(request);
  TF_CHECK(request.num_correct_trials >= 1, "{} correctness trials", request.num_correct_trials);
  try {
    // Against itself each is a measurement of its own.
    Verdict verdict = impl.means.options.against_itself ? impl.judge(request, mode, client)
                                                        : impl.known_or_judged(request, mode, client);
    verdict.wall_s = seconds_since(start);
    verdict.seconds = spent.seconds();
    return verdict;
  } catch (const Error&) {
    const std::lock_guard lock(impl.mutex);
    if (client.left.stop_requested()) ++impl.abandoned;
    throw;
  }
}

ProblemCheck Evaluator::check(const std::string& problem_source, const Client& client) {
  EvaluationRequest request;
  request.problem_source = problem_source;
  request.candidate = problem_source + "\nModelNew = Model\n";
  request.measure_performance = false;
  const Verdict verdict = evaluate(request, client);
  ProblemCheck found{.admission = impl_->means.problems.admission_of(problem_source),
                     .notes = verdict.notes,
                     .wall_s = verdict.wall_s};
  // That it launches no kernel is a candidate's fault only.
  found.admitted = !verdict.trials.empty() && verdict.fault == Fault::kNone;
  if (found.admitted) return found;
  found.reason = verdict.diagnostics.empty() ? std::string(name_of(verdict.fault)) : verdict.diagnostics;
  if (verdict.fault != Fault::kProblemError)
    found.reason = "its reference does not pass as its own candidate: " + found.reason;
  return found;
}

Refusals Evaluator::refusals() const { return impl_->means.modes.refusals(); }

void Evaluator::reset_device(size_t id) { impl_->plans.devices().reset(id); }

Json Evaluator::health() const {
  Impl& impl = *impl_;
  Means& means = impl.means;
  Json sandbox = impl.test.layers, devices = impl.plans.devices().status();
  const auto [busy, waiting, busy_seconds] = impl.workers.use();
  const std::lock_guard lock(impl.mutex);
  return {{"mode", name_of(means.options.mode)},
          {"sandbox", std::move(sandbox)},
          {"self_test", impl.test.attempts},
          {"breaches", impl.test.breaches},
          {"not_enforced", impl.test.missing()},
          {"versions", means.zygote.versions()},
          {"refused", refusals().json()},
          {"devices", std::move(devices)},
          {"zygote_restarts", means.zygote.restarts()},
          {"workers", means.options.workers},
          {"busy", busy},
          {"busy_seconds", busy_seconds},
          {"waiting", waiting + impl.alike.waiting()},
          {"evaluated", impl.evaluated},
          {"abandoned", impl.abandoned},
          {"faults", impl.faults},
          {"verdict_cache_hits", impl.verdicts.hits()},
          {"reference_cache_hits", means.problems.references().hits()},
          {"references_asked", means.problems.references().asked()},
          {"reference_processes", means.problems.references().processes()},
          {"compile_cache_hits", means.lowering.hits()},
          {"compile_cache_misses", means.lowering.misses()}};
}

}  // namespace tritonforge::evaluate
