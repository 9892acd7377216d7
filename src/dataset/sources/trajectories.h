#pragma once
// Rejection sampling: what a model of an earlier run said and the evaluator accepted.
#include "dataset/sources/source.h"

namespace tritonforge::dataset {

enum class TakenTurns { kBest, kRepairs, kBoth };
constexpr std::array<std::string_view, 3> names_of(TakenTurns) { return {"best", "repairs", "both"}; }

struct TrajectoryOptions {
  std::string path;
  TakenTurns take = TakenTurns::kBoth;
  int64_t max_turns = 3;
  template <typename V>
  void describe(V& v) {
    v("path", path, required(), "a run's folder, or its buffer.sqlite");
    v("take", take, "best: the best accepted turn as the first answer; repairs: refused turns up to the accepted one");
    v("max_turns", max_turns, in(1, 16), "longest repair: the last so many turns up to the accepted one");
  }
};

// The rows of one trajectory: the accepted turn with the largest speedup (of equals the first), and where it was
// refused before, the whole repair. None where no turn was accepted.
std::vector<Row> rows_of(const PastTrajectory& trajectory, const TrajectoryOptions& options);

std::unique_ptr<Source> make_trajectories(const TrajectoryOptions& options, const SourceTools& tools);

}  // namespace tritonforge::dataset
