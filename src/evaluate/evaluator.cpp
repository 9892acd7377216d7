#include "evaluate/evaluator.h"

#include <condition_variable>
#include <mutex>

#include "base/checksum.h"
#include "base/cuda_driver.h"
#include "base/log.h"
#include "base/rng.h"
#include "evaluate/device_pool.h"
#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/plan/gpu_runner.h"
#include "evaluate/plan/on_cpu.h"
#include "evaluate/process_runner.h"
#include "evaluate/reference_cache.h"
#include "evaluate/seeds.h"
#include "evaluate/self_test.h"
#include "evaluate/timing.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {
namespace {

// One RL step has about this many problems under evaluation at once.
constexpr size_t kKeptReferences = 8;
constexpr std::string_view kLive = "mode live";  // as a Refused names it
constexpr double kProbeSeconds = 30;             // a context of its own may be made first
constexpr double kLookSeconds = 5;               // at a candidate that is right on a GPU, on a CPU

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
    if (fs::exists("/dev/kfd")) return "";  // an AMD GPU; whether this torch can use it is seen once it is loaded
    if (needed) throw;
    return error.what();
  }
}

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

// How often an evaluation is begun at most where what it lost may have been taken from outside.
constexpr int kAttempts = 3;

// A process has no way to be killed by SIGKILL of its own but by taking too much; whoever does is seen to again.
bool was_struck(const std::string& ending) { return ending.find("was killed by signal 9") != std::string::npos; }

}  // namespace

struct Evaluator::Impl {
  Impl(EvaluatorOptions given, LoweringPool::Elsewhere elsewhere)
      : options(validated(given)),
        no_gpu(why_no_gpu(options)),
        zygote({.python = options.python,
                .gpu = no_gpu.empty(),
                .once = options.once,
                .records = options.mode == EvaluationMode::kPlan}),
        refusals(zygote.missing()),
        lowering(zygote, std::move(elsewhere)),
        verdicts(options.verdict_cache),
        references(zygote, options.reference_cache, kKeptReferences,
                   std::max<size_t>(1, static_cast<size_t>(options.workers) / 4)),
        process_secret{random_bits(), random_bits()} {
    const bool live = options.on_gpu();
    if (live && !why_not_on_a_gpu().empty()) fail(ErrorKind::kMachine, "evaluator: {}", why_not_on_a_gpu());
    if (is_rocm() && options.mode == EvaluationMode::kPlan && live)
      fail(ErrorKind::kUnsupported,
           "evaluator: plans are replayed on NVIDIA GPUs and on the CPU; this torch is a ROCm build: --mode live runs "
           "candidates on its GPU, --device cpu replays plans");
    if (options.mode == EvaluationMode::kLive) refusals.check(kLive);
    // What the default mode's children may do is told; the others must hold as well.
    test = test_sandbox(zygote, live, Deadline::after(60));
    if (why_not_on_a_gpu().empty()) {
      const SelfTest others = test_sandbox(zygote, !live, Deadline::after(60));
      test.breaches.insert(test.breaches.end(), others.breaches.begin(), others.breaches.end());
      for (const auto& [layer, state] : others.layers.items()) {
        if (!state.get<std::string>().starts_with("enforced")) test.layers[layer] = state;
      }
    }
    require_strict(options.sandbox, test);
    const double patience = std::min(kProbeSeconds, options_for(EvaluationMode::kPlan, options).candidate_timeout_s);
    devices.emplace(plan_devices(),
                    [this, patience](Device& device) { return probe(device, lowering, Deadline::after(patience)); });
  }

  EvaluatorOptions options;
  std::string no_gpu;  // why no child can be granted one
  Zygote zygote;
  const Refusals refusals;
  LoweringPool lowering;
  LruCache<Verdict> verdicts;
  LruCache<Admission> admissions{4096};  // by the problem's source
  LruCache<bool> not_drawn{4096};        // likewise: what processes P drew was not the same
  ReferenceCache references;
  std::optional<DevicePool> devices;  // of plan mode
  std::optional<CpuDevice> beside_gpus;
  const SipKey process_secret;
  SelfTest test;
  std::mutex mutex;
  std::condition_variable_any freed;
  int busy = 0, waiting = 0;
  double busy_seconds = 0;  // of all workers together, until `counted`
  Clock::time_point counted = Clock::now();
  uint64_t evaluated = 0, abandoned = 0;   // verdicts; evaluations whose client left
  std::map<std::string, uint64_t> faults;  // error kind -> count

