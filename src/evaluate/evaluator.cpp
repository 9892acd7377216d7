#include "evaluate/evaluator.h"

#include <fcntl.h>
#include <sys/random.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/checksum.h"
#include "base/cuda_driver.h"
#include "base/log.h"
#include "base/rng.h"
#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/plan/gpu_runner.h"
#include "evaluate/process_runner.h"
#include "evaluate/reference_cache.h"
#include "evaluate/self_test.h"
#include "evaluate/timing.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {
namespace {

// One RL step has about this many problems under evaluation at once.
constexpr size_t kKeptReferences = 8;

uint64_t secret() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value)
    fail(ErrorKind::kMachine, "getrandom: {}", std::strerror(errno));
  return value;
}

EvaluatorOptions validated(EvaluatorOptions options) {
  check_options(options);
  const bool live = options.on_gpu();
  if (options.reference_cache == 0) options.reference_cache = live ? size_t{8} << 30 : size_t{256} << 20;
  return options;
}

// With the mode's defaults in place of 0.
EvaluatorOptions options_for(EvaluationMode mode, EvaluatorOptions options) {
  const bool live = options.on_gpu(mode);
  if (options.candidate_timeout_s <= 0) options.candidate_timeout_s = live ? 120 : 30;
  if (!live && options.max_elements == 0) options.max_elements = kSmall.elements;
  if (!live && options.max_flops == 0) options.max_flops = kSmall.flops;
  return options;
}

// Why no child can be granted a GPU; empty where one can. An evaluator in live mode does not start without one, and one
// that makes a single evaluation in another mode does not look.
std::string why_no_gpu(const EvaluatorOptions& options) {
  const bool needed = options.on_gpu();
  if (options.once && !needed) return "this evaluator makes one evaluation without it";
  try {
    cuda_driver();
    return "";
  } catch (const Error& error) {
    if (needed) throw;
    return error.what();
  }
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

}  // namespace

struct Evaluator::Impl {
  explicit Impl(EvaluatorOptions given)
      : options(validated(given)),
        no_gpu(why_no_gpu(options)),
        zygote({.python = options.python,
                .gpu = no_gpu.empty(),
                .once = options.once,
                .records = options.mode == EvaluationMode::kPlan}),
        lowering(zygote),
        replayers(zygote, "replay", replay_limits(options_for(EvaluationMode::kPlan, options)), kPlansPerReplayer),
        verdicts(options.verdict_cache),
        references(zygote, options.reference_cache, kKeptReferences),
        process_secret(secret()) {
    // What the default mode's children may do is told; the others must hold as well.
    const bool live = options.on_gpu();
    test = test_sandbox(zygote, live, Deadline::after(60));
    if (no_gpu.empty()) {
      const SelfTest others = test_sandbox(zygote, !live, Deadline::after(60));
      test.breaches.insert(test.breaches.end(), others.breaches.begin(), others.breaches.end());
    }
    if (options.sandbox == SandboxRule::kStrict && !test.complete()) {
      fail(ErrorKind::kMachine, "evaluator: --sandbox strict, but the self-test broke out: {}",
           fmt::join(test.breaches, ", "));
    }
    if (!test.complete())
      log::warn("sandbox: the self-test got through with {}; verdicts say which layers hold",
                fmt::join(test.breaches, ", "));
    if (options.mode == EvaluationMode::kPlan && live) gpu_replayers = std::make_unique<GpuReplayers>(zygote, options);
  }

  EvaluatorOptions options;
  std::string no_gpu;  // why no child can be granted one
  Zygote zygote;
  LoweringPool lowering;
  ChildPool replayers;  // of plan mode on the CPU
  LruCache<Verdict> verdicts;
  LruCache<Admission> admissions{4096};  // by the problem's source
  ReferenceCache references;
  std::unique_ptr<GpuReplayers> gpu_replayers;  // of plan mode on a GPU
  uint64_t process_secret;
  SelfTest test;
  std::mutex mutex;
  std::condition_variable_any freed;
  int busy = 0, waiting = 0;
  uint64_t evaluated = 0, abandoned = 0;   // verdicts; evaluations whose client left
  std::map<std::string, uint64_t> faults;  // error kind -> count

