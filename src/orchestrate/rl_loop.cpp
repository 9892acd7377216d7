// submit -> lease -> step -> install. The trainer fetches the tokens of a lease from the buffer itself, and commits it
// once a checkpoint holds its step. With max_staleness k, the groups of step s + k are submitted before step s is
// trained; k = 0 is synchronous: every token of a step comes from the weights of the step before, or of the last one
// that rl.update_interval sent to the engines. With over-sampling a step takes the groups that are complete first
// (orchestrate/group_schedule.h). Whatever dies, the loop goes on from what the trainer has (docs/architecture.md, "One
// recovery").
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/log.h"
#include "base/rng.h"
#include "net/retry.h"
#include "orchestrate/dynamic_sampling.h"
#include "orchestrate/group_schedule.h"
#include "orchestrate/idle_watch.h"
#include "orchestrate/inputs.h"
#include "orchestrate/learning_watch.h"
#include "orchestrate/lease_ahead.h"
#include "orchestrate/stages.h"
#include "orchestrate/validation.h"

namespace tritonforge::orchestrate {
namespace {

// A seeded shuffle of all problems, walked through epoch after epoch: the i-th group of the run has the i-th of them.
class ProblemWalk {
 public:
  explicit ProblemWalk(const RecipeConfig& config)
      : problems_(rl_problems(config)),
        seed_(Rng::derive(static_cast<uint64_t>(config.seed), "rl problems")),
        order_(problems_.size()) {}

  const Problem& at(int64_t i) {
    const auto n = static_cast<int64_t>(problems_.size());
    if (i / n != epoch_) shuffle(i / n);
    return problems_[order_[static_cast<size_t>(i % n)]];
  }
  const std::string& source_of(const std::string& id) const {
    const auto found = std::ranges::find(problems_, id, &Problem::id);
    TF_CHECK(found != problems_.end(), "no problem {}", id);
    return found->source;
  }
  // For a group that is added to a step: any of them.
  const Problem* another(int64_t step, size_t index) const {
    const uint64_t draw = Rng::derive(Rng::derive(seed_, "refills"), static_cast<uint64_t>(step) * 100003 + index);
    return &problems_[draw % problems_.size()];
  }

 private:
  void shuffle(int64_t epoch) {
    epoch_ = epoch;
    std::iota(order_.begin(), order_.end(), size_t{0});
    Rng(Rng::derive(seed_, static_cast<uint64_t>(epoch))).shuffle(order_);
  }