  // With the mutex held: the time until now counts for those that are busy.
  double count() {
    busy_seconds += busy * seconds_since(counted);
    counted = Clock::now();
    return busy_seconds;
  }

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
      impl.count();
      ++impl.busy;
    }
    ~Place() {
      {
        const std::lock_guard lock(impl_.mutex);
        impl_.count();
        --impl_.busy;
      }
      impl_.freed.notify_one();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Impl& impl_;
  };

  // A request's problem, under the seeds that follow from it.
  struct Posed {
    EvaluatorOptions options;  // with the mode's defaults
    ReferenceSpec spec;
    ChildLimits limits;
    std::string key;
    uint64_t order_seed;
    std::shared_ptr<const ReferenceData> reference;
  };

  // The torch of the children is a ROCm build.
  bool is_rocm() const { return zygote.versions().value("hip", Json()).is_string(); }
  std::string why_not_on_a_gpu() const;
  EvaluationMode mode_of(const EvaluationRequest& request) const;
  std::vector<std::unique_ptr<Device>> plan_devices();
  void evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client);
  void on_devices(const Client& client, Verdict& verdict, const std::function<void(Device&, Verdict&)>& part);
  Posed pose(const EvaluatorOptions& options, const EvaluationRequest& request, EvaluationMode mode, Device* device,
             bool draws, const Client& client, Verdict& verdict);
  bool draws(const EvaluationRequest& request, Device& device);
  RunContext context_of(const Posed& posed, const EvaluationRequest& request, Device* device, const Client& client);
  std::optional<NotAPlan> as_plan(const EvaluationRequest& request, Device& device, const Client& client,
                                  Verdict& verdict);
  std::optional<NotAPlan> as_plan(const EvaluationRequest& request, Device& device, bool draws, const Client& client,
                                  Verdict& verdict);
  void look_for_races(const EvaluationRequest& request, const Client& client, Verdict& verdict);
  void in_its_process(const EvaluationRequest& request, EvaluationMode asked, Device* device, const Client& client,
                      Verdict& verdict);
  void time(Child& candidate, double call_s, const RunContext& context, const Posed& posed, const Client& client,
            Verdict& verdict);
};

void note_admission(const Admission& admission, Verdict& verdict) {
  if (admission.draw != Draw::kAsGiven) verdict.notes["draw"] = name_of(admission.draw);
  if (admission.tolerance != 1) verdict.notes["tolerance"] = fmt::format("{:.3g} of the usual", admission.tolerance);
}

std::vector<std::unique_ptr<Device>> Evaluator::Impl::plan_devices() {
  std::vector<std::unique_ptr<Device>> out;
  const ChildLimits limits = replay_limits(options_for(EvaluationMode::kPlan, options));
  if (options.on_gpu(EvaluationMode::kPlan)) {
    beside_gpus.emplace(zygote, limits);
    if (options.devices.size() < 2) {
      out.push_back(std::make_unique<GpuReplayers>(zygote, options, ""));
      return out;
    }
    const std::vector<std::string> uuids = gpu_uuids();
    if (uuids.size() != options.devices.size())
      fail(ErrorKind::kMachine, "evaluator: {} of the GPUs {} are there", uuids.size(),
           fmt::join(options.devices, ", "));
    for (const std::string& uuid : uuids) out.push_back(std::make_unique<GpuReplayers>(zygote, options, uuid));
    return out;
  }
  for (size_t i = 0; i < options.devices.size(); ++i) {
    const EmulatedFaults faults{.part = options.emulated_faults, .seed = i};
    out.push_back(std::make_unique<CpuDevice>(zygote, limits, static_cast<int>(i), faults));
  }
  if (out.empty()) out.push_back(std::make_unique<CpuDevice>(zygote, limits));
  return out;
}

