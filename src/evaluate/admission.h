#pragma once
// Problems are admitted, not trusted: before the first candidate, a problem's reference is held against controls, which
// do none of the work or less of it. Where one is within the tolerance, right and wrong cannot be told apart as the
// problem stands. Then, in this order,
//   the tolerance is tightened to a quarter of the control's error, where that is less than four times the tolerance
//     (trials lie on both sides of it) and the reference's own error, that against float64, is a sixteenth at most;
//     (by half_inside, polynomial and without_small to no less than a sixteenth of the usual one: orders of summation
//     differ as much; never below the last place of the outputs' own type, by which two right answers may differ);
//   inputs or weights are drawn wider (worker/tritonforge_worker/weights.py): inputs moved around zero and scaled by
//     rows, or scaled only, where zero is outside of what the problem can take, and lengths and masks that drop nothing
//     so that they do; weights with two dimensions and more enlarged, so that many layers do not forget their input;
//   the problem is barred, and no candidate is judged on it.
// Where the reference's own error is over half of the tolerance, the tolerance becomes twice the error.
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/named_enum.h"
#include "evaluate/compare.h"

namespace tritonforge::evaluate {

// What is given in place of the reference's outputs.
enum class Control {
  kZeros,
  kMean,            // everywhere, the mean of another trial's outputs
  kInput,           // an input of the output's form
  kOther,           // the outputs of other inputs
  kConstant,        // where these are few numbers: those of several trials' that others are nearest to
  kHalf,            // the reference in bfloat16; where an output is float32 or float64
  kWithoutLast,     // what its last operation was given
  kDefaultWeights,  // the weights as the module was made
  kHalfInside,      // in bfloat16 what is larger than the outputs, which sums over many of it hide
  kWithoutTerm,     // a sum without an operand that is small beside the other one, a product that is zero, a factor
                    // that hardly varies as its mean, one of several inputs or what hardly counts of one as another
                    // trial's, products of half precision in eight bits
  kPolynomial,      // a function by a polynomial of the third degree or less
  kWithoutSmall,    // zeros where outputs are smaller than what is allowed of them, if many are
};
constexpr std::array<std::string_view, 12> names_of(Control) {
  return {"zeros",           "mean",        "input",        "other",      "constant",     "half", "without_last",
          "default_weights", "half_inside", "without_term", "polynomial", "without_small"};
}
// From kWithoutLast on they may be right: an operation, a weight, a term or a rounding may have no effect that anybody
// can see. They tighten the tolerance where that is possible, and never bar.
constexpr bool can_bar(Control control) { return control < Control::kWithoutLast; }

enum class Draw { kAsGiven, kSigned, kWide, kLargeWeights };
constexpr std::array<std::string_view, 4> names_of(Draw) { return {"as_given", "signed", "wide", "large_weights"}; }

struct Admission {
  std::string barred;  // why; empty where candidates are judged
  Draw draw = Draw::kAsGiven;
  double tolerance = 1;           // a factor on Tolerances
  double own_error = -1;          // the reference's against float64, over the tolerance as given; -1: unknown
  std::vector<Control> within;    // as the problem stands
  std::vector<std::string> idle;  // operations that changed nothing, bounds that nothing is beyond, parts of inputs
                                  // that no output shows, as it is drawn
};
Json to_json(const Admission& admission);

// What the worker finds for one way to draw inputs and weights.
struct Probe {
  // "expected": a trial's outputs, and everything else beside them: "given" (its inputs), "other" (another trial's
  // outputs, and where these are few those of some more, "other.2"), "float64", "half", "without_last",
  // "default_weights", "half_inside", "without_term.0" and so on, as far as the problem allows. Empty where it does
  // not take such inputs.
  std::map<std::string, std::vector<TensorView>, std::less<>> runs;
  std::vector<std::string> idle;                                    // operations that changed nothing
  std::vector<std::byte> payload;                                   // what the views look into
  const std::vector<TensorView>& run(std::string_view name) const;  // empty where it is not there
};

struct ControlError {
  Control control;
  bool within;   // the tolerance
  double error;  // the largest, over the tolerance; infinite beyond four times that
};
// Every control that the probe allows.
std::vector<ControlError> hold_controls(const Probe& probe, const Tolerances& tolerances);

// Asks for one probe after another, until one is good enough.
Admission admit(const std::function<Probe(Draw)>& ask, const Tolerances& tolerances);

}  // namespace tritonforge::evaluate