  // One of the workers' places; given back at the end.
  class Place {
   public:
    Place(Impl& impl, const Client& client) : impl_(impl) {
      std::unique_lock lock(impl.mutex);
      if (impl.waiting >= impl.options.max_queue) {
        fail(ErrorKind::kUnavailable, "evaluator: {} evaluations wait already (--max-queue)", impl.waiting);
      }
      ++impl.waiting;
      const bool got = impl.freed.wait_until(lock, client.left, client.deadline.at(),
                                             [&] { return impl.busy < impl.options.workers; });
      --impl.waiting;
      if (client.left.stop_requested()) impl.freed.notify_one();  // it may have been woken in another's place
      check_waited_for(client.left);
      if (!got) fail(ErrorKind::kTimeout, "evaluator: none of {} workers was free in time", impl.options.workers);
      ++impl.busy;
    }
    ~Place() {
      {
        const std::lock_guard lock(impl_.mutex);
        --impl_.busy;
      }
      impl_.freed.notify_one();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Impl& impl_;
  };

  EvaluationMode mode_of(const EvaluationRequest& request) const;
  void evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client);
  void time(LiveRunner& runner, const RunContext& context, const std::string& key, const ReferenceSpec& spec,
            const ChildLimits& limits, const Client& client, Verdict& verdict);
};

void note_admission(const Admission& admission, Verdict& verdict) {
  if (admission.draw != Draw::kAsGiven) verdict.notes["draw"] = name_of(admission.draw);
  if (admission.tolerance != 1) verdict.notes["tolerance"] = fmt::format("{:.3g} of the usual", admission.tolerance);
}

// Every part has its own time from when it begins, so that no candidate has less because others were before it.
void Evaluator::Impl::evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client) {
  const EvaluationMode mode = *verdict.mode;
  const bool live = mode == EvaluationMode::kLive, plan = mode == EvaluationMode::kPlan, gpu = options.on_gpu(mode);
  const EvaluatorOptions with_defaults = options_for(mode, options);
  // The seeds' secret is one of this process, not of the request: candidates of one problem share its reference, and
  // none can know them.
  const uint64_t base = request.fresh_seeds ? Rng::derive(process_secret, request.seed) : request.seed;
  const std::string problem = checksum(request.problem_source);
  ReferenceSpec spec{.source = request.problem_source,
                     .init_seed = Rng::derive(base, "init"),
                     .tolerances = options.tolerances,
                     .admission = admissions.get(problem),
                     .timed = gpu,
                     .weigh = plan};
  for (int i = 0; i < request.num_correct_trials; ++i)
    spec.trial_seeds.push_back(Rng::derive(Rng::derive(base, "trial"), i));
  const auto [most_elements, most_flops] = std::pair(with_defaults.max_elements, with_defaults.max_flops);
  if (most_elements > 0 || most_flops > 0) {
    constexpr int64_t kNoLimit = int64_t{1} << 60;
    spec.budget = {most_elements > 0 ? most_elements : kNoLimit, most_flops > 0 ? most_flops : kNoLimit};
  }
  const ChildLimits on_cpu{.cpu_s = 60, .file_bytes = uint64_t{64} << 20, .memory_bytes = options.memory_bytes};
  const ChildLimits limits = gpu ? on_cpu.with_gpu() : on_cpu;
  const std::string key = fmt::format("{} {} {} {}", problem, base, request.num_correct_trials, name_of(mode));
  const auto reference = references.data(key, spec, limits,
                                         Deadline::after(std::min(request.timeout_s, client.deadline.remaining_s())));
  check_waited_for(client.left);  // the rest is this client's alone
  if (!spec.admission) admissions.put(problem, reference->admission);
  if (!reference->admission.barred.empty()) throw ProblemFault{"the problem is barred: " + reference->admission.barred};
  note_admission(reference->admission, verdict);
  for (const auto& [name, change] : reference->sizes.items()) {
    verdict.notes["reduced." + name] = fmt::format("{} -> {}", change.at(0).dump(), change.at(1).dump());
  }
  const RunContext context{zygote,
                           lowering,
                           replayers,
                           with_defaults,
                           request,
                           *reference,
                           spec.init_seed,
                           secret(),
                           std::min(with_defaults.candidate_timeout_s, request.timeout_s),
                           Deadline::after(request.timeout_s),
                           client.left};
  if (live) {
    LiveRunner runner(context);
    verdict = judge(runner, context, std::move(verdict));
    if (verdict.correct && request.measure_performance) time(runner, context, key, spec, limits, client, verdict);
    return;
  }
  if (plan) {
    const auto with_reference = [&](const std::function<bool(Child&)>& use) {
      references.with_process(key, spec, limits, client.deadline, use);
    };
    std::optional<GpuProblem> problem;
    if (gpu) problem.emplace(GpuProblem{*gpu_replayers, with_reference});
    const std::string why = judge_as_plan(context, verdict, problem ? &*problem : nullptr);
    if (gpu) verdict.device = gpu_replayers->device().name;
    if (why.empty()) return;
    // What the candidate's own process says of itself is a claim from here on, and none of its times is taken.
    verdict.mode = gpu ? EvaluationMode::kLive : EvaluationMode::kInterpret;
    verdict.notes["mode_reason"] = why;
  }
  const auto runner = gpu ? std::unique_ptr<Runner>(std::make_unique<LiveRunner>(context))
                          : std::make_unique<InterpretRunner>(context);
  verdict = judge(*runner, context, std::move(verdict));
  if (plan && options.claims == Claims::kRefuse) leave_unproven(verdict);
}