// Every part has its own time from when it begins, so that no candidate has less because others were before it.
// `draws`: trials, where the problem can be drawn.
Evaluator::Impl::Posed Evaluator::Impl::pose(const EvaluatorOptions& options, const EvaluationRequest& request,
                                             EvaluationMode mode, Device* device, bool draws, const Client& client,
                                             Verdict& verdict) {
  const bool gpu = options.on_gpu(mode);
  Posed posed{.options = options_for(mode, options)};
  // The seeds' secret is one of this process, not of the request: candidates of one problem share its reference, and
  // none can know them.
  const Seeds seeds(request.fresh_seeds ? process_secret : SipKey{}, request.seed);
  const std::string problem = checksum(request.problem_source);
  posed.spec = {.source = request.problem_source,
                .init_seed = seeds.of("init"),
                .weight_seed = seeds.of("weights"),
                .tolerances = options.tolerances,
                .admission = admissions.get(problem),
                .timed = gpu,
                .weigh = mode == EvaluationMode::kPlan,
                .draw = draws,
                .fractions_seed = seeds.of("fractions"),
                .memory = device && device->gpu() ? &device->gpu()->memory() : nullptr};
  ReferenceSpec& spec = posed.spec;
  for (uint64_t i = 0; i < static_cast<uint64_t>(request.num_correct_trials); ++i)
    spec.trials.push_back({.inputs = seeds.of("inputs", i), .forward = seeds.of("forward", i)});
  const auto [most_elements, most_flops] = std::pair(posed.options.max_elements, posed.options.max_flops);
  if (most_elements > 0 || most_flops > 0) {
    constexpr int64_t kNoLimit = int64_t{1} << 60;
    spec.budget = {most_elements > 0 ? most_elements : kNoLimit, most_flops > 0 ? most_flops : kNoLimit};
  }
  const ChildLimits on_cpu{.cpu_s = 60, .file_bytes = uint64_t{64} << 20, .memory_bytes = options.memory_bytes};
  posed.limits = gpu ? on_gpu(on_cpu, device) : on_cpu;
  // Diagnostics may name the first programs that a race is between: whoever wants the same verdict again wants the same
  // order of programs.
  posed.order_seed = request.fresh_seeds ? random_bits() : seeds.of("orders");
  // The process that is kept for timing is one GPU's.
  posed.key = fmt::format("{} {} {} {} {} {} {} {}", problem, request.seed, request.fresh_seeds,
                          request.num_correct_trials, name_of(mode), gpu, posed.limits.gpu_uuid, draws);
  posed.reference = references.data(posed.key, spec, posed.limits,
                                    Deadline::after(std::min(request.timeout_s, client.deadline.remaining_s())));
  check_waited_for(client.left);  // the rest is this client's alone
  if (!spec.admission) admissions.put(problem, posed.reference->admission);
  if (!posed.reference->admission.barred.empty())
    throw ProblemFault{"the problem is barred: " + posed.reference->admission.barred};
  note_admission(posed.reference->admission, verdict);
  if (posed.reference->drawn) verdict.notes["trials"] = "drawn by the replayer, sampled by the problem's process";
  for (const auto& [name, change] : posed.reference->sizes.items()) {
    verdict.notes["reduced." + name] = fmt::format("{} -> {}", change.at(0).dump(), change.at(1).dump());
  }
  return posed;
}

