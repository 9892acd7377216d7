#include "evaluate/plan/runner.h"

#include <algorithm>

#include "evaluate/drawn_reference.h"
#include "evaluate/pairs.h"
#include "evaluate/plan/arguments.h"
#include "evaluate/plan/as_plan.h"
#include "evaluate/plan/gpu_runner.h"

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMaxAnswer = 1 << 20;
// P ends a replay by itself, and says which kernel it was at, before its silence would be the end.
constexpr double kOfTheTimeLeft = 0.9;
constexpr double kPaceSeconds = 2;  // of pairs on a CPU
// On a CPU further configurations are run where they take no more programs, at the sizes of the trials, and while at
// least so much is left of the candidate's time.
constexpr int64_t kMostPrograms = 1 << 16;
constexpr double kLeftForOthers = 0.3;

Loaded::Recorded summary_of(const Plan& plan, const RunContext& context, Runs runs, const std::string& target) {
  const auto& work = context.reference.work;
  const Language& language = context.language;
  Loaded::Recorded recorded{.launches = plan.launches(),
                            .steps = plan.steps.size(),
                            .kernels = {},
                            .aten = {},
                            .kind = std::string(language.kernel()),
                            .not_run = {},
                            .heaviest = {},
                            .in_tf32 = {}};
  recorded.aten = aten_work(plan, work.value_or(ReferenceWork()), &recorded.heaviest);
  if (runs == Runs::kNowhere)
    recorded.not_run = fmt::format("compiled for {}, not run here: that takes {}", target, language.runs_on());
  for (const PlanStep& step : plan.steps) {
    if (step.kernel >= 0) recorded.kernels.push_back(plan.kernels[static_cast<size_t>(step.kernel)].name);
  }
  for (const PlanKernel& kernel : plan.kernels) {
    const bool cuts = std::any_of(kernel.ir.begin(), kernel.ir.end(), [&](const auto& text) {
      return language.cuts_to_tf32(plan.texts[static_cast<size_t>(text.second)]);
    });
    const bool known = std::find(recorded.in_tf32.begin(), recorded.in_tf32.end(), kernel.name) !=
                       recorded.in_tf32.end();
    if (cuts && !known) recorded.in_tf32.push_back(kernel.name);
  }
  return recorded;
}

int64_t programs_of(const Plan& plan) {
  int64_t programs = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel >= 0) programs += step.grid[0] * step.grid[1] * step.grid[2];
  }
  return programs;
}

// What the request asks for, and what the device needs.
std::vector<std::string> targets_of(const RunContext& context) {
  std::vector<Target> asked = context.request.targets;
  for (const Target target : context.device->also_compiled_for()) {
    if (std::find(asked.begin(), asked.end(), target) == asked.end()) asked.push_back(target);
  }
  return context.language.targets(asked, context.device->target());
}

}  // namespace

PlanRunner::PlanRunner(const RunContext& context, Weights weights, OwnTime& time)
    : context_(context),
      time_(time),
      device_(context.device->target()),
      targets_(targets_of(context)),
      runs_(context.language.runs(device_)),
      weights_(weights) {}

std::vector<SentKernel> kernels_of(const Plan& plan, const Language& language,
                                   const std::vector<std::string>& targets) {
  std::vector<SentKernel> kernels;
  for (const PlanKernel& kernel : plan.kernels) {
    for (const std::string& target : targets) {
      SentKernel& sent = kernels.emplace_back(SentKernel{.name = kernel.name, .target = target});
      if (const auto error = kernel.errors.find(target); error != kernel.errors.end()) {
        sent.error = clipped(error->second, 2000);
      } else if (const auto text = kernel.ir.find(target); text != kernel.ir.end()) {
        sent.ir = language.source(plan.texts[static_cast<size_t>(text->second)]);
        sent.options = kernel.options;
      } else {
        throw NotAPlan{fmt::format("kernel {} was not recorded for {}", kernel.name, target)};
      }
    }
  }
  return kernels;
}

std::vector<Compiled> PlanRunner::compile(const Plan& plan) {
  const Spent::Range compiling(context_.spent, Part::kCompiling);
  const std::vector<SentKernel> kernels = kernels_of(plan, context_.language, targets_);
  const bool keep = &plan == &plan_ && (runs_ == Runs::kOnGpu || runs_ == Runs::kNatively);
  std::vector<Compiled> out;
  time_.paused([&] {
    out = lower(context_.lowering, context_.language, kernels, context_.overall, device_, keep ? &binaries_ : nullptr);
  });
  return out;
}