  std::vector<Problem> problems_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // which order_ is of
  std::vector<size_t> order_;
};

constexpr char kStepLease[] = "rl-step-";  // with the step's number: the lease of its groups

constexpr char kGroup[] = "rl-";  // with its step's number and its own

// The step that a group of the run is for, if none is late, and its place there.
struct GroupPlace {
  int64_t step = 0;
  size_t index = 0;
  std::string name() const { return fmt::format("{}{}-{}", kGroup, step, index); }
};

GroupPlace place_of(const RlSection& rl, int64_t group) {
  return {group / rl.prompts_per_step + 1, static_cast<size_t>(group % rl.prompts_per_step)};
}

GroupSpec group_at(const RecipeConfig& config, const Problem& problem, const GroupPlace& place) {
  const auto seed = static_cast<uint64_t>(config.seed);
  GroupSpec group;
  group.id = place.name();
  group.problem_id = problem.id;
  group.problem_source = problem.source;
  group.n_samples = config.rl.samples_per_prompt;
  group.seed = Rng::derive(Rng::derive(seed, "rl groups"), static_cast<uint64_t>(place.step) * 100003 + place.index) >>
               1;
  group.options = config.rollout_request(config.rl.sampling, config.rollout.max_turns);
  return group;
}

// The groups of a range of the run's (orchestrate/group_schedule.h).
std::vector<GroupSpec> groups_of(const RecipeConfig& config, ProblemWalk& problems, GroupRange range) {
  std::vector<GroupSpec> groups;
  for (int64_t i = range.begin; i < range.end; ++i)
    groups.push_back(group_at(config, problems.at(i), place_of(config.rl, i)));
  return groups;
}

std::vector<std::string> names_of(const RlSection& rl, GroupRange range) {
  std::vector<std::string> names;
  for (int64_t i = range.begin; i < range.end; ++i) names.push_back(place_of(rl, i).name());
  return names;
}

// Waits for the groups of a step, and for those that replace what teaches nothing. With over-sampling: for those that
// are due, and so many that are complete. `check` is called every second; what it throws ends the wait.
Lease lease_step(const RunContext& run, const ProblemWalk& problems, const GroupSchedule& schedule, int64_t step,
                 const std::function<void()>& check) {
  constexpr double kRound = 1;
  const RlSection& rl = run.config.rl;
  const auto wait_for = [&](const LeaseRequest& request) { return run.buffer.lease(request, kRound, check); };
  LeaseRequest request;
  request.lease_id = fmt::format("{}{}", kStepLease, step);
  request.count = rl.prompts_per_step;
  request.samples = rl.transcripts;
  request.replay = {rl.replay.groups, rl.replay.steps, rl.replay.order, kStepLease};
  if (schedule.over_samples()) {
    request.of = kGroup;
    request.at_least = names_of(rl, schedule.due(step));
    return wait_for(request);
  }
  request.group_ids = names_of(rl, {(step - 1) * rl.prompts_per_step, step * rl.prompts_per_step});
  const BufferCalls calls{.submit = [&](const std::vector<GroupSpec>& groups) { run.buffer.submit(groups); },
                          .lease = wait_for,
                          .release = [&](const std::string& lease_id) { run.buffer.release(lease_id); }};
  return lease_informative(calls, request, rl.refills, [&](size_t index) {
    return group_at(run.config, *problems.another(step, index), {step, index});
  });
}

// The engines get the weights that the trainer has. Version 1 is what RL starts from, 0 the base model. A file that
// does not hold what the trainer wrote is written again.
void install(RunContext& run) {
  const int64_t version = 1 + run.trainer.steps();
  if (!run.engines.wants(version)) return;  // it catches up with what the engines serve already
  const auto attempt = [&]() -> Result<size_t> {
    try {
      return run.engines.install(run.trainer.publish(version)).size();
    } catch (const RolledBack&) {
      throw;
    } catch (const Error& error) {
      return error;
    }
  };
  const auto again = [n = 0](const Error& error) mutable {
    const bool damaged = error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kNotFound;
    return damaged && ++n < 3;
  };
  const auto note = [](const Error& error, double) { log::warn("{}; the weights are published again", error.what()); };
  net::retry<size_t>("the new weights", Deadline::after(600), attempt, {.again = again, .on_pause = note}).value();
}

std::vector<std::string> urls_of(const Engines& engines) {
  std::vector<std::string> urls = engines.external();
  for (const Role& own : engines.own()) urls.push_back(own.url());
  return urls;
}

// One step: submit -> lease -> step -> install -> record.
class RlStepper {
 public:
  explicit RlStepper(RunContext& run)
      : run_(run),
        problems_(run.config),
        validation_(run),
        idle_(urls_of(run.engines), run.config.evaluates() ? run.evaluator.url() : ""),
        schedule_(run.config.rl.schedule()) {}

  // After the record, so that what a later start finds unfinished is of the weights of the last recorded step.
  void validate(int64_t step) { validation_.after_step(step); }
  void finish() { validation_.finish(); }