RunContext Evaluator::Impl::context_of(const Posed& posed, const EvaluationRequest& request, Device* device,
                                       const Client& client) {
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

// Runs `part` on one device after the other until what it left stands.
void Evaluator::Impl::on_devices(const Client& client, Verdict& verdict,
                                 const std::function<void(Device&, Verdict&)>& part) {
  std::optional<ProblemFault> problem;
  devices->run(
      [&](Device& device) {
        Verdict attempt = verdict;
        problem.reset();
        try {
          part(device, attempt);
        } catch (const ProblemFault& fault) {
          problem = fault;
        }
        const Fault fault = attempt.fault;
        verdict = std::move(attempt);
        // What a GPU that is dying would look like. Of a CPU a lost process alone is.
        const bool doubtful = problem || fault == Fault::kCrashed || fault == Fault::kTimeout ||
                              fault == Fault::kRuntimeError || fault == Fault::kProblemError;
        return device.gpu() && doubtful ? DevicePool::Result::kDoubtful : DevicePool::Result::kSure;
      },
      client);
  if (problem) throw *problem;
}

bool Evaluator::Impl::draws(const EvaluationRequest& request, Device& device) {
  const bool believed = language_of(request.backend).runs(device.target()) != Runs::kNatively;
  if (!believed || options.trial_data == TrialData::kHanded || not_drawn.get(checksum(request.problem_source)))
    return false;
  return device.gpu() || options.trial_data == TrialData::kDrawn;
}

// Why it is none; nullopt where it was judged.
std::optional<NotAPlan> Evaluator::Impl::as_plan(const EvaluationRequest& request, Device& device, const Client& client,
                                                 Verdict& verdict) {
  Verdict drawn = verdict;
  try {
    auto why = as_plan(request, device, draws(request, device), client, drawn);
    verdict = std::move(drawn);
    return why;
  } catch (const DrawnOtherwise& why) {
    log::warn("problem {}: its trials are handed from process to process, replayers cannot draw them: {}",
              request.problem_id, why.text);
    not_drawn.put(checksum(request.problem_source), true);
    return as_plan(request, device, false, client, verdict);
  }
}

std::optional<NotAPlan> Evaluator::Impl::as_plan(const EvaluationRequest& request, Device& device, bool draws,
                                                 const Client& client, Verdict& verdict) {
  const Posed posed = pose(options, request, EvaluationMode::kPlan, &device, draws, client, verdict);
  const RunContext context = context_of(posed, request, &device, client);
  verdict.device = device.name();
  std::optional<GpuProblem> problem;
  if (device.gpu()) {
    const auto with_reference = [&](const std::function<bool(Child&)>& use) {
      references.with_process(posed.key, posed.spec, posed.limits, client.deadline, use);
    };
    const auto compiled = [&](const std::function<CompiledBaseline(Child&)>& measure) {
      return references.compiled(posed.key, posed.spec, posed.limits, client.deadline, measure);
    };
    problem.emplace(GpuProblem{*device.gpu(), with_reference, compiled});
  }
  std::optional<NotAPlan> why = judge_as_plan(context, verdict, problem ? &*problem : nullptr);
  if (why) verdict.notes.erase("trials");  // another mode's are handed
  const ReferenceTrial& trial = *posed.reference->trials.front();
  const double bytes = 2.0 * static_cast<double>(trial.input_bytes) + static_cast<double>(trial.output_bytes);
  if (why && posed.reference->drawn && bytes > static_cast<double>(ChannelLimits().frame_bytes)) {
    why->alone = true;
    why->reason += fmt::format("; a process of its own is not handed {:.1f} GB of inputs and outputs", bytes / 1e9);
  }
  return why;
}

// What is right on a GPU, at sizes that a CPU takes. No device is held meanwhile.
void Evaluator::Impl::look_for_races(const EvaluationRequest& request, const Client& client, Verdict& verdict) {
  EvaluatorOptions on_cpu = options;
  on_cpu.device = "cpu";
  on_cpu.devices.clear();
  EvaluationRequest once = request;
  once.num_correct_trials = 1;
  SeenOnCpu seen;
  try {
    Verdict ignored;
    const Posed posed = pose(on_cpu, once, EvaluationMode::kPlan, &*beside_gpus, false, client, ignored);
    RunContext context = context_of(posed, once, &*beside_gpus, client);
    context.limit_s = std::min(context.limit_s, kLookSeconds);
    seen = look_on_cpu(context);
  } catch (const ProblemFault& fault) {
    seen.note = "not looked for: " + clipped(fault.text, 300);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    seen.note = "not looked for: " + clipped(error.what(), 300);
  }
  verdict.notes["races"] = seen.refusal.empty() ? seen.note : "found";
  if (seen.refusal.empty()) return;
  verdict.correct = false;
  verdict.stage = Stage::kLaunched;
  verdict.fault = Fault::kRuntimeError;
  verdict.speedup = verdict.speedup_low = verdict.speedup_high = 0;
  verdict.eager_speedup = verdict.torch_compile_speedup = 0;
  add_diagnostics(verdict, seen.refusal);
}

void Evaluator::Impl::in_its_process(const EvaluationRequest& request, EvaluationMode asked, Device* device,
                                     const Client& client, Verdict& verdict) {
  const Posed posed = pose(options, request, asked, device, false, client, verdict);
  const RunContext context = context_of(posed, request, device, client);
  if (!options.on_gpu(asked)) {
    InterpretRunner runner(context);
    verdict = judge(runner, context, std::move(verdict));
    return;
  }
  LiveRunner runner(context);
  std::function<void(Verdict&)> timed;
  if (asked == EvaluationMode::kLive && request.measure_performance)
    timed = [&](Verdict& right) {
      runner.timed([&](Child& candidate) { time(candidate, runner.call_s(), context, posed, client, right); });
    };
  verdict = judge(runner, context, std::move(verdict), timed);
}

void Evaluator::Impl::evaluate(const EvaluationRequest& request, Verdict& verdict, const Client& client) {
  const EvaluationMode mode = *verdict.mode;
  if (mode != EvaluationMode::kPlan) {
    in_its_process(request, mode, nullptr, client, verdict);
    return;
  }
  std::optional<NotAPlan> why;
  try {
    on_devices(client, verdict,
               [&](Device& device, Verdict& attempt) { why = as_plan(request, device, client, attempt); });
  } catch (const DeviceFault& lost) {  // whatever the device: it is the plan's doing
    why = NotAPlan{
        .reason = lost.text, .ended = Ended{.fault = lost.fault, .text = lost.text}, .stage = Stage::kCompiled};
  }
  if (!why) {
    if (verdict.correct && beside_gpus && options.race_check) look_for_races(request, client, verdict);
    return;
  }
  if (why->alone || !language_of(request.backend).runs_in_the_candidates_process())
    return end_unrecorded(*why, verdict);
  const bool gpu = options.on_gpu(mode);
  if (const Refused* refused = refusals.find(kLive); gpu && refused) {
    why->reason += "; what is no plan would be run in mode live: " + refused->text();
    return end_unrecorded(*why, verdict);
  }
  // What the candidate's own process says of itself is a claim from here on, and none of its times is taken.
  verdict.mode = gpu ? EvaluationMode::kLive : EvaluationMode::kInterpret;
  verdict.notes["mode_reason"] = why->reason;
  const auto in_a_process = [&](Device& device, Verdict& attempt) {
    in_its_process(request, mode, &device, client, attempt);
  };
  if (gpu) on_devices(client, verdict, in_a_process);
  else in_its_process(request, mode, nullptr, client, verdict);
  if (options.claims == Claims::kRefuse) leave_unproven(verdict);
}

void Evaluator::Impl::time(Child& candidate, double call_s, const RunContext& context, const Posed& posed,
                           const Client& client, Verdict& verdict) {
  const double limit_s = context.limit_s;
  const auto samples = static_cast<int>(std::max<int64_t>(10, context.request.num_perf_trials));
  const std::stop_callback on_left(client.left, [&] { candidate.kill(); });
  try {
    references.with_process(posed.key, posed.spec, posed.limits, client.deadline, [&](Child& process) {
      TimedChild theirs(process), ours(candidate);
      return measure({.reference = theirs,
                      .candidate = ours,
                      .data = context.reference,
                      .options = context.options,
                      .sandbox_library = zygote.options().sandbox_library,
                      .max_samples = samples,
                      .seed = random_bits(),
                      .limit_s = limit_s,
                      .call_s = call_s},
                     verdict);
    });
  } catch (const ProblemFault& fault) {
    verdict.fault = Fault::kProblemError;
    verdict.diagnostics = "the candidate is correct, but the reference could not be started again: " + fault.text;
  }
  check_waited_for(client.left);
}

// Also where the machine's GPU and the children's torch are of different makes.
std::string Evaluator::Impl::why_not_on_a_gpu() const {
  if (!no_gpu.empty() || is_rocm()) return no_gpu;
  try {
    cuda_driver();
    return "";
  } catch (const Error& error) {
    return fmt::format("{}; an AMD GPU needs a torch that is a ROCm build", error.what());
  }
}

EvaluationMode Evaluator::Impl::mode_of(const EvaluationRequest& request) const {
  const EvaluationMode mode = request.mode.value_or(options.mode);
  const std::string no_gpu = why_not_on_a_gpu();
  if (mode != EvaluationMode::kLive) return mode;
  std::vector<std::string> reasons;
  if (!no_gpu.empty()) reasons.push_back(no_gpu);
  if (const Refused* refused = refusals.find(kLive)) reasons.push_back(refused->text());
  if (!reasons.empty()) fail(ErrorKind::kUsage, "evaluator: mode 'live' was asked for: {}", fmt::join(reasons, "; "));
  return mode;
}

Evaluator::Evaluator(EvaluatorOptions options, LoweringPool::Elsewhere elsewhere)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(elsewhere))) {}
Evaluator::~Evaluator() = default;
const EvaluatorOptions& Evaluator::options() const { return impl_->options; }

