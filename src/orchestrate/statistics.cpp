#include "orchestrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::orchestrate {
namespace {

constexpr int kRounds = 4000;

Interval percentiles95(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[kRounds * 25 / 1000], values[kRounds * 975 / 1000 - 1]};
}

// Means of `values` with whole clusters drawn anew, one a round.
std::vector<double> resampled_means(const std::vector<std::vector<double>>& values, uint64_t seed) {
  std::vector<double> sums, counts;
  for (const auto& cluster : values) {
    if (cluster.empty()) continue;
    sums.push_back(std::accumulate(cluster.begin(), cluster.end(), 0.0));
    counts.push_back(static_cast<double>(cluster.size()));
  }
  std::vector<double> means(kRounds);
  Rng rng(Rng::derive(seed, "cluster_bootstrap95"));
  for (double& mean : means) {
    double sum = 0, count = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t pick = rng.below(sums.size());
      sum += sums[pick];
      count += counts[pick];
    }
    mean = sum / count;
  }
  return means;
}

std::vector<double> resampled_medians(const std::vector<std::vector<double>>& values, uint64_t seed) {
  std::vector<double> medians(kRounds);
  Rng rng(Rng::derive(seed, "cluster_bootstrap95 of the median"));
  for (double& middle : medians) {
    std::vector<double> drawn;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& cluster = values[rng.below(values.size())];
      drawn.insert(drawn.end(), cluster.begin(), cluster.end());
    }
    middle = median(std::move(drawn));
  }
  return medians;
}

std::vector<double> joined(const std::vector<std::vector<double>>& values) {
  std::vector<double> all;
  for (const auto& cluster : values) all.insert(all.end(), cluster.begin(), cluster.end());
  return all;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Estimate share(const std::vector<std::vector<double>>& values, uint64_t seed) {
  return {mean(joined(values)), cluster_bootstrap95(values, seed)};
}

// The answers of each problem; those that are not known are left out.
using Answers = std::vector<std::vector<TurnOutcome>>;

Estimate share_of(const Answers& answers, uint64_t seed, const std::function<bool(const TurnOutcome&)>& holds) {
  std::vector<std::vector<double>> values;
  for (const auto& problem : answers) {
    auto& cluster = values.emplace_back();
    for (const TurnOutcome& answer : problem) cluster.push_back(holds(answer));
  }
  return share(values, seed);
}

PassAtK pass_at(const Answers& answers, int64_t k, uint64_t seed) {
  std::vector<std::vector<double>> values;
  for (const auto& problem : answers) {
    const auto n = static_cast<int64_t>(problem.size());
    if (n < k) continue;
    const auto correct = std::count_if(problem.begin(), problem.end(), [](const auto& a) { return a.correct; });
    values.push_back({pass_at_k(n, correct, k)});
  }
  return {share(values, seed), static_cast<int64_t>(values.size())};
}

SpeedFigures speed_figures(const Answers& answers, double TurnOutcome::* speedup, uint64_t seed) {
  SpeedFigures figures;
  for (const double p : kFastThresholds)
    figures.fast[p] = share_of(answers, seed, [&](const TurnOutcome& a) { return a.correct && a.*speedup > p; });
  std::vector<std::vector<double>> timed, logarithms;  // of the problems that have any
  for (const auto& problem : answers) {
    std::vector<double> values, logs;
    for (const TurnOutcome& answer : problem) {
      if (!answer.correct || answer.*speedup <= 0) continue;
      values.push_back(answer.*speedup);
      logs.push_back(std::log(answer.*speedup));
    }
    if (values.empty()) continue;
    figures.timed += static_cast<int64_t>(values.size());
    timed.push_back(std::move(values));
    logarithms.push_back(std::move(logs));
  }
  if (timed.empty()) return figures;
  figures.geometric_mean = Estimate{geometric_mean(joined(timed)), std::nullopt};
  figures.median = Estimate{median(joined(timed)), std::nullopt};
  // Of one problem, or of equal ones, every draw is the same: the bootstrap would claim certainty.
  const Interval logs = percentiles95(resampled_means(logarithms, seed));
  const Interval medians = percentiles95(resampled_medians(timed, seed));
  if (logs.low < logs.high) figures.geometric_mean->interval = Interval{std::exp(logs.low), std::exp(logs.high)};
  if (medians.low < medians.high) figures.median->interval = medians;
  return figures;
}

}  // namespace

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  TF_CHECK(k >= 1 && k <= n && c >= 0 && c <= n, "pass@k of n={} c={} k={}", n, c, k);
  if (n - c < k) return 1.0;
  double miss = 1.0;
  for (int64_t i = n - c + 1; i <= n; ++i) miss *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - miss;
}

