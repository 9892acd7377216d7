// generate -> collect -> step -> publish. The trainer commits a lease once a checkpoint holds its step. With
// max_staleness k, the groups of step s + k are submitted before step s is trained; k = 0 is synchronous: every token
// of a step comes from the weights of the step before.
#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "base/rng.h"
#include "orchestrate/learning_watch.h"
#include "orchestrate/stages.h"

namespace tritonforge::orchestrate {
namespace {

// The problems of step s (from 1): a seeded shuffle of all problems, walked through epoch after epoch.
std::vector<const Problem*> problems_of_step(const std::vector<Problem>& problems, int64_t step, int64_t count,
                                             uint64_t seed) {
  std::vector<const Problem*> picked;
  const auto n = static_cast<int64_t>(problems.size());
  for (int64_t i = (step - 1) * count; i < step * count; ++i) {
    std::vector<size_t> order(problems.size());
    std::iota(order.begin(), order.end(), size_t{0});
    Rng rng(Rng::derive(Rng::derive(seed, "rl problems"), static_cast<uint64_t>(i / n)));
    for (size_t j = order.size(); j > 1; --j) std::swap(order[j - 1], order[rng.below(j)]);
    picked.push_back(&problems[order[static_cast<size_t>(i % n)]]);
  }
  return picked;
}

std::string group_name(int64_t step, size_t index) { return fmt::format("rl-{}-{}", step, index); }
std::string lease_name(int64_t step) { return fmt::format("rl-step-{}", step); }

void submit_step(RunContext& run, const std::vector<Problem>& problems, int64_t step) {
  const auto& rl = run.config.rl;
  const auto seed = static_cast<uint64_t>(run.config.seed);
  Json groups = Json::array();
  const auto picked = problems_of_step(problems, step, rl.prompts_per_step, seed);
  for (size_t i = 0; i < picked.size(); ++i) {
    const uint64_t group_seed = Rng::derive(Rng::derive(seed, "rl groups"), static_cast<uint64_t>(step) * 100003 + i) >>
                                1;
    groups.push_back({{"group_id", group_name(step, i)},
                      {"problem_id", picked[i]->id},
                      {"problem_source", picked[i]->source},
                      {"n_samples", rl.samples_per_prompt},
                      {"seed", group_seed}});
  }
  run.call(
      "buffer", run.buffer_url + "/v2/rollouts",
      {{"groups", groups}, {"options", to_json(run.config.rollout_request(rl.sampling, run.config.rollout.max_turns))}},
      60);
}

Json lease_step(RunContext& run, int64_t step) {
  Json ids = Json::array();
  for (int64_t i = 0; i < run.config.rl.prompts_per_step; ++i) ids.push_back(group_name(step, static_cast<size_t>(i)));
  constexpr double kPatience = 1800;  // of the slowest generation; each call waits at most a minute of it
  const Deadline deadline = Deadline::after(kPatience);
  while (true) {
    try {
      return run.call("buffer", run.buffer_url + "/v2/groups/lease",
                      {{"count", ids.size()}, {"lease_id", lease_name(step)}, {"group_ids", ids}, {"timeout_s", 30}},
                      90);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || deadline.expired()) throw;
    }
    run.supervisor->check();
  }
}

// The engines get the weights that `steps_done` RL steps made. Version 1 is what RL starts from, 0 the base model.
void publish(RunContext& run, int64_t steps_done) {
  const int64_t version = 1 + steps_done;
  const Json published = run.call("trainer", run.trainer_url + "/publish_weights",
                                  {{"version", version}, {"to", "shm"}}, 600);
  run.install_weights({published.at("path"), version, published.at("checksums")});
}

struct GroupFigures {
  double reward = 0, pass = 0, pass_first = 0, compiled = 0, turns = 0, response_tokens = 0;
  double generate_s = 0, evaluate_s = 0;
  int64_t trajectories = 0;
};

GroupFigures figures_of(RunContext& run, const Json& lease, int64_t step) {
  GroupFigures sum;
  for (const auto& group : lease.at("groups")) {
    bool recorded = false;
    for (const auto& item : group.at("trajectories")) {
      const Trajectory trajectory = trajectory_from_json(item);
      if (trajectory.turns.empty()) continue;
      ++sum.trajectories;
      sum.reward += trajectory.reward;
      sum.turns += static_cast<double>(trajectory.turns.size());
      sum.compiled += trajectory.turns.front().verdict.compiled;
      sum.pass_first += trajectory.turns.front().verdict.correct;
      sum.pass += std::any_of(trajectory.turns.begin(), trajectory.turns.end(),
                              [](const Turn& turn) { return turn.verdict.correct; });
      for (const Turn& turn : trajectory.turns) {
        sum.response_tokens += static_cast<double>(turn.response_tokens.size());
        sum.generate_s += turn.generate_s;
        sum.evaluate_s += turn.evaluate_s;
      }
      if (!recorded) {  // one of each group is kept for the page
        Json shown = item;
        shown["step"] = step;
        for (auto& turn : shown["turns"]) {
          for (const char* bulky : {"prompt_tokens", "response_tokens", "log_probs", "weight_versions"})
            turn.erase(bulky);
        }
        run.record.add_trajectory(shown);
        recorded = true;
      }
    }
  }
  return sum;
}

Json step_record(const Json& lease, const GroupFigures& sum, const Json& metrics) {
  const double n = std::max<double>(1, static_cast<double>(sum.trajectories));
  Json record = metrics;
  record.update({{"stage", "rl"},
                 {"reward_mean", sum.reward / n},
                 {"pass_rate", sum.pass / n},
                 {"pass_rate_first_turn", sum.pass_first / n},
                 {"compile_rate", sum.compiled / n},
                 {"turns_mean", sum.turns / n},
                 {"response_tokens", sum.response_tokens},
                 {"trajectories", sum.trajectories},
                 {"dropped", lease.value("dropped", Json::array()).size()},
                 {"generate_request_s", sum.generate_s},
                 {"evaluate_request_s", sum.evaluate_s}});
  return record;
}

}  // namespace

