#include "dataset/sources/trajectories.h"

#include <deque>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

Row row_of(const PastTrajectory& trajectory, const PastTrajectory::PastTurn& turn) {
  Row row;
  row.problem = trajectory.problem;
  row.opening = trajectory.opening;
  row.name = trajectory.problem_id;
  row.solution = turn.code;
  row.answer = turn.text;
  row.verdict = turn.verdict;
  return row;
}

class Trajectories : public Source {
 public:
  Trajectories(const TrajectoryOptions& options, std::unique_ptr<PastTrajectories> run)
      : options_(options), run_(std::move(run)) {}

  std::vector<fs::path> files() const override { return {}; }
  std::optional<Row> next() override {
    while (rows_.empty()) {
      const auto trajectory = run_->next();
      if (!trajectory) return std::nullopt;
      ++count_;
      for (Row& row : rows_of(*trajectory, options_)) {
        row.place = fmt::format("{} trajectory {}", options_.path, count_);
        rows_.push_back(std::move(row));
      }
    }
    Row row = std::move(rows_.front());
    rows_.pop_front();
    return row;
  }

 private:
  TrajectoryOptions options_;
  std::unique_ptr<PastTrajectories> run_;
  std::deque<Row> rows_;
  int64_t count_ = 0;
};

}  // namespace

std::vector<Row> rows_of(const PastTrajectory& trajectory, const TrajectoryOptions& options) {
  const auto& turns = trajectory.turns;
  size_t best = turns.size(), first = turns.size();
  for (size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i].verdict.correct || turns[i].verdict.cheated()) continue;
    if (first == turns.size()) first = i;
    if (best == turns.size() || turns[i].verdict.speedup > turns[best].verdict.speedup) best = i;
  }
  std::vector<Row> rows;
  if (best == turns.size()) return rows;
  if (options.take != TakenTurns::kRepairs) rows.push_back(row_of(trajectory, turns[best]));
  if (options.take != TakenTurns::kBest && first > 0) {
    Row repair = row_of(trajectory, turns[first]);
    const size_t kept = std::min(first, static_cast<size_t>(options.max_turns - 1));
    for (size_t i = first - kept; i < first; ++i)
      repair.attempts.push_back({turns[i].code, turns[i].text, turns[i].feedback});
    rows.push_back(std::move(repair));
  }
  return rows;
}

std::unique_ptr<Source> make_trajectories(const TrajectoryOptions& options, const SourceTools& tools) {
  TF_CHECK(tools.open_run, "nobody can open a run here");
  return std::make_unique<Trajectories>(options, tools.open_run(options.path));
}

}  // namespace tritonforge::dataset
