#include "rollout/credit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tritonforge::rollout {
namespace {

constexpr double kStdEpsilon = 1e-6;
// Returns that differ by less are equal: differences of rounding must not become advantages of 1.
constexpr double kEqual = 1e-9;

bool all_equal(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return values.empty() || *high - *low <= kEqual;
}

// The advantage of each value against all of them.
std::vector<double> against_group(const std::vector<double>& values, Advantage advantage) {
  if (advantage == Advantage::kNone) return values;
  std::vector<double> out(values.size(), 0.0);
  if (all_equal(values)) return out;
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (double v : values) sum += v;
  const double mean = sum / n;
  for (double v : values) squares += (v - mean) * (v - mean);
  const double std = std::sqrt(squares / n);
  for (size_t i = 0; i < values.size(); ++i) {
    switch (advantage) {
      case Advantage::kGrpo: out[i] = (values[i] - mean) / (std + kStdEpsilon); break;
      case Advantage::kGrpoNoStd: out[i] = values[i] - mean; break;
      case Advantage::kRloo: out[i] = values[i] - (sum - values[i]) / (n - 1); break;
      case Advantage::kNone: break;
    }
  }
  return out;
}

}  // namespace

std::vector<double> turn_returns(const std::vector<double>& rewards, Credit credit, double gamma) {
  std::vector<double> returns = rewards;
  for (size_t t = rewards.size(); t-- > 1;) {
    double& earlier = returns[t - 1];
    earlier = credit == Credit::kBestTurn ? std::max(earlier, returns[t]) : earlier + gamma * returns[t];
  }
  if (credit == Credit::kTrajectory && !returns.empty()) returns.assign(returns.size(), returns[0]);
  return returns;
}

GroupAdvantages group_advantages(const std::vector<TrajectoryReturns>& returns, Credit credit, Advantage advantage) {
  GroupAdvantages result;
  size_t max_turns = 0, known = 0;
  for (const TrajectoryReturns& trajectory : returns) {
    result.advantages.emplace_back(trajectory.turns.size(), 0.0);
    result.compared.emplace_back(trajectory.turns.size(), false);
    if (!trajectory.known || trajectory.turns.empty()) continue;
    max_turns = std::max(max_turns, trajectory.turns.size());
    ++known;
  }
  if (known == 0) {
    result.reason = "all_failed";
    return result;
  }
  // With trajectory credit all turns carry the first one's.
  const bool whole = credit == Credit::kTrajectory;
  const size_t enough = advantage == Advantage::kNone ? 1 : std::min(kEnough, returns.size());
  bool any_compared = false, any_learned = advantage == Advantage::kNone;
  for (size_t turn = 0; turn < (whole ? 1 : max_turns); ++turn) {
    std::vector<size_t> row;
    std::vector<double> values;
    for (size_t i = 0; i < returns.size(); ++i) {
      if (!returns[i].known || returns[i].turns.size() <= turn) continue;
      row.push_back(i);
      values.push_back(returns[i].turns[turn]);
    }
    if (row.size() < enough) continue;
    any_compared = true;
    const auto advantages = against_group(values, advantage);
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t end = whole ? returns[row[i]].turns.size() : turn + 1;
      for (size_t t = turn; t < end; ++t) {
        result.advantages[row[i]][t] = advantages[i];
        result.compared[row[i]][t] = true;
      }
      any_learned |= advantages[i] != 0;
    }
  }
  if (!any_learned) result.reason = any_compared ? "zero_variance" : "too_few";
  return result;
}

}  // namespace tritonforge::rollout
