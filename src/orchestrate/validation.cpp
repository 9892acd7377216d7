#include "orchestrate/validation.h"

#include "base/filesystem.h"
#include "base/line_tail.h"
#include "base/log.h"
#include "base/rng.h"
#include "orchestrate/inputs.h"

namespace tritonforge::orchestrate {
namespace {

fs::path file_of(const fs::path& run) { return run / "validation.jsonl"; }
fs::path model_of(const RunContext& run, const char* name) { return run.record.folder() / "models" / name; }

struct Measured {
  int64_t last = -1;  // step
  std::optional<ValidationScore> best;
};
// A measurement whose line was cut off by a crash is made again.
Measured measured_in(const fs::path& run) {
  Measured measured;
  for (const std::string& line : LineTail(file_of(run)).poll()) {
    const Json json = parse_json(line, file_of(run).string());
    measured.last = json.at("step");
    if (json.at("best").get<bool>()) measured.best = {measured.last, json.at("pass_rate").get<double>()};
  }
  return measured;
}

// On the disk when it returns.
void copy_durably(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(to)) fsync_path(entry.path());
  fsync_path(to);
}

}  // namespace

Validation::Validation(RunContext& run) : run_(run) {
  if (run.config.rl.validation.every == 0) return;
  problems_ = validation_problems(run.config);
  const Measured measured = measured_in(run.record.folder());
  measured_ = measured.last;
  best_ = measured.best;
}

RolloutFigures Validation::measure(int64_t step) {
  const auto& config = run_.config;
  const uint64_t seed = Rng::derive(static_cast<uint64_t>(config.seed), "rl validation");
  std::vector<GroupSpec> groups;
  LeaseRequest request{.lease_id = fmt::format("validation-{}", step), .group_ids = {}, .samples = 0};
  for (size_t i = 0; i < problems_.size(); ++i) {
    GroupSpec& group = groups.emplace_back();
    group.id = fmt::format("validation-{}-{}", step, i);
    group.problem_id = problems_[i].id;
    group.problem_source = problems_[i].source;
    group.n_samples = config.rl.validation.samples;
    group.seed = Rng::derive(seed, i) >> 1;  // the same draws after every step
    group.options = config.rollout_request(config.rl.sampling, config.rollout.max_turns);
    group.options.priority = Priority::kEvaluation;
    request.group_ids.push_back(group.id);
  }
  request.count = static_cast<int64_t>(groups.size());
  run_.buffer.submit(groups);
  const Lease lease = run_.buffer.lease(request);
  run_.buffer.require_results({lease}, fmt::format("validation after rl step {}", step));
  return lease.figures;
}

bool Validation::due(int64_t step) const {
  const auto& rl = run_.config.rl;
  return rl.validation.every > 0 && (step % rl.validation.every == 0 || step == rl.steps);
}

void Validation::after_step(int64_t step) {
  if (!due(step) || step <= measured_) return;
  const RolloutFigures figures = measure(step);
  const double pass_rate = figures.per_trajectory(static_cast<double>(figures.passed));
  const bool best = figures.judged() > 0 && (!best_ || pass_rate > best_->pass_rate);
  // The line comes last: a step that has one is done with, whatever was not done by then.
  if (best) {
    run_.trainer.export_model(model_of(run_, "best"));
    best_ = {step, pass_rate};
  }
  run_.buffer.commit(fmt::format("validation-{}", step), step);
  measured_ = step;
  const Json line = {{"step", step},
                     {"pass_rate", pass_rate},
                     {"reward_mean", figures.per_trajectory(figures.reward)},
                     {"samples", figures.judged()},
                     {"failed", figures.failed},
                     {"best", best}};
  append_line_durable(file_of(run_.record.folder()), line.dump());
  log::info("rl step {}: {:.1f} % of {} held-out samples pass{}", step, 100 * pass_rate, figures.judged(),
            best ? ", the best so far" : "");
}

void Validation::finish() {
  if (!best_ || best_->step == run_.config.rl.steps) return;
  log::info("models/rl is that of step {}, the best on held-out problems; the last one is models/rl-last", best_->step);
  put_best_in_place(run_.record.folder() / "models");
}

std::optional<int64_t> earlier_best_step(const RecipeConfig& config, const fs::path& run) {
  if (!config.has_stage("rl") || config.rl.validation.every == 0) return std::nullopt;
  const auto best = measured_in(run).best;
  return best && best->step != config.rl.steps ? std::optional(best->step) : std::nullopt;
}

void put_best_in_place(const fs::path& models) {
  const fs::path fresh = models / "rl.tmp", last = models / "rl-last";
  fs::remove_all(fresh);  // of a start that was killed
  copy_durably(models / "best", fresh);
  put_in_place(fresh, models / "rl");
  fs::remove_all(last);
  fs::rename(fresh, last);
  fsync_path(models);
}

}  // namespace tritonforge::orchestrate