// A compiler that sees the kernel alone does not see its launches. `compiled`: of each kernel in order, for one target.
void PlanRunner::check_arguments(std::vector<Compiled>& compiled) const {
  for (const PlanStep& step : plan_.steps) {
    if (step.kernel < 0) continue;
    Compiled& kernel = compiled.at(static_cast<size_t>(step.kernel));
    if (kernel.error.empty())
      kernel.error = wrong_arguments(plan_, step, kernel.parameters, context_.language.converts_numbers());
  }
}

Loaded PlanRunner::load() {
  Loaded loaded;
  as_plan(loaded.ended, [&] { record(loaded); });
  if (loaded.ended) return loaded;
  loaded.stage = Stage::kImported;
  as_plan(loaded.ended, [&] { loaded.own_weights = strings_of(recording_.header.at("plan"), "own_weights"); });
  took_weights_ = std::any_of(plan_.values.begin(), plan_.values.end(),
                              [](const PlanValue& value) { return !value.weight.empty(); });
  if (context_.compiles) loaded.compiled = compile(plan_);
  if (context_.language.compiles_sources()) check_arguments(loaded.compiled);
  tunings_ = Tunings(plan_, context_.compiles ? targets_ : std::vector<std::string>(), device_, loaded.compiled);
  loaded.autotune = tunings_.left_out();
  every_step_ = plan_.steps;
  choose(tunings_.first());
  loaded.recorded = summary_of(plan_, context_, runs_, targets_.front());
  const bool compiles = std::all_of(loaded.compiled.begin(), loaded.compiled.end(),
                                    [](const auto& one) { return one.error.empty(); });
  if (!compiles || runs_ == Runs::kNowhere) return loaded;
  // What runs in P's own process could have called torch, too.
  if (runs_ == Runs::kNatively) loaded.claimed = {"own_share"};
  if (runs_ == Runs::kNatively) as_replay([&] { hand_over(); });
  else as_replay(*context_.device, [&] { hand_over(); });
  return loaded;
}

void PlanRunner::choose(const Choice& choice) {
  choice_ = choice;
  plan_.steps = chosen_steps(every_step_, plan_.tunings, choice);
  const auto& work = context_.reference.work;
  aten_ = aten_work(plan_, work.value_or(ReferenceWork()));
}

// The same, and P with it.
void PlanRunner::turn_to(const Choice& choice) {
  choose(choice);
  as_replay(*context_.device, [&] {
    replayer_->send({{"choose", choice}}, {}, "it was told a configuration");
    check_taken(replayer_->receive("it was told a configuration", kMaxAnswer));
  });
}

// Every configuration is in a call at least once, of one trial after the other.
std::optional<ConfigurationCall> PlanRunner::next_configuration() {
  const auto& choices = tunings_.choices();
  if (tried_ + 1 >= choices.size()) return std::nullopt;
  const Choice& choice = choices[++tried_];
  ConfigurationCall other{tunings_.name(choice), tried_ % context_.reference.trials.size(), std::nullopt};
  turn_to(choice);
  if (runs_ == Runs::kOnGpu ||
      (programs_of(plan_) <= kMostPrograms && time_.deadline.remaining_s() > kLeftForOthers * context_.limit_s)) {
    other.call = call(other.trial, Launches::kAll);
    if (!other.call->result) return other;
  }
  turn_to(choices.front());
  return other;
}

PlanRunner::~PlanRunner() {
  if (replayer_sound_) context_.device->replayers().give_back({replayer_->release(), replayers_jobs_});
}

void PlanRunner::take_replayer() {
  if (runs_ == Runs::kNatively) {  // it serves this plan alone
    replayer_.emplace(context_.children.spawn("replay", native_limits(context_.options), context_.overall), time_,
                      "the process that runs the kernels");
    return;
  }
  ChildPool::Worker worker = context_.device->replayers().take(context_.overall);
  replayers_jobs_ = worker.jobs;
  replayer_.emplace(std::move(worker.child), time_, "the replayer");
}

