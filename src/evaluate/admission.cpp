#include "evaluate/admission.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace tritonforge::evaluate {
namespace {

constexpr double kApart = 16;          // between the reference's own error and a control's
constexpr double kTightened = 0.25;    // of a control's error: in another trial it may be a half of that
constexpr double kLeastOfSome = 0.25;  // of the tolerance: float32 sums over a hundred million numbers stay below it
constexpr double kALittle = 1.01;      // more than the last place: bounds are rounded, too
constexpr double kLeastError = 1e-3;   // of the tolerance: below it, an error against float64 is luck

// How far below the tolerance it is says little of what an honest kernel reaches.
bool tightens_little(Control control) {
  return control == Control::kHalfInside || control == Control::kWithoutSmall || control == Control::kPolynomial;
}

// A tensor in the reference's form with bytes of its own.
struct Made {
  TensorView view;
  std::vector<std::byte> bytes;
};

Made filled(const TensorView& like, double value) {
  Made made{like, std::vector<std::byte>(like.bytes.size())};
  const size_t size = size_of(like.dtype);
  std::array<std::byte, 8> element{};
  write_element(like.dtype, value, element.data());
  for (size_t at = 0; at < made.bytes.size(); at += size) std::memcpy(&made.bytes[at], element.data(), size);
  made.view.bytes = made.bytes;
  return made;
}

// What is expected, and of each output its summary.
struct Expected {
  explicit Expected(const std::vector<TensorView>& expected) : outputs(expected) {
    std::ranges::transform(outputs, std::back_inserter(summaries), summary_of);
  }
  const std::vector<TensorView>& outputs;
  std::vector<Summary> summaries;
};

// nullopt where it is no answer at all: another number of outputs, another form. Its error is infinite where it is more
// than what a control that tightens nothing has.
std::optional<ControlError> held(Control control, const std::vector<TensorView>& given, const Expected& expected,
                                 const Tolerances& tolerances) {
  const std::vector<TensorView>& outputs = expected.outputs;
  if (given.size() != outputs.size() || outputs.empty()) return std::nullopt;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (given[i].shape != outputs[i].shape || given[i].dtype != outputs[i].dtype) return std::nullopt;
  }
  const Tolerances wider = tolerances.scaled(1 / kTightened);
  double most = 0;
  for (size_t i = 0; i < outputs.size() && std::isfinite(most); ++i) {
    const std::optional<double> error = error_within(given[i], outputs[i], expected.summaries[i], wider);
    most = std::max(most, error ? *error / kTightened : std::numeric_limits<double>::infinity());
  }
  return ControlError{control, most <= 1, most};
}

// Outputs of one value each.
std::vector<TensorView> constants(std::vector<Made>& keep, const std::vector<TensorView>& like,
                                  const std::function<double(const TensorView&)>& value) {
  std::vector<TensorView> views;
  for (const TensorView& output : like) {
    keep.push_back(filled(output, value(output)));
    views.push_back(keep.back().view);
  }
  return views;
}

// Of each output, the first input of its form; empty where there is none.
std::vector<TensorView> copies(const Probe& probe) {
  std::vector<TensorView> views;
  const auto& given = probe.run("given");
  for (const TensorView& output : probe.run("expected")) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const TensorView& input) {
      return input.shape == output.shape && input.dtype == output.dtype;
    });
    if (found == given.end()) return {};
    views.push_back(*found);
  }
  return views;
}

// The error that the best of several trials' outputs has against half of the others. Whoever wrote it down is right in
// a trial as often as that is within the tolerance.
std::optional<ControlError> constant(const Probe& probe, const Tolerances& tolerances) {
  std::vector<const std::vector<TensorView>*> trials;
  for (const auto& [name, outputs] : probe.runs) {
    if (name == "expected" || name.starts_with(name_of(Control::kOther))) trials.push_back(&outputs);
  }
  if (trials.size() < 3) return std::nullopt;
  std::vector<std::vector<double>> errors(trials.size());
  for (const auto* outputs : trials) {
    const Expected expected(*outputs);
    for (size_t k = 0; k < trials.size(); ++k) {
      if (trials[k] == outputs) continue;
      const auto result = held(Control::kConstant, *trials[k], expected, tolerances);
      errors[k].push_back(result ? result->error : std::numeric_limits<double>::infinity());
    }
  }
  double least = std::numeric_limits<double>::infinity();
  for (auto& of_one : errors) {
    const auto middle = of_one.begin() + static_cast<ptrdiff_t>(of_one.size() / 2);
    std::nth_element(of_one.begin(), middle, of_one.end());
    least = std::min(least, *middle);
  }
  return ControlError{Control::kConstant, least <= 1, least};
}

// Empty where hardly anything is small.
std::vector<TensorView> without_small(std::vector<std::vector<std::byte>>& keep, const std::vector<TensorView>& like,
                                      const Tolerances& tolerances) {
  std::vector<TensorView> views;
  bool any = false;
  for (const TensorView& output : like) {
    keep.push_back(zeros_where_small(output, bounds_of(output, tolerances).absolute));
    views.push_back(output);
    if (keep.back().empty()) continue;
    views.back().bytes = keep.back();
    any = true;
  }
  return any ? views : std::vector<TensorView>();
}

bool finite(const std::vector<TensorView>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorView& t) { return summary_of(t).finite == t.elements(); });
}