  void take(int64_t step) {
    const auto& rl = run_.config.rl;
    run_.record.set_progress("rl", step - 1, rl.steps);
    const auto start = Clock::now();
    if (rl.updated(step - 1) == run_.trainer.steps()) install(run_);  // an engine that was late may have failed since
    // Submit what may be generated by now, and wait for this step's groups. The buffer knows those of an earlier start.
    const GroupRange under_way = schedule_.unfinished(step);
    submitted_ = std::max(submitted_, under_way.begin);
    run_.buffer.submit(groups_of(run_.config, problems_, {submitted_, under_way.end}));
    submitted_ = under_way.end;
    const Lease lease = lease_of(step);
    run_.buffer.require_results({lease}, fmt::format("rl step {}", step));
    const double collect_s = seconds_since(start);

    const auto train_start = Clock::now();
    if (rl.max_staleness > 0 && step < rl.steps) lease_ahead(step + 1);
    const StepResult trained = run_.trainer.step(request_of(lease, step));
    const double train_s = seconds_since(train_start);

    const auto sync_start = Clock::now();
    if (rl.updated(step) == step) install(run_);  // so it is wherever a validation is due
    const double sync_s = seconds_since(sync_start);

    const auto& sum = lease.figures;
    const std::string warning = watch_.step(sum.per_trajectory(static_cast<double>(sum.passed)),
                                            sum.per_trajectory(static_cast<double>(sum.compiled)));
    if (!warning.empty()) log::warn("rl step {}: {}", step, warning);
    if (step > run_.record.last_step("rl")) {  // else trained again after the trainer went back
      std::vector<Trajectory> transcripts;
      for (const LeasedGroup& group : lease.groups) {
        if (group.replayed) continue;  // its own step showed it
        if (!group.samples.empty()) run_.record.add_problem(group.problem_id, problems_.source_of(group.problem_id));
        transcripts.insert(transcripts.end(), group.samples.begin(), group.samples.end());
      }
      run_.record.add_transcripts(transcripts, step);
      const auto replayed = std::ranges::count(lease.groups, true, &LeasedGroup::replayed);
      run_.record.add_rl_step({trained, sum, static_cast<int64_t>(lease.dropped.size()), replayed, collect_s, train_s,
                               sync_s, seconds_since(start), warning, idle_.step(train_s)});
    }
    validate(step);
  }

 private:
  StepRequest request_of(const Lease& lease, int64_t step) const {
    return {.kind = StepKind::kRl,
            .step = step,
            .lease_id = lease.id,
            .buffer = run_.buffer.url(),
            .weight_version = step,
            .sequences = {}};
  }

  // A step's groups, which are under way, are waited for while the step before is trained, and fetched and packed by
  // the trainer as soon as they are complete. What that takes beyond the step is part of waiting for the lease.
  void lease_ahead(int64_t step) {
    ahead_.begin(step, [this, step](const std::function<void()>& check) {
      Lease lease = lease_step(run_, problems_, schedule_, step, check);
      check();
      run_.trainer.send_ahead(request_of(lease, step));
      return lease;
    });
  }
  Lease lease_of(int64_t step) {
    if (auto lease = ahead_.take(step)) return *std::move(lease);
    return lease_step(run_, problems_, schedule_, step, [] {});
  }

  RunContext& run_;
  ProblemWalk problems_;
  Validation validation_;
  LearningWatch watch_;
  IdleWatch idle_;
  const GroupSchedule schedule_;
  int64_t submitted_ = 0;  // groups of the run, from its first
  LeaseAhead ahead_;       // last: it uses all of the above
};

}  // namespace

void run_rl(RunContext& run) {
  const auto& rl = run.config.rl;
  RlStepper stepper(run);
  run.record.begin_stage("rl");
  // What is missing of groups that an earlier start submitted was to be sampled from the weights that the engines had
  // after the last step that it recorded. Until the trainer has these again, or newer ones, nothing is sampled.
  run.engines.require(1 + rl.updated(run.record.last_step("rl")));
  run.trainer.go_on([&](int64_t next) {
    install(run);
    if (next - 1 == run.record.last_step("rl")) stepper.validate(next - 1);
    for (int64_t step = run.record.first_step("rl", next); step <= rl.steps; ++step) stepper.take(step);
    run.record.set_progress("rl", rl.steps, rl.steps);
    run.trainer.finish(run.record.folder() / "models" / "rl");
    stepper.finish();
  });
}

}  // namespace tritonforge::orchestrate