PlanRunner::Handed PlanRunner::handed_over() const {
  Handed handed{.header = {{"plan", recording_.header.at("plan")},
                           {"plan_bytes", recording_.payload.size()},
                           {"choice", choice_},
                           {"weights", context_.reference.state},
                           {"tensors", context_.reference.tensors}},
                .payload = {recording_.payload, context_.reference.payload}};
  if (context_.reference.drawn) add_drawn_problem(context_.reference, handed.header, handed.payload);
  if (runs_ == Runs::kInterpreted) return handed;
  TF_CHECK(binaries_.size() == plan_.kernels.size(), "{} binaries of {} kernels", binaries_.size(),
           plan_.kernels.size());
  handed.header["target"] = device_;
  handed.header["binaries"] = Json::array();
  for (const Lowered& lowered : binaries_) {
    // None where it does not compile: no configuration that is run launches it.
    Json shape = lowered.binary ? lowered.shape : Json::object();
    shape["bytes"] = lowered.binary ? lowered.binary->size() : 0;
    handed.header["binaries"].push_back(std::move(shape));
    if (lowered.binary) handed.payload.emplace_back(*lowered.binary);
  }
  return handed;
}

void PlanRunner::hand_over() {
  const Spent::Range replaying(context_.spent, Part::kReplaying);
  time_.paused([&] { take_replayer(); });
  const Handed handed = handed_over();
  replayer_->send(handed.header, handed.payload, "it was handed the plan");
  const Frame answer = replayer_->receive("it checked the plan", kMaxAnswer);
  replayer_sound_ = runs_ == Runs::kInterpreted;
  check_taken(answer);
}

namespace {

// The samples that a list of an answer describes, from `at` on.
std::vector<TensorView> samples_of(const Json& described, size_t first, size_t count, const Frame& answer, size_t& at) {
  Json part = Json::array();
  size_t bytes = 0;
  for (size_t k = first; k < first + count; ++k) {
    part.push_back(described.at(k));
    bytes += described.at(k).at("bytes").get<size_t>();
  }
  if (bytes > answer.payload.size() - at) fail(ErrorKind::kCorrupt, "an answer with too few samples");
  at += bytes;
  return parse_tensors(part, std::span(answer.payload).subspan(at - bytes, bytes));
}

}  // namespace

bool drawn_alike(const Frame& answer, const ReferenceTrial& trial, const Tolerances& tolerances, size_t& input,
                 size_t& output, size_t& at) {
  const auto inputs = samples_of(answer.header.at("drawn"), input, trial.before.size(), answer, at);
  const size_t made = std::min(trial.outputs.size(), answer.header.at("expected").size() - output);
  const auto outputs = samples_of(answer.header.at("expected"), output, made, answer, at);
  input += inputs.size();
  output += outputs.size();
  return made_alike(inputs, outputs, trial, tolerances);
}

Call PlanRunner::call(size_t trial, Launches launches) {
  if (launches == Launches::kAll) last_ = {trial, choice_};
  return replay(trial, {.launch = launches == Launches::kAll});
}

Call PlanRunner::again(ir::Schedule schedule) {
  const Choice now = choice_;
  if (now != last_.choice) turn_to(last_.choice);
  Call call = replay(last_.trial, {.schedule = schedule});
  if (now != last_.choice) turn_to(now);
  return call;
}

Call PlanRunner::replay(size_t trial, const Way& way) {
  const Spent::Range replaying(context_.spent, Part::kReplaying);
  Call call;
  replayer_sound_ = false;
  const auto part = [&] { ask(trial, way, call); };
  if (runs_ == Runs::kNatively) as_native(call.ended, part);
  // Without one of its kernels a plan may cost its process whatever the device does.
  else if (way.without < 0) as_replay(*context_.device, part);
  else as_replay(part);
  return call;
}

PlanRunner::Handed PlanRunner::replay_of(size_t trial) const {
  const ReferenceTrial& expected = *context_.reference.trials[trial];
  Handed request{.header = {{"replay", true},
                            {"forward_seed", expected.forward_seed},
                            {"order_seed", context_.order_seed + trial},
                            {"own_sizes", context_.reference.sizes.empty()},
                            {"launch", true},
                            {"without", -1},
                            {"weigh", false},
                            {"timeout_s", kOfTheTimeLeft * time_.deadline.remaining_s()}},
                 .payload = {}};
  if (context_.reference.drawn) {
    request.header["seed"] = expected.seed;
    request.header["bounds"] = json_of(expected.bounds);
    request.header["input_bounds"] = json_of(expected.input_bounds);
  } else {
    request.header["tensors"] = expected.input_tensors;
    request.payload = {std::span(expected.payload).first(expected.input_bytes)};
  }
  return request;
}

