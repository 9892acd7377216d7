#pragma once
// Draws a composition of operator families and writes it twice: as a PyTorch problem and as one fused Triton kernel
// whose lines follow the module's, operator by operator.
#include <optional>
#include <string>
#include <vector>

#include "base/named_enum.h"
#include "base/rng.h"
#include "dataset/mistakes.h"
#include "dataset/operators.h"

namespace tritonforge::dataset {

enum class PairStyle {
  kCompact,  // as short as correct Triton allows: what a model of a few million parameters can learn
  kFull,     // docstrings, parameters, wrappers, two-dimensional tiles, more families
  kWide,     // full's, and chains of parts (chain.h), which have several kernels; more and other mistakes
};
constexpr std::array<std::string_view, 3> names_of(PairStyle) { return {"compact", "full", "wide"}; }

struct Step {
  const Operator* op = nullptr;
  std::string c, d;     // constants as written
  std::string operand;  // the other tensor's name, "" without one
};

struct Composition {
  PairStyle style = PairStyle::kCompact;
  std::vector<Step> steps;
  std::string x = "x";                // the main input's name
  std::string input = "torch.randn";  // how it is drawn: torch.randn | torch.rand, with an offset
  std::string offset;                 // " + 0.5" or ""
  bool rows = false;                  // inputs are (M, N); else (N,)
  int64_t m = 0, n = 0;
  int64_t block = 256;
  uint64_t look = 0;  // decides everything that is a matter of taste

  bool reduces() const { return !steps.empty() && steps.back().op->tail == Tail::kReduce; }
  bool needs_whole_rows() const { return !steps.empty() && steps.back().op->tail != Tail::kNone; }
  bool knows_rows() const;                    // some step is told its row or column
  std::vector<std::string> families() const;  // in order
  std::string combo() const;                  // "relu+mul+row_sum"
};

// Chains of 1 to 4 of `families` whose numbers stay honest (every operator within its domain, none without effect).
// `only`: exactly this family, alone. nullopt: this draw came to nothing; draw again.
std::optional<Composition> draw_composition(PairStyle style, const std::vector<const Operator*>& families, Rng& rng,
                                            const Operator* only = nullptr);

std::string problem_source(const Composition& composition);
std::string solution_source(const Composition& composition);

// The solution with one mistake of the kind that models make: "wrong_operator", "wrong_constant", "lost_operator",
// "no_mask", "wrong_stride", "undefined_name", "syntax". Whether it is really wrong only a verdict can say.
Mistake draw_mistake(const Composition& composition, const std::vector<const Operator*>& families, Rng& rng);

// The key by which combinations are split: order and repetition do not matter, so that no permutation of a held-out
// combination is ever trained on.
std::string combo_key(std::vector<std::string> families);

}  // namespace tritonforge::dataset
