#include "rollout/reward.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "rollout/expression.h"

namespace tritonforge::rollout {
namespace {

double seed_reward(const Verdict& verdict, double speedup) {
  if (!verdict.compiled) return -0.1;
  const double clipped = speedup > 0 ? std::clamp(speedup, kLeastSpeedup, kMostSpeedup) : 1.0;
  return 0.3 + (verdict.correct ? 0.5 : 0.0) + 0.2 * std::log(clipped);
}

double tritonforge_code_reward(const Verdict& verdict, double speedup) {
  if (!verdict.compiled) return 0;
  return verdict.correct ? 0.3 + std::clamp(speedup - 1, 0.0, 2.0) : 0.1;
}

double kevin_reward(const Verdict& verdict, double speedup) {
  return verdict.correct ? 0.3 + std::min(speedup, kMostSpeedup) : 0;
}

double drkernel_graded_reward(const Verdict& verdict, double speedup) {
  if (!verdict.compiled) return -0.5;
  if (!verdict.correct) return -0.3;
  if (speedup <= 1.0) return -0.1;
  if (speedup < 1.2) return 0.2;
  if (speedup < 1.5) return 0.4;
  if (speedup < 2.0) return 0.6;
  return speedup < 3.0 ? 0.8 : 1.0;
}

double staged_reward(const Verdict& verdict, double speedup) {
  switch (verdict.stage) {
    case Stage::kNone: return 0;
    case Stage::kExtracted: return 0.05;
    case Stage::kParsed: return 0.1;
    case Stage::kImported: return 0.15;
    case Stage::kCompiled: return 0.3;
    case Stage::kLaunched: return 0.4;
    case Stage::kCorrect: return 0.8;
    case Stage::kTimed: return 0.8 + (speedup > 0 ? 0.2 * std::clamp(std::log2(speedup), -1.0, 2.0) : 0.0);
  }
  return 0;
}

using RewardFunction = double (*)(const Verdict&, double);
constexpr std::pair<std::string_view, RewardFunction> kRewards[] = {{"seed", seed_reward},
                                                                    {"tritonforge_code", tritonforge_code_reward},
                                                                    {"kevin", kevin_reward},
                                                                    {"drkernel_graded", drkernel_graded_reward},
                                                                    {"staged", staged_reward}};

const std::vector<std::string>& variables() {
  static const std::vector<std::string> names = {"stage",   "compiled",  "correct", "timed",
                                                 "speedup", "own_share", "flags",   "kernels"};
  return names;
}

std::vector<double> values_of(const Verdict& verdict, double speedup) {
  return {static_cast<double>(verdict.stage),
          verdict.compiled ? 1.0 : 0.0,
          verdict.correct ? 1.0 : 0.0,
          speedup > 0 ? 1.0 : 0.0,
          speedup,
          verdict.own_share.value_or(0),
          static_cast<double>(verdict.flags.size()),
          static_cast<double>(verdict.kernels.size())};
}

Verdict honest(Stage stage) {
  Verdict verdict;
  verdict.stage = stage;
  verdict.compiled = stage >= Stage::kCompiled;
  verdict.correct = stage >= Stage::kCorrect;
  return verdict;
}

template <typename Function>
double worst_failure(const Function& function) {
  double worst = function(honest(Stage::kNone), 0);
  for (Stage stage : {Stage::kExtracted, Stage::kParsed, Stage::kImported, Stage::kCompiled, Stage::kLaunched}) {
    worst = std::min(worst, function(honest(stage), 0));
  }
  return worst;
}

// An expression must be a number for every kind of verdict before a run begins, not in the middle of it.
template <typename Function>
void probe(const std::string& text, const Function& function) {
  const auto check = [&](const Verdict& verdict, double speedup, const std::string& where) {
    if (!std::isfinite(function(verdict, speedup))) {
      fail(ErrorKind::kUsage, "reward expression '{}' is not a finite number {}; use if(timed, ..., 0)", text, where);
    }
  };
  for (int stage = 0; stage <= static_cast<int>(Stage::kCorrect); ++stage) {
    const auto at = static_cast<Stage>(stage);
    check(honest(at), 0, fmt::format("where the last stage is '{}'", name_of(at)));
  }
  for (const double speedup : {1e-3, 0.5, 1.0, 2.0, 1e3})
    check(honest(Stage::kTimed), speedup, fmt::format("where the speedup is {}", speedup));
  for (const double share : {1e-3, 1.0}) {
    Verdict verdict = honest(Stage::kCorrect);
    verdict.own_share = share;
    check(verdict, 0, fmt::format("where own_share is {}", share));
  }
}

bool is_plain_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalpha(c) != 0 || c == '_' || c == '-'; });
}

}  // namespace

Reward::Reward(std::string name, Function function, double speed_resolution)
    : name_(std::move(name)),
      function_(std::move(function)),
      speed_resolution_(speed_resolution),
      worst_honest_failure_(worst_failure(function_)) {}

Reward Reward::named(std::string_view name_or_expression, double speed_resolution) {
  const std::string name(name_or_expression);
  for (const auto& [known, function] : kRewards) {
    if (known == name) return Reward(name, function, speed_resolution);
  }
  const bool is_variable = std::find(variables().begin(), variables().end(), name) != variables().end();
  if (name.empty() || (is_plain_word(name) && !is_variable)) {
    fail(ErrorKind::kUsage, "unknown reward '{}'{}", name, nearest_hint(name, reward_names()));
  }
  const auto expression = std::make_shared<const Expression>(name, variables());
  const auto function = [expression](const Verdict& verdict, double speedup) {
    return expression->evaluate(values_of(verdict, speedup));
  };
  probe(name, function);
  return Reward(name, function, speed_resolution);
}

double Reward::speedup_of(const Verdict& verdict) const {
  if (!(verdict.stage == Stage::kTimed && verdict.correct && verdict.speedup > 0)) return 0;
  return std::abs(std::log(verdict.speedup)) <= speed_resolution_ ? 1 : verdict.speedup;
}

double Reward::operator()(const Verdict& verdict) const {
  const double value = function_(verdict, speedup_of(verdict));
  if (!std::isfinite(value))
    fail(ErrorKind::kUsage, "reward '{}' is not a finite number for a verdict of stage '{}'", name_,
         name_of(verdict.stage));
  return verdict.cheated() ? std::min(value, worst_honest_failure_) : value;
}

double overlong_penalty(int64_t tokens, int64_t longest, int64_t cache) {
  const double over = static_cast<double>(tokens - (longest - cache)) / static_cast<double>(cache);
  return -std::clamp(over, 0.0, 1.0);
}

std::vector<std::string> reward_names() {
  std::vector<std::string> names;
  for (const auto& entry : kRewards) names.emplace_back(entry.first);
  return names;
}

}  // namespace tritonforge::rollout
