#include "rollout/turn_table.h"

namespace tritonforge::rollout {
namespace {

struct TurnRow {
  const Trajectory& trajectory;
  const Turn& turn;
  size_t index;
  bool complete() const { return index < trajectory.advantages.size(); }
};

}  // namespace

dataset::Table turn_table(const std::vector<Trajectory>& trajectories) {
  std::vector<TurnRow> rows;
  for (const Trajectory& trajectory : trajectories) {
    for (size_t i = 0; i < trajectory.turns.size(); ++i) rows.push_back({trajectory, trajectory.turns[i], i});
  }
  dataset::Table table;
  const auto column = [&]<typename List>(std::string name, List, auto value) {
    List list;
    list.reserve(rows.size());
    for (const TurnRow& row : rows) list.push_back(value(row));
    table.columns.push_back({std::move(name), std::move(list)});
  };
  using dataset::Bools, dataset::Integers, dataset::Numbers, dataset::Texts;
  using Number = std::optional<double>;
  using Bool = std::optional<bool>;
  column("trajectory_id", Texts(), [](const TurnRow& r) { return r.trajectory.id; });
  column("group_id", Texts(), [](const TurnRow& r) { return r.trajectory.group_id; });
  column("problem_id", Texts(), [](const TurnRow& r) { return r.trajectory.problem_id; });
  column("turn", Integers(), [](const TurnRow& r) { return static_cast<int64_t>(r.index); });
  column("prompt_tokens", dataset::IntegerLists(), [](const TurnRow& r) { return r.turn.prompt_tokens; });
  column("response_tokens", dataset::IntegerLists(), [](const TurnRow& r) { return r.turn.response_tokens; });
  column("log_probs", dataset::FloatLists(), [](const TurnRow& r) { return r.turn.log_probs; });
  column("weight_versions", dataset::IntegerLists(), [](const TurnRow& r) { return r.turn.weight_versions; });
  column("text", Texts(), [](const TurnRow& r) { return r.turn.text; });
  column("code", Texts(), [](const TurnRow& r) { return r.turn.code; });
  column("feedback", Texts(), [](const TurnRow& r) { return r.turn.feedback; });
  column("status", Texts(), [](const TurnRow& r) { return std::string(name_of(r.turn.status)); });
  column("reward", Numbers(), [](const TurnRow& r) { return r.turn.reward; });
  column("return", Numbers(), [](const TurnRow& r) {
    return r.index < r.trajectory.turn_returns.size() ? Number(r.trajectory.turn_returns[r.index]) : Number();
  });
  column("advantage", Numbers(),
         [](const TurnRow& r) { return r.complete() ? Number(r.trajectory.advantages[r.index]) : Number(); });
  column("carries_loss", Bools(), [](const TurnRow& r) {
    if (!r.complete()) return Bool();
    return Bool(r.trajectory.carries_loss.empty() || r.trajectory.carries_loss[r.index]);
  });
  column("temperature", Numbers(), [](const TurnRow& r) { return r.trajectory.temperature; });
  column("compiled", Bools(), [](const TurnRow& r) { return r.turn.verdict.compiled; });
  column("correct", Bools(), [](const TurnRow& r) { return r.turn.verdict.correct && !r.turn.verdict.cheated(); });
  column("fault", Texts(), [](const TurnRow& r) { return std::string(name_of(r.turn.verdict.fault)); });
  column("speedup", Numbers(), [](const TurnRow& r) {
    return r.turn.verdict.stage == Stage::kTimed ? Number(r.turn.verdict.speedup) : Number();
  });
  column("generate_s", Numbers(), [](const TurnRow& r) { return r.turn.generate_s; });
  column("evaluate_s", Numbers(), [](const TurnRow& r) { return r.turn.evaluate_s; });
  return table;
}

}  // namespace tritonforge::rollout