void run_rl(RunContext& run) {
  const auto& rl = run.config.rl;
  const std::vector<int> levels(rl.levels.begin(), rl.levels.end());
  const auto problems = dataset::select_problems(dataset::read_problems(resolve_path(rl.problems)), levels, {});
  const auto next_step = [&] { return run.get(run.trainer_url + "/status").at("expected_step").get<int64_t>(); };
  int64_t step = next_step();  // counted from 1, as the trainer does; above 1 after --resume
  int64_t next_submitted = step;
  publish(run, step - 1);
  LearningWatch watch;

  while (step <= rl.steps) {
    run.record.set_progress("rl", step - 1, rl.steps);
    const int64_t ahead = std::min(step + rl.max_staleness, rl.steps);
    const auto start = Clock::now();
    for (; next_submitted <= ahead; ++next_submitted) submit_step(run, problems, next_submitted);
    const Json lease = lease_step(run, step);
    const double collect_s = seconds_since(start);

    const auto train_start = Clock::now();
    const int restarts = run.supervisor->restarts("trainer");
    Json metrics;
    try {
      metrics = run.call("trainer", run.trainer_url + "/step",
                         {{"kind", "rl"}, {"step", step}, {"lease_id", lease_name(step)}, {"buffer", run.buffer_url}},
                         3600);
    } catch (const Error& error) {
      // A trainer that died went back to its last checkpoint: train the leased groups since then again, in order.
      if (run.supervisor->restarts("trainer") == restarts) throw;
      run.supervisor->wait_ready("trainer", Deadline::after(300));
      step = next_step();
      log::warn("trainer goes on with step {} ({})", step, error.what());
      publish(run, step - 1);
      continue;
    }
    const double train_s = seconds_since(train_start);

    const auto sync_start = Clock::now();
    publish(run, step);
    Json record = step_record(lease, figures_of(run, lease, step), metrics);
    record.update({{"collect_s", collect_s},
                   {"train_s", train_s},
                   {"sync_s", seconds_since(sync_start)},
                   {"seconds", seconds_since(start)}});
    if (const auto warning = watch.step(record.at("pass_rate"), record.at("compile_rate")); !warning.empty()) {
      log::warn("rl step {}: {}", step, warning);
      record["warning"] = warning;
    }
    run.record.add_step(record);
    ++step;
  }
  run.record.set_progress("rl", rl.steps, rl.steps);
  const fs::path model = run.record.folder() / "models" / "rl";
  run.call("trainer", run.trainer_url + "/save", Json::object(), 1800);
  run.call("trainer", run.trainer_url + "/export", {{"folder", model.string()}}, 1800);
}

}  // namespace tritonforge::orchestrate