Verdict Evaluator::evaluate(const EvaluationRequest& request, const Client& client) {
  Impl& impl = *impl_;
  const auto start = Clock::now();
  const EvaluationMode mode = impl.mode_of(request);
  const bool live = impl.options.on_gpu(mode);
  usable_language(request.backend, mode, impl.refusals);
  if (request.backend == Backend::kTriton) {
    for (const Target target : request.targets) impl.refusals.check(fmt::format("target {}", name_of(target)));
  }
  TF_CHECK(request.num_correct_trials >= 1, "{} correctness trials", request.num_correct_trials);
  const std::string key = checksum(fmt::format("{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}", name_of(request.backend),
                                               name_of(mode), fmt::join(names_of(request.targets), ","),
                                               request.problem_source, request.candidate, request.seed,
                                               request.fresh_seeds, request.num_correct_trials));
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
        if (fresh.fault == Fault::kCrashed && was_struck(fresh.diagnostics) && attempt + 1 < kAttempts) continue;
        verdict = std::move(fresh);
        break;
      } catch (const ProblemFault& fault) {
        if (was_struck(fault.text) && attempt + 1 < kAttempts) continue;
        verdict.fault = Fault::kProblemError;
        verdict.diagnostics = fault.text;
        break;
      } catch (const Error& error) {
        // Our own machinery failed (the Python parent was killed): the candidate is not to blame, so again.
        if (error.kind() != ErrorKind::kUnavailable || attempt + 1 >= kAttempts || client.deadline.expired()) throw;
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

Refusals Evaluator::refusals() const {
  return impl_->why_not_on_a_gpu().empty() ? impl_->refusals : impl_->refusals.without(kLive);
}

void Evaluator::reset_device(size_t id) { impl_->devices->reset(id); }

Json Evaluator::health() const {
  Impl& impl = *impl_;
  Json sandbox = impl.test.layers, devices = impl.devices->status();
  const std::lock_guard lock(impl.mutex);
  return {{"mode", name_of(impl.options.mode)},
          {"sandbox", std::move(sandbox)},
          {"self_test", impl.test.attempts},
          {"breaches", impl.test.breaches},
          {"not_enforced", impl.test.missing()},
          {"versions", impl.zygote.versions()},
          {"refused", refusals().json()},
          {"devices", std::move(devices)},
          {"zygote_restarts", impl.zygote.restarts()},
          {"workers", impl.options.workers},
          {"busy", impl.busy},
          {"busy_seconds", impl.count()},
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