namespace {

// What its outputs are beside their elements.
void tell_forms(const Plan& plan, const Json& header, CallResult& call) {
  call.repeats = repeats_of(plan);
  call.by_row = by_row(plan);
  call.shared = header.at("shared").get<std::vector<int64_t>>();
}

}  // namespace

void PlanRunner::ask(size_t trial, const Way& way, Call& call) {
  const ReferenceTrial& expected = *context_.reference.trials[trial];
  const bool drawn = context_.reference.drawn.has_value();
  const bool weigh = way.whole() && (trial == 0 || tried_ > 0);
  Handed request = replay_of(trial);
  request.header["launch"] = way.launch;
  request.header["without"] = way.without;
  request.header["schedule"] = name_of(way.schedule);
  request.header["weigh"] = weigh;
  request.header["again"] = way.whole() && trial > 0 && trial + 1 == context_.reference.trials.size();
  replayer_->send(request.header, request.payload, "replaying");
  call.frame = replayer_->receive("replaying", 2 * expected.payload.size() + kMaxPlanBytes);
  const Json& header = call.frame.header;
  replayer_sound_ = runs_ != Runs::kNatively && (!header.contains("failed") || outlives_failures());
  if (header.contains("failed")) {
    const Json& failed = header["failed"];
    const auto text = failed.value("text", "");
    if (runs_ != Runs::kInterpreted && says_out_of_memory(text)) {
      call.ended = Ended{.how = Ended::How::kFailed, .fault = Fault::kOutOfMemory, .text = clipped(text, 300)};
      return;
    }
    if (way.whole() && failed.value("kind", "") != "fault") throw NotAPlan{clipped(text, 300)};
    call.ended = Ended{.how = Ended::How::kFailed, .fault = Fault::kRuntimeError, .text = text};
    return;
  }
  for (const auto& finding : header.at("findings"))
    call.findings.emplace_back(finding.at(0).get<std::string>(), finding.at(1).get<std::string>());
  if (weigh) {
    call.aten = aten_;
    if (runs_ == Runs::kNatively) call.own = own_ = bound_work(plan_, header.at("copied").get<std::vector<bool>>());
    else call.own = Work{header.at("own").at(0).get<double>(), header.at("own").at(1).get<double>()};
  }
  if (drawn) return take_drawn(expected, call);
  call.result = call_result(plan_.outputs, header, call.frame.payload);
  tell_forms(plan_, header, *call.result);
  check_inputs(*call.result, expected);
}

namespace {

Comparison comparison_of(const Json& item) {
  const auto number = [&](size_t k) { return std::strtod(item.at(k).get_ref<const std::string&>().c_str(), nullptr); };
  return {.passed = item.at(0), .max_abs_error = number(1), .max_rel_error = number(2), .mismatch = item.at(3)};
}

}  // namespace

void PlanRunner::take_drawn(const ReferenceTrial& expected, Call& call) {
  const Json& header = call.frame.header;
  size_t input = 0, output = 0, at = 0;
  for (const Json& tensor : header.at("tensors")) at += tensor.at("bytes").get<size_t>();
  if (at > call.frame.payload.size()) fail(ErrorKind::kCorrupt, "an answer with too few samples");
  call.result = call_result(plan_.outputs, header, std::span(call.frame.payload).first(at));
  tell_forms(plan_, header, *call.result);
  check_inputs(*call.result, expected);
  if (!drawn_alike(call.frame, expected, context_.reference.tolerances, input, output, at)) {
    call.result.reset();
    call.ended = Ended{.how = Ended::How::kFailed,
                       .fault = Fault::kRuntimeError,
                       .text =
                           "its kernels wrote into memory that they were not given: the reference, which was run "
                           "after them, gave something else than it does alone"};
    return;
  }
  call.whole.emplace();
  const Json& whole = header.at("whole");
  for (const Json& item : whole.at("inputs"))
    call.whole->inputs.push_back({item.at(0), item.at(0) == Json(true) ? Comparison{} : comparison_of(item.at(1))});
  for (const Json& item : whole.at("outputs")) call.whole->outputs.push_back(comparison_of(item));
  if (call.whole->inputs.size() != expected.before.size())
    fail(ErrorKind::kCorrupt, "an answer about {} inputs", call.whole->inputs.size());
  call.whole->outputs.resize(expected.outputs.size());  // of other outputs there is nothing to say
}