std::vector<int64_t> usual_ks(int64_t n) {
  std::vector<int64_t> ks;
  for (int64_t decade = 1; decade <= n; decade *= 10) {
    for (const int64_t k : {decade, 2 * decade, 5 * decade}) {
      if (k <= n) ks.push_back(k);
    }
  }
  if (n >= 1 && ks.back() != n) ks.push_back(n);
  return ks;
}

Interval wilson95(double successes, double n) {
  if (n <= 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double p = successes / n, denominator = 1 + z * z / n;
  const double centre = (p + z * z / (2 * n)) / denominator;
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator;
  // At the ends the bound is exact; rounding must not say otherwise.
  return {successes <= 0 ? 0.0 : std::max(0.0, centre - half), successes >= n ? 1.0 : std::min(1.0, centre + half)};
}

Interval cluster_bootstrap95(const std::vector<std::vector<double>>& values, uint64_t seed) {
  const auto all = joined(values);
  const double total = std::accumulate(all.begin(), all.end(), 0.0), n = static_cast<double>(all.size());
  const auto clusters = std::count_if(values.begin(), values.end(), [](const auto& c) { return !c.empty(); });
  // Where nothing varies (all or none passed) or there is nothing to resample, the bootstrap would claim certainty.
  if (clusters >= 2) {
    const Interval interval = percentiles95(resampled_means(values, seed));
    if (interval.low < interval.high) return interval;
  }
  return wilson95(total, n);
}

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double TurnOutcome::least() const {
  if (eager == 0 || torch_compile == 0) return std::max(eager, torch_compile);
  return std::min(eager, torch_compile);
}

std::optional<size_t> answer_turn(const SampleOutcome& sample, int64_t budget, Answer answer) {
  const size_t turns = std::min(sample.turns.size(), static_cast<size_t>(budget));
  if (turns == 0 || (sample.failed && sample.turns.size() < static_cast<size_t>(budget))) return std::nullopt;
  if (answer == Answer::kFinal) return turns - 1;
  const auto rank = [](const TurnOutcome& turn) {
    return std::tuple(turn.correct, turn.correct ? turn.least() : 0, turn.compiled);
  };
  size_t best = 0;
  for (size_t t = 1; t < turns; ++t) {
    if (rank(sample.turns[t]) > rank(sample.turns[best])) best = t;
  }
  return best;
}

Figures figures_of(const std::vector<ProblemOutcomes>& problems, int64_t budget, Answer answer,
                   const std::vector<int64_t>& ks, Timed timed, uint64_t seed) {
  Figures figures;
  Answers answers;
  for (const ProblemOutcomes& problem : problems) {
    auto& judged = answers.emplace_back();
    for (const SampleOutcome& sample : problem) {
      const auto turn = answer_turn(sample, budget, answer);
      if (turn) judged.push_back(sample.turns[*turn]);
      else if (sample.failed) ++figures.failed;
      else judged.emplace_back();  // it ended without a turn: nothing was answered
    }
    figures.problems += !judged.empty();
    figures.samples += static_cast<int64_t>(judged.size());
  }
  figures.compiled = share_of(answers, seed, [](const TurnOutcome& a) { return a.compiled; });
  figures.correct = share_of(answers, seed, [](const TurnOutcome& a) { return a.correct; });
  for (const int64_t k : ks) {
    if (PassAtK pass = pass_at(answers, k, seed); pass.problems > 0) figures.pass_at[k] = pass;
  }
  if (timed.eager) figures.eager = speed_figures(answers, &TurnOutcome::eager, seed);
  if (timed.torch_compile) figures.torch_compile = speed_figures(answers, &TurnOutcome::torch_compile, seed);
  return figures;
}

}  // namespace tritonforge::orchestrate