std::vector<ControlError> held_controls(const Probe& probe, const Expected& expected, const Tolerances& tolerances) {
  std::vector<ControlError> found;
  const std::vector<TensorView>& outputs = expected.outputs;
  const auto hold = [&](Control control, const std::vector<TensorView>& given) {
    if (const auto result = held(control, given, expected, tolerances)) found.push_back(*result);
  };
  std::vector<Made> keep;
  keep.reserve(outputs.size() + probe.run("other").size());
  hold(Control::kZeros, constants(keep, outputs, [](const TensorView&) { return 0.0; }));
  hold(Control::kMean, constants(keep, probe.run("other"), [](const TensorView& t) { return summary_of(t).mean; }));
  hold(Control::kInput, copies(probe));
  hold(Control::kOther, probe.run(name_of(Control::kOther)));
  if (const auto found_constant = constant(probe, tolerances)) found.push_back(*found_constant);
  for (const Control control : {Control::kHalf, Control::kWithoutLast, Control::kDefaultWeights, Control::kHalfInside})
    hold(control, probe.run(name_of(control)));
  std::vector<std::vector<std::byte>> kept;
  kept.reserve(outputs.size());
  hold(Control::kWithoutSmall, without_small(kept, outputs, tolerances));
  for (const auto& [name, outputs] : probe.runs) {
    for (const Control control : {Control::kWithoutTerm, Control::kPolynomial}) {
      if (name.starts_with(name_of(control))) hold(control, outputs);
    }
  }
  return found;
}

// What one probe allows.
struct Fit {
  bool good = false;
  double tolerance = 1, own_error = -1;
  std::vector<ControlError> within;
};

Fit fit(const Probe& probe, const Tolerances& given) {
  Fit out;
  // The reference's own error. More than that is a random choice that depends on the type.
  const Expected expected(probe.run("expected"));
  const auto error = held(Control::kHalf, probe.run("float64"), expected, given);
  if (error && std::isfinite(error->error)) out.own_error = error->error;
  if (out.own_error > 0.5) out.tolerance = 2 * out.own_error;
  // Where outputs have no more than half precision, half is right.
  bool half_is_right = false;
  double least = std::numeric_limits<double>::infinity(), least_possible = 0;
  for (const TensorView& output : probe.run("expected")) {
    half_is_right = half_is_right || (is_floating(output.dtype) && size_of(output.dtype) <= 2);
    least_possible = std::max(least_possible, kALittle * last_place(output, bounds_of(output, given)));
  }
  bool bars = false;
  for (ControlError& control : held_controls(probe, expected, given.scaled(out.tolerance))) {
    const bool halves = control.control == Control::kHalf || control.control == Control::kHalfInside;
    if (std::isinf(control.error) || (halves && half_is_right)) continue;
    control.error *= out.tolerance;
    // No worse than the reference itself: so it is right in half precision, too (ones and zeros, say).
    if (halves && control.error <= std::max(out.own_error, kLeastError)) continue;
    if (control.within) out.within.push_back(control);
    // Nothing that anybody can see is missing.
    const bool apart = out.own_error >= 0 && control.error >= kApart * std::max(out.own_error, kLeastError) &&
                       control.error > least_possible;
    const double error = tightens_little(control.control) ? std::max(control.error, kLeastOfSome) : control.error;
    if (apart) least = std::min(least, error);
    bars = bars || (!apart && control.error <= out.tolerance && can_bar(control.control));
  }
  out.good = !bars;
  if (std::isfinite(least)) out.tolerance = std::max(kTightened * least, least_possible);
  return out;
}

std::string told(const std::vector<ControlError>& within) {
  std::vector<std::string> words;
  for (const ControlError& item : within) {
    if (can_bar(item.control))
      words.push_back(fmt::format("{} ({:.2g} of the tolerance)", name_of(item.control), item.error));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

const std::vector<TensorView>& Probe::run(std::string_view name) const {
  static const std::vector<TensorView> none;
  const auto found = runs.find(name);
  return found == runs.end() ? none : found->second;
}

std::vector<ControlError> hold_controls(const Probe& probe, const Tolerances& tolerances) {
  return held_controls(probe, Expected(probe.run("expected")), tolerances);
}

Admission admit(const std::function<Probe(Draw)>& ask, const Tolerances& tolerances) {
  Admission admission;
  bool finite_as_given = false, any = false;
  size_t least_idle = 0;
  std::string why;
  for (const Draw draw : {Draw::kAsGiven, Draw::kSigned, Draw::kWide, Draw::kLargeWeights}) {
    const Probe probe = ask(draw);
    const bool as_given = draw == Draw::kAsGiven;
    const auto& expected = probe.run("expected");
    if (as_given) finite_as_given = finite(expected);
    // Wider than what the problem takes.
    if (!as_given && (expected.empty() || (finite_as_given && !finite(expected)))) continue;
    const Fit now = fit(probe, tolerances);
    if (as_given) {
      for (const ControlError& item : now.within) {
        if (admission.within.empty() || admission.within.back() != item.control)
          admission.within.push_back(item.control);
      }
      why = told(now.within);
    }
    // The first good one, and another only where less of the problem is idle under it.
    if (!now.good || (any && probe.idle.size() >= least_idle)) continue;
    any = true;
    least_idle = probe.idle.size();
    admission.draw = draw;
    admission.tolerance = now.tolerance;
    admission.own_error = now.own_error;
    admission.idle = probe.idle;
    if (least_idle == 0) break;
  }
  if (!any) admission.barred = "right and wrong cannot be told apart, within the tolerance are: " + why;
  return admission;
}

Json to_json(const Admission& admission) {
  Json within = Json::array();
  for (const Control control : admission.within) within.push_back(name_of(control));
  Json json = {{"admitted", admission.barred.empty()},
               {"draw", name_of(admission.draw)},
               {"tolerance", admission.tolerance},
               {"within", within},
               {"idle", admission.idle}};
  json["own_error"] = admission.own_error < 0 ? Json() : Json(admission.own_error);
  if (!admission.barred.empty()) json["reason"] = admission.barred;
  return json;
}

}  // namespace tritonforge::evaluate
