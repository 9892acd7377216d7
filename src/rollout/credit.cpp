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
    }
  }
  return out;
}

struct Place {
  size_t trajectory, turn;
};

}  // namespace

std::vector<double> turn_returns(const std::vector<TurnReward>& turns, Credit credit, double gamma) {
  std::vector<double> returns(turns.size(), 0.0);
  if (credit == Credit::kTrajectory) {
    double total = 0, weight = 1;
    for (const TurnReward& turn : turns) {
      if (turn.counted) total += weight * turn.reward;
      weight *= gamma;
    }
    for (size_t t = 0; t < turns.size(); ++t) returns[t] = turns[t].counted ? total : 0.0;
    return returns;
  }
  double later = 0;
  bool any_later = false;
  for (size_t t = turns.size(); t-- > 0;) {
    if (!turns[t].counted) {
      later *= credit == Credit::kPerTurn ? gamma : 1.0;
      continue;
    }
    if (credit == Credit::kPerTurn) {
      later = turns[t].reward + gamma * later;
    } else {
      later = any_later ? std::max(turns[t].reward, later) : turns[t].reward;
    }
    any_later = true;
    returns[t] = later;
  }
  return returns;
}

GroupAdvantages group_advantages(const std::vector<std::vector<TurnReturn>>& returns, Credit credit,
                                 Advantage advantage) {
  GroupAdvantages result;
  std::vector<Place> counted;
  size_t max_turns = 0;
  for (size_t i = 0; i < returns.size(); ++i) {
    result.advantages.emplace_back(returns[i].size(), 0.0);
    max_turns = std::max(max_turns, returns[i].size());
    for (size_t t = 0; t < returns[i].size(); ++t) {
      if (returns[i][t].counted) counted.push_back({i, t});
    }
  }
  if (counted.empty()) {
    result.reason = "all_failed";
    return result;
  }
  const auto value = [&](Place p) { return returns[p.trajectory][p.turn].value; };
  const auto values = [&](const std::vector<Place>& places) {
    std::vector<double> out;
    for (Place p : places) out.push_back(value(p));
    return out;
  };
  const auto set = [&](Place p, double a) { result.advantages[p.trajectory][p.turn] = a; };

  if (credit == Credit::kTrajectory) {
    std::vector<Place> firsts;  // one value a trajectory: all of its turns carry the same
    for (Place p : counted) {
      if (firsts.empty() || firsts.back().trajectory != p.trajectory) firsts.push_back(p);
    }
    const auto advantages = against_group(values(firsts), advantage);
    for (size_t i = 0; i < firsts.size(); ++i) {
      for (Place p : counted) {
        if (p.trajectory == firsts[i].trajectory) set(p, advantages[i]);
      }
    }
  } else {
    const auto whole = against_group(values(counted), advantage);
    for (size_t t = 0; t < max_turns; ++t) {
      std::vector<Place> row;
      for (Place p : counted) {
        if (p.turn == t) row.push_back(p);
      }
      const auto advantages = against_group(values(row), advantage);
      for (size_t i = 0; i < row.size(); ++i) set(row[i], advantages[i]);
      if (row.size() != 1) continue;
      for (size_t i = 0; i < counted.size(); ++i) {
        if (counted[i].trajectory == row[0].trajectory && counted[i].turn == t) set(row[0], whole[i]);
      }
    }
  }
  const bool any = std::any_of(counted.begin(), counted.end(),
                               [&](Place p) { return result.advantages[p.trajectory][p.turn] != 0; });
  if (!any) result.reason = "zero_variance";
  return result;
}

}  // namespace tritonforge::rollout
