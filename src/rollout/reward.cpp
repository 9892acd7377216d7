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

bool timed(const Verdict& verdict) { return verdict.stage == Stage::kTimed && verdict.correct && verdict.speedup > 0; }

double seed_reward(const Verdict& verdict) {
  if (!verdict.compiled) return -0.1;
  const double speedup = timed(verdict) ? std::clamp(verdict.speedup, kLeastSpeedup, kMostSpeedup) : 1.0;
  return 0.3 + (verdict.correct ? 0.5 : 0.0) + 0.2 * std::log(speedup);
}

double tritonforge_code_reward(const Verdict& verdict) {
  if (!verdict.compiled) return 0;
  if (!verdict.correct) return 0.1;
  return 0.3 + (timed(verdict) ? std::clamp(verdict.speedup - 1, 0.0, 2.0) : 0.0);
}

double kevin_reward(const Verdict& verdict) {
  if (!verdict.correct) return 0;
  return 0.3 + (timed(verdict) ? verdict.speedup : 0.0);
}

double drkernel_graded_reward(const Verdict& verdict) {
  if (!verdict.compiled) return -0.5;
  if (!verdict.correct) return -0.3;
  if (!timed(verdict) || verdict.speedup < 1.0) return -0.1;
  if (verdict.speedup < 1.2) return 0.2;
  if (verdict.speedup < 1.5) return 0.4;
  if (verdict.speedup < 2.0) return 0.6;
  return verdict.speedup < 3.0 ? 0.8 : 1.0;
}

double staged_reward(const Verdict& verdict) {
  switch (verdict.stage) {
    case Stage::kNone: return 0;
    case Stage::kExtracted: return 0.05;
    case Stage::kParsed: return 0.1;
    case Stage::kImported: return 0.15;
    case Stage::kCompiled: return 0.3;
    case Stage::kLaunched: return 0.4;
    case Stage::kCorrect: return 0.8;
    case Stage::kTimed: return 0.8 + (timed(verdict) ? 0.2 * std::clamp(std::log2(verdict.speedup), -1.0, 2.0) : 0.0);
  }
  return 0;
}

using RewardFunction = double (*)(const Verdict&);
constexpr std::pair<std::string_view, RewardFunction> kRewards[] = {{"seed", seed_reward},
                                                                    {"tritonforge_code", tritonforge_code_reward},
                                                                    {"kevin", kevin_reward},
                                                                    {"drkernel_graded", drkernel_graded_reward},
                                                                    {"staged", staged_reward}};

const std::vector<std::string>& variables() {
  static const std::vector<std::string> names = {"stage",   "compiled", "correct", "timed",
                                                 "speedup", "flags",    "kernels"};
  return names;
}

std::vector<double> values_of(const Verdict& verdict) {
  return {static_cast<double>(verdict.stage),
          verdict.compiled ? 1.0 : 0.0,
          verdict.correct ? 1.0 : 0.0,
          timed(verdict) ? 1.0 : 0.0,
          timed(verdict) ? verdict.speedup : 0.0,
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

double worst_failure(const std::function<double(const Verdict&)>& function) {
  double worst = function(honest(Stage::kNone));
  for (Stage stage : {Stage::kExtracted, Stage::kParsed, Stage::kImported, Stage::kCompiled, Stage::kLaunched}) {
    worst = std::min(worst, function(honest(stage)));
  }
  return worst;
}

// An expression must be a number for every kind of verdict before a run begins, not in the middle of it.
void probe(const std::string& text, const std::function<double(const Verdict&)>& function) {
  const auto check = [&](const Verdict& verdict, const std::string& where) {
    if (!std::isfinite(function(verdict))) {
      fail(ErrorKind::kUsage, "reward expression '{}' is not a finite number {}; use if(timed, ..., 0)", text, where);
    }
  };
  for (int stage = 0; stage <= static_cast<int>(Stage::kCorrect); ++stage) {
    const auto at = static_cast<Stage>(stage);
    check(honest(at), fmt::format("where the last stage is '{}'", name_of(at)));
  }
  for (double speedup : {1e-3, 0.5, 1.0, 2.0, 1e3}) {
    Verdict verdict = honest(Stage::kTimed);
    verdict.speedup = speedup;
    check(verdict, fmt::format("where the speedup is {}", speedup));
  }
}

bool is_plain_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalpha(c) != 0 || c == '_' || c == '-'; });
}

}  // namespace

Reward::Reward(std::string name, std::function<double(const Verdict&)> function)
    : name_(std::move(name)), function_(std::move(function)), worst_honest_failure_(worst_failure(function_)) {}

Reward Reward::named(std::string_view name_or_expression) {
  const std::string name(name_or_expression);
  for (const auto& [known, function] : kRewards) {
    if (known == name) return Reward(name, function);
  }
  const bool is_variable = std::find(variables().begin(), variables().end(), name) != variables().end();
  if (name.empty() || (is_plain_word(name) && !is_variable)) {
    fail(ErrorKind::kUsage, "unknown reward '{}'{}", name, nearest_hint(name, reward_names()));
  }
  const auto expression = std::make_shared<const Expression>(name, variables());
  const auto function = [expression](const Verdict& verdict) { return expression->evaluate(values_of(verdict)); };
  probe(name, function);
  return Reward(name, function);
}

double Reward::operator()(const Verdict& verdict) const {
  const double value = function_(verdict);
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
