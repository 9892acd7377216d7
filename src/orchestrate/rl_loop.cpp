// submit -> lease -> step -> install. The trainer fetches the tokens of a lease from the buffer itself, and commits it
// once a checkpoint holds its step. With max_staleness k, the groups of step s + k are submitted before step s is
// trained; k = 0 is synchronous: every token of a step comes from the weights of the step before.
#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "base/rng.h"
#include "dataset/problem.h"
#include "orchestrate/dynamic_sampling.h"
#include "orchestrate/learning_watch.h"
#include "orchestrate/stages.h"
#include "orchestrate/validation.h"

namespace tritonforge::orchestrate {
namespace {

// A seeded shuffle of all problems, walked through epoch after epoch: step s (from 1) takes the next of them.
class ProblemWalk {
 public:
  explicit ProblemWalk(const RecipeConfig& config)
      : problems_(problems_of(config.rl)),
        seed_(Rng::derive(static_cast<uint64_t>(config.seed), "rl problems")),
        order_(problems_.size()) {}

  std::vector<const Problem*> of_step(int64_t step, int64_t count) {
    std::vector<const Problem*> picked;
    const auto n = static_cast<int64_t>(problems_.size());
    for (int64_t i = (step - 1) * count; i < step * count; ++i) {
      if (i / n != epoch_) shuffle(i / n);
      picked.push_back(&problems_[order_[static_cast<size_t>(i % n)]]);
    }
    return picked;
  }
  // For a group that is added to a step: any of them.
  const Problem* another(int64_t step, size_t index) const {
    const uint64_t draw = Rng::derive(Rng::derive(seed_, "refills"), static_cast<uint64_t>(step) * 100003 + index);
    return &problems_[draw % problems_.size()];
  }

 private:
  static std::vector<Problem> problems_of(const RlSection& rl) {
    const std::vector<int> levels(rl.levels.begin(), rl.levels.end());
    auto problems = dataset::select_problems(dataset::read_problems(resolve_path(rl.problems)), levels, {});
    if (problems.empty())
      fail(ErrorKind::kUsage, "rl.problems: nothing is left of {} after the level filter", rl.problems);
    return problems;
  }

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

std::string group_name(int64_t step, size_t index) { return fmt::format("rl-{}-{}", step, index); }

GroupSpec group_of_step(const RecipeConfig& config, const Problem& problem, int64_t step, size_t index) {
  const auto seed = static_cast<uint64_t>(config.seed);
  GroupSpec group;
  group.id = group_name(step, index);
  group.problem_id = problem.id;
  group.problem_source = problem.source;
  group.n_samples = config.rl.samples_per_prompt;
  group.seed = Rng::derive(Rng::derive(seed, "rl groups"), static_cast<uint64_t>(step) * 100003 + index) >> 1;
  group.options = config.rollout_request(config.rl.sampling, config.rollout.max_turns);
  return group;
}

std::vector<GroupSpec> groups_of_step(const RecipeConfig& config, ProblemWalk& problems, int64_t step) {
  std::vector<GroupSpec> groups;
  for (const Problem* problem : problems.of_step(step, config.rl.prompts_per_step))
    groups.push_back(group_of_step(config, *problem, step, groups.size()));
  return groups;
}

LeaseRequest lease_of_step(const RlSection& rl, int64_t step) {
  LeaseRequest request;
  request.lease_id = fmt::format("rl-step-{}", step);
  request.count = rl.prompts_per_step;
  for (int64_t i = 0; i < rl.prompts_per_step; ++i)
    request.group_ids.push_back(group_name(step, static_cast<size_t>(i)));
  return request;
}

// Waits for the groups of a step, and for those that replace what teaches nothing.
Lease lease_step(const RunContext& run, const ProblemWalk& problems, int64_t step) {
  const BufferCalls calls{.submit = [&](const std::vector<GroupSpec>& groups) { run.buffer.submit(groups); },
                          .lease = [&](const LeaseRequest& request) { return run.buffer.lease(request); },
                          .release = [&](const std::string& lease_id) { run.buffer.release(lease_id); }};
  return lease_informative(calls, lease_of_step(run.config.rl, step), run.config.rl.refills, [&](size_t index) {
    return group_of_step(run.config, *problems.another(step, index), step, index);
  });
}

// The engines get the weights that `steps_done` RL steps made. Version 1 is what RL starts from, 0 the base model.
void install(RunContext& run, int64_t steps_done) { run.engines.install(run.trainer.publish(1 + steps_done)); }

}  // namespace

void run_rl(RunContext& run) {
  const auto& rl = run.config.rl;
  ProblemWalk problems(run.config);
  Validation validation(run);
  LearningWatch watch;
  int64_t step = run.trainer.status().step + 1;  // above 1 after --resume
  int64_t next_submitted = step;
  install(run, step - 1);
  validation.after_step(step - 1);

  while (step <= rl.steps) {
    run.record.set_progress("rl", step - 1, rl.steps);
    const auto start = Clock::now();
    // Submit what may be generated by now, and wait for this step's groups.
    for (; next_submitted <= std::min(step + rl.max_staleness, rl.steps); ++next_submitted)
      run.buffer.submit(groups_of_step(run.config, problems, next_submitted));
    const Lease lease = lease_step(run, problems, step);
    const double collect_s = seconds_since(start);

    // Step. A trainer that died is at an older one: the leases since then are trained again, in order.
    const auto train_start = Clock::now();
    const auto outcome = run.trainer.step({StepKind::kRl, step, lease.id, run.buffer.url(), {}});
    if (const auto* back = std::get_if<RolledBack>(&outcome)) {
      log::warn("trainer goes on with step {} ({})", back->next_step, back->cause);
      step = back->next_step;
      install(run, step - 1);
      continue;
    }
    const double train_s = seconds_since(train_start);

    // Install what the step made on every engine.
    const auto sync_start = Clock::now();
    install(run, step);
    const double sync_s = seconds_since(sync_start);

    // Record.
    const auto& sum = lease.figures;
    const std::string warning = watch.step(sum.per_trajectory(static_cast<double>(sum.passed)),
                                           sum.per_trajectory(static_cast<double>(sum.compiled)));
    if (!warning.empty()) log::warn("rl step {}: {}", step, warning);
    for (const LeasedGroup& group : lease.groups) {
      for (const Trajectory& sample : group.samples) run.record.add_transcript(sample, step);
    }
    validation.after_step(step);
    run.record.add_rl_step({std::get<StepResult>(outcome), sum, static_cast<int64_t>(lease.dropped.size()), collect_s,
                            train_s, sync_s, seconds_since(start), warning});
    ++step;
  }
  run.record.set_progress("rl", rl.steps, rl.steps);
  run.trainer.save();
  run.trainer.export_model(run.record.folder() / "models" / "rl");
  validation.finish();
}

}  // namespace tritonforge::orchestrate
