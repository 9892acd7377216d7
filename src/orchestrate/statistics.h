#pragma once
// The figures of a benchmark: compile rate, correctness, pass@k, fast_p, mean and median speedup, each with an interval
// that respects that samples of one problem are alike. Pure functions of what came of each turn.
//
// Intervals are of 95 %. Of shares and means: percentile bootstrap over whole problems, 4000 rounds; where nothing
// varies (all or none passed, or as many of every problem) or there is one problem only, the bootstrap would claim
// certainty, and Wilson's score interval takes its place. Of speedups: the same bootstrap of the mean logarithm or of
// the median; of fewer than two problems, or where all drawn ones are alike, there is none.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace tritonforge::orchestrate {

// Unbiased pass@k of one problem with n samples, c correct: 1 - prod_{i=n-c+1..n} (1 - k/i) (Chen et al. 2021).
// Requires 1 <= k <= n.
double pass_at_k(int64_t n, int64_t c, int64_t k);
// The k that are reported where nobody names others: 1, 2, 5, 10, 20, 50, ... up to n, and n.
std::vector<int64_t> usual_ks(int64_t n);

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

// Of the mean of all values, `values[p]` being those of problem p. A function of (values, seed).
Interval cluster_bootstrap95(const std::vector<std::vector<double>>& values, uint64_t seed);

// Wilson's score interval for `successes` of `n` (values may be fractional).
Interval wilson95(double successes, double n);

// fast_p: the share of samples that are correct and more than p times as fast; as fast is not faster.
inline constexpr std::array<double, 6> kFastThresholds = {0, 0.5, 0.8, 1, 1.5, 2};

// exp(mean(ln x)); the middle value, or the mean of the two. Both 0 where empty.
double geometric_mean(const std::vector<double>& values);
double median(std::vector<double> values);

// What came of one turn. A speedup is 0 where the turn is not correct or was not timed.
struct TurnOutcome {
  bool compiled = false, correct = false;
  double eager = 0;          // against PyTorch as the problem has it
  double torch_compile = 0;  // against torch.compile of it
  double least() const;      // of those that were timed: against the faster baseline
  bool operator==(const TurnOutcome&) const = default;
};
struct SampleOutcome {
  std::vector<TurnOutcome> turns;
  bool failed = false;  // after these turns a failure of ours ended it: what was to come is not known
};
using ProblemOutcomes = std::vector<SampleOutcome>;

// Which of a sample's turns is its answer.
enum class Answer { kBest, kFinal };
constexpr std::array<std::string_view, 2> names_of(Answer) { return {"best", "final"}; }

// The turn among the first `budget`: the fastest correct one, else the first that is correct, else the first that
// compiles, else the first; or the last. Nothing where a failure of ours keeps it unknown, or there is no turn.
std::optional<size_t> answer_turn(const SampleOutcome& sample, int64_t budget, Answer answer);

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;
};
struct PassAtK {
  Estimate estimate;     // mean over problems
  int64_t problems = 0;  // with k samples that were judged
};
struct SpeedFigures {
  int64_t timed = 0;                               // correct samples with a time; fast_p is of all that were judged
  std::map<double, Estimate> fast;                 // p -> share
  std::optional<Estimate> geometric_mean, median;  // of the timed ones; nothing where there is none
};
// Which times were measured at all: without one there is no figure, which is another thing than a figure of zero.
struct Timed {
  bool eager = false, torch_compile = false;
};
struct Figures {
  int64_t problems = 0, samples = 0;  // samples: those that were judged
  int64_t failed = 0;                 // those beside them, that a failure of ours left without an answer; in no rate
  Estimate compiled, correct;
  std::map<int64_t, PassAtK> pass_at;
  std::optional<SpeedFigures> eager, torch_compile;
};
Figures figures_of(const std::vector<ProblemOutcomes>& problems, int64_t budget, Answer answer,
                   const std::vector<int64_t>& ks, Timed timed, uint64_t seed);

}  // namespace tritonforge::orchestrate
