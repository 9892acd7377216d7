#pragma once
// Makes pairs: draws compositions, has every solution accepted by an evaluator, marks the split, adds refinements.
// The pairs depend on the options alone, not on the number of workers or on how fast the evaluator answers.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/options.h"
#include "dataset/acceptance.h"
#include "dataset/compose.h"

namespace tritonforge::dataset {

struct GenerateOptions {
  int64_t count = 2000;
  uint64_t seed = 0;
  PairStyle style = PairStyle::kCompact;
  std::vector<std::string> families;  // empty: all of the style
  // Families ("tanh") and combinations ("relu+mul", in any order) that go to the holdout, besides those that the hash
  // picks.
  std::vector<std::string> holdout;
  double holdout_fraction = 0.15;  // of the combinations of two or more families; by hash, the same for every seed
  double rl_fraction = 0.10;       // likewise: combinations for RL only
  double refinements = 0.25;       // of the pairs
  int workers = 2;                 // evaluations at once

  template <typename V>
  void describe(V& v) {
    v("count", count, at_least(1), "pairs to write");
    v("seed", seed, "seed of the draws");
    v("style", style, "compact is for tiny models; wide has chains of parts with several kernels, and more mistakes");
    v("families", families, commas(), "only these operator families");
    v("holdout", holdout, commas(), "families, combinations (relu+mul), or an earlier set whose holdout to keep out");
    v("holdout_fraction", holdout_fraction, spelled("split"), in(0, 1), "fraction of combinations held out, by hash");
    v("rl_fraction", rl_fraction, spelled("rl-split"), in(0, 1), "fraction of combinations for RL only, by hash");
    v("refinements", refinements, in(0, 1), "fraction of pairs with a wrong first attempt and its real feedback");
    v("workers", workers, in(1, 256), "evaluations at once");
  }
  void validate() const;  // throws kUsage
};

struct GenerateReport {
  int64_t written = 0, refinements = 0, evaluations = 0;
  int64_t harmless_mistakes = 0;  // that the evaluator did not notice: not used
  // "combo: diagnostics" of solutions that the evaluator refused: a template at fault.
  std::vector<std::string> rejected;
  std::map<std::string, size_t> rejected_by;  // how many for which fault
  double seconds = 0;
};

// Calls on_pair in order, from one thread at a time. `evaluate` may be empty: pairs are then marked as not verified and
// have no refinements. Throws kInternal where more than one draw in ten is refused, kUsage where the families cannot
// make `count` distinct pairs.
GenerateReport generate_pairs(const GenerateOptions& options, const EvaluatePair& evaluate,
                              const ConversationTexts& texts, const std::function<void(const Pair&)>& on_pair);

// "train" | "rl" | "holdout" of a combination.
std::string split_of(const std::vector<std::string>& families, const GenerateOptions& options);

}  // namespace tritonforge::dataset