std::optional<Measured> PlanRunner::measure() {
  const ReferenceData& reference = context_.reference;
  if (runs_ != Runs::kNatively || !context_.request.measure_performance || reference.plan.is_null())
    return std::nullopt;
  const ReferenceTrial& trial = *reference.trials.front();
  Measured measured{.own = own_, .aten = aten_};
  as_native(measured.ended, [&] {
    replayer_->send({{"pace", context_.request.num_perf_trials},
                     {"limit_s", std::min(kPaceSeconds, time_.deadline.remaining_s() / 2)},
                     {"reference", reference.plan},
                     {"plan_bytes", reference.plan_payload.size()},
                     {"tensors", trial.input_tensors},
                     {"forward_seed", trial.forward_seed}},
                    {std::span(reference.plan_payload), std::span(trial.payload).first(trial.input_bytes)},
                    "being timed");
    const Json header = replayer_->receive("being timed", kMaxAnswer).header;
    const auto ours = header.at("candidate").get<std::vector<double>>();
    const auto theirs = header.at("reference").get<std::vector<double>>();
    std::vector<double> ratios;
    for (size_t k = 0; k < std::min(ours.size(), theirs.size()); ++k) {
      if (!(ours[k] > 0 && theirs[k] > 0)) throw forged("times that are none");
      ratios.push_back(theirs[k] / ours[k]);
    }
    if (ratios.empty()) return;
    const Interval interval = median_interval(ratios);
    measured.claimed = Measured::Claimed{summarise(ours), summarise(theirs), interval.low, interval.high};
  });
  return measured;
}

std::optional<Profiler::Job> PlanRunner::to_count() const {
  if (runs_ != Runs::kOnGpu && runs_ != Runs::kInterpreted) return std::nullopt;
  GpuReplayers* gpu = context_.device->gpu();
  std::vector<Handed> frames;
  if (gpu) frames.push_back({.header = {{"open", true}}, .payload = {}});
  frames.push_back(handed_over());
  frames.push_back(replay_of(0));
  frames.back().header["timeout_s"] = Profiler::kMostSeconds;  // each launch is run several times over
  std::vector<std::string> kernels;
  for (size_t k = 0; k < plan_.kernels.size(); ++k) {
    const bool compiled = k < binaries_.size() && binaries_[k].binary;
    kernels.push_back(compiled ? binaries_[k].shape.at("entry").get<std::string>() : plan_.kernels[k].name);
  }
  return Profiler::job(frames, kernels, gpu ? gpu->granted() : "");
}

std::optional<NotAPlan> judge_as_plan(const RunContext& context, Verdict& verdict, const GpuProblem* gpu,
                                      std::optional<Profiler::Job>* to_count) {
  OwnTime time(context.limit_s, context.left);
  const auto runner_with = [&](Weights weights) -> std::unique_ptr<PlanRunner> {
    if (gpu) return std::make_unique<GpuPlanRunner>(context, weights, time, *gpu);
    return std::make_unique<PlanRunner>(context, weights, time);
  };
  try {
    auto runner = runner_with(Weights::kReferences);
    Verdict first = judge(*runner, context, verdict);
    // A constructor may derive weights from the reference's (scaled, a batch norm folded into them) and give them the
    // same names or shapes: those are right as they are, made from the same seed.
    if (first.fault == Fault::kMismatch && runner->took_weights()) {
      try {
        auto with_its_own = runner_with(Weights::kItsOwn);
        if (Verdict second = judge(*with_its_own, context, verdict); second.correct) {
          first = std::move(second);
          runner = std::move(with_its_own);
        }
      } catch (const NotAPlan&) {  // the first verdict stands
      }
    }
    verdict = std::move(first);
    if (to_count && verdict.correct) *to_count = runner->to_count();
    return std::nullopt;
  } catch (const NotAPlan& no_plan) {
    return no_plan;
  }
}

}  // namespace tritonforge::evaluate