void Evaluator::Impl::time(LiveRunner& runner, const RunContext& context, const std::string& key,
                           const ReferenceSpec& spec, const ChildLimits& limits, const Client& client,
                           Verdict& verdict) {
  const double limit_s = context.limit_s;
  const auto samples = static_cast<int>(std::max<int64_t>(10, context.request.num_perf_trials));
  const std::stop_callback on_left(client.left, [&] { runner.child().kill(); });
  try {
    references.with_process(key, spec, limits, client.deadline, [&](Child& process) {
      TimedChild theirs(process, limit_s), ours(runner.child(), limit_s);
      return measure({theirs, ours, context.reference, context.options, zygote.options().sandbox_library, samples,
                      Rng::derive(secret(), "timing"), limit_s},
                     verdict);
    });
  } catch (const ProblemFault& fault) {
    verdict.fault = Fault::kProblemError;
    verdict.diagnostics = "the candidate is correct, but the reference could not be started again: " + fault.text;
  }
  check_waited_for(client.left);
}

EvaluationMode Evaluator::Impl::mode_of(const EvaluationRequest& request) const {
  const EvaluationMode mode = request.mode.value_or(options.mode);
  if (mode == EvaluationMode::kLive && !no_gpu.empty())
    fail(ErrorKind::kUsage, "evaluator: mode 'live' was asked for: {}", no_gpu);
  return mode;
}

Evaluator::Evaluator(EvaluatorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Evaluator::~Evaluator() = default;
const EvaluatorOptions& Evaluator::options() const { return impl_->options; }

Verdict Evaluator::evaluate(const EvaluationRequest& request, const Client& client) {
  Impl& impl = *impl_;
  const auto start = Clock::now();
  const EvaluationMode mode = impl.mode_of(request);
  const bool live = impl.options.on_gpu(mode);
  if (request.backend != "triton")
    fail(ErrorKind::kUnsupported, "evaluator: backend '{}' is not there{}", request.backend,
         nearest_hint(request.backend, {"triton"}));
  TF_CHECK(request.num_correct_trials >= 1, "{} correctness trials", request.num_correct_trials);
  const std::string key = checksum(fmt::format(
      "{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}", name_of(mode), fmt::join(names_of(request.targets), ","),
      request.problem_source, request.candidate, request.seed, request.fresh_seeds, request.num_correct_trials));
  if (!live) {
    if (auto known = impl.verdicts.get(key)) {
      known->notes["cache"] = "hit";
      known->wall_s = seconds_since(start);
      return *known;
    }
  }
  Verdict verdict;
  verdict.seed = request.seed;
  verdict.mode = mode;
  verdict.device = live ? "cuda:0" : "cpu";
  verdict.stage = Stage::kExtracted;
  try {
    const Impl::Place place(impl, client);
    for (int attempt = 0;; ++attempt) {
      try {
        Verdict fresh = verdict;
        impl.evaluate(request, fresh, client);
        verdict = std::move(fresh);
        break;
      } catch (const ProblemFault& fault) {
        verdict.fault = Fault::kProblemError;
        verdict.diagnostics = fault.text;
        break;
      } catch (const Error& error) {
        // Our own machinery failed (the Python parent was killed): the candidate is not to blame, so once more.
        if (error.kind() != ErrorKind::kUnavailable || attempt > 0 || client.deadline.expired()) throw;
        log::warn("evaluation is tried again: {}", error.what());
      }
    }
  } catch (const Error&) {
    if (client.left.stop_requested()) {
      const std::lock_guard lock(impl.mutex);
      ++impl.abandoned;
    }
    throw;
  }
  verdict.wall_s = seconds_since(start);
  bound(verdict);
  {
    const std::lock_guard lock(impl.mutex);
    ++impl.evaluated;
    if (verdict.fault != Fault::kNone) ++impl.faults[std::string(name_of(verdict.fault))];
  }
  if (!live && lasting(verdict.fault)) impl.verdicts.put(key, verdict);
  return verdict;
}

ProblemCheck Evaluator::check(const std::string& problem_source, const Client& client) {
  EvaluationRequest request;
  request.problem_source = problem_source;
  request.candidate = problem_source + "\nModelNew = Model\n";
  request.measure_performance = false;
  const Verdict verdict = evaluate(request, client);
  ProblemCheck found{
      .admission = impl_->admissions.get(checksum(problem_source)), .notes = verdict.notes, .wall_s = verdict.wall_s};
  // That it launches no kernel is a candidate's fault only.
  found.admitted = !verdict.trials.empty() && verdict.fault == Fault::kNone;
  if (found.admitted) return found;
  found.reason = verdict.diagnostics.empty() ? std::string(name_of(verdict.fault)) : verdict.diagnostics;
  if (verdict.fault != Fault::kProblemError)
    found.reason = "its reference does not pass as its own candidate: " + found.reason;
  return found;
}

Json Evaluator::health() const {
  Impl& impl = *impl_;
  Json sandbox = impl.test.layers;
  const std::lock_guard lock(impl.mutex);
  return {{"mode", name_of(impl.options.mode)},
          {"sandbox", std::move(sandbox)},
          {"self_test", impl.test.attempts},
          {"breaches", impl.test.breaches},
          {"versions", impl.zygote.versions()},
          {"zygote_restarts", impl.zygote.restarts()},
          {"workers", impl.options.workers},
          {"busy", impl.busy},
          {"waiting", impl.waiting},
          {"evaluated", impl.evaluated},
          {"abandoned", impl.abandoned},
          {"faults", impl.faults},
          {"verdict_cache_hits", impl.verdicts.hits()},
          {"reference_cache_hits", impl.references.hits()},
          {"reference_processes", impl.references.processes()},
          {"compile_cache_hits", impl.lowering.hits()},
          {"compile_cache_misses", impl.lowering.misses()}};
}

}  // namespace tritonforge::evaluate
