#include "evaluate/admission.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tritonforge::evaluate {
namespace {

using Values = std::vector<float>;

// A problem of one output of 64 floats, as the worker would find it.
struct Made {
  std::map<std::string, Values> runs;
  std::vector<std::string> idle;

  Probe probe() const {
    Probe made;
    made.idle = idle;
    for (const auto& [name, values] : runs) made.payload.resize(made.payload.size() + values.size() * sizeof(float));
    size_t at = 0;
    for (const auto& [name, values] : runs) {
      const size_t bytes = values.size() * sizeof(float);
      std::memcpy(made.payload.data() + at, values.data(), bytes);
      made.runs[name].push_back({.dtype = Dtype::kFloat32,
                                 .shape = {static_cast<int64_t>(values.size())},
                                 .order = {0},
                                 .bytes = std::span(made.payload).subspan(at, bytes)});
      at += bytes;
    }
    return made;
  }
};

Values wave(float scale, float shift, float phase, size_t n = 64) {
  Values values(n);
  for (size_t i = 0; i < n; ++i) values[i] = shift + scale * std::sin(static_cast<float>(i) + phase);
  return values;
}

Made sound() {
  return {{{"expected", wave(1, 0, 0)},
           {"given", wave(1, 0, 5)},
           {"other", wave(1, 0, 1)},
           {"float64", wave(1 + 1e-7f, 0, 0)},
           {"half", wave(1.004f, 0, 0)},
           {"without_last", wave(2, 0, 0)}},
          {}};
}

// Admits where every way to draw gives the same, or what `drawn` says.
Admission admitted(const Made& as_given, const std::map<Draw, Made>& drawn = {}) {
  return admit(
      [&](Draw draw) {
        const auto found = drawn.find(draw);
        return (found == drawn.end() ? as_given : found->second).probe();
      },
      {});
}

TEST(Admission, ASoundProblemStaysAsItIs) {
  const Admission found = admitted(sound());
  EXPECT_EQ(found.barred, "");
  EXPECT_EQ(found.draw, Draw::kAsGiven);
  EXPECT_EQ(found.tolerance, 1);
  EXPECT_TRUE(found.within.empty());
  EXPECT_NEAR(found.own_error, 1e-7 / 1e-4, 1e-3);
}

TEST(Admission, EachControlIsHeld) {
  const Made problem = sound();
  std::vector<Control> seen;
  for (const ControlError& item : hold_controls(problem.probe(), {})) {
    EXPECT_FALSE(item.within) << name_of(item.control);
    seen.push_back(item.control);
  }
  EXPECT_EQ(seen, (std::vector<Control>{Control::kZeros, Control::kMean, Control::kInput, Control::kOther,
                                        Control::kHalf, Control::kWithoutLast}));
}

TEST(Admission, AControlFarAboveTheReferencesOwnErrorTightensTheTolerance) {
  Made problem = sound();
  problem.runs["half"] = wave(1.00008f, 0, 0);  // at most 0.4 of the tolerance at the crest, 1e-4 + 1e-4
  const Admission found = admitted(problem);
  EXPECT_EQ(found.within, std::vector<Control>{Control::kHalf});
  EXPECT_NEAR(found.tolerance, 0.1, 0.01);
  EXPECT_EQ(found.draw, Draw::kAsGiven);
  const Probe probe = problem.probe();
  for (const ControlError& item : hold_controls(probe, Tolerances().scaled(found.tolerance)))
    EXPECT_FALSE(item.within) << name_of(item.control);
  EXPECT_TRUE(
      compare(probe.run("float64")[0], probe.run("expected")[0], Tolerances().scaled(found.tolerance), "").passed);
}

TEST(Admission, AControlThatIsJustBeyondTheToleranceTightensItToo) {
  Made problem = sound();
  problem.runs["half"] = wave(1.0004f, 0, 0);  // 1.9 of the tolerance at the crest: in another trial it may be within
  const Admission found = admitted(problem);
  EXPECT_TRUE(found.within.empty());
  EXPECT_NEAR(found.tolerance, 0.47, 0.05);
  problem.runs["half"] = wave(1.001f, 0, 0);
  EXPECT_EQ(admitted(problem).tolerance, 1);
}

TEST(Admission, WhereItsOwnErrorIsAsLargeInputsAreDrawnWider) {
  Made problem = sound(), wider = sound();
  problem.runs["other"] = wave(1.00002f, 0, 0);
  problem.runs["float64"] = wave(1.00001f, 0, 0);
  EXPECT_NE(admitted(problem).barred.find("other"), std::string::npos) << admitted(problem).barred;
  const Admission found = admitted(problem, {{Draw::kWide, wider}});
  EXPECT_EQ(found.barred, "");
  EXPECT_EQ(found.draw, Draw::kWide);
  EXPECT_EQ(found.tolerance, 1);
}

TEST(Admission, AConstantIsBarred) {
  Made problem = sound();
  for (auto& [name, values] : problem.runs) values = Values(64, 3.0f);
  const Admission found = admitted(problem);
  EXPECT_NE(found.barred.find("mean"), std::string::npos) << found.barred;
  EXPECT_EQ(found.barred.find("zeros"), std::string::npos) << found.barred;
}

TEST(Admission, AnIdentityIsBarred) {
  Made problem = sound();
  problem.runs["given"] = problem.runs["expected"];
  EXPECT_NE(admitted(problem).barred.find("input"), std::string::npos);
}

TEST(Admission, AnOperationWithoutVisibleEffectBarsNothing) {
  Made problem = sound();
  problem.runs["without_last"] = problem.runs["expected"];
  const Admission found = admitted(problem);
  EXPECT_EQ(found.barred, "");
  EXPECT_EQ(found.within, std::vector<Control>{Control::kWithoutLast});
  EXPECT_EQ(found.tolerance, 1);
}

TEST(Admission, WhatSumsOrTheToleranceHideTightensItAndBarsNothing) {
  for (const auto& [run, control] :
       {std::pair("half_inside", Control::kHalfInside), std::pair("without_term.1", Control::kWithoutTerm),
        std::pair("polynomial.1.0", Control::kPolynomial)}) {
    Made problem = sound();
    problem.runs[run] = wave(1.00008f, 0, 0);  // at most 0.4 of the tolerance at the crest, 1e-4 + 1e-4
    const Admission found = admitted(problem);
    EXPECT_EQ(found.within, std::vector<Control>{control});
    EXPECT_NEAR(found.tolerance, 0.1, 0.01) << run;
    problem.runs[run] = wave(1.00001f, 0, 0);
    EXPECT_NEAR(admitted(problem).tolerance, control == Control::kWithoutTerm ? 0.0125 : 1.0 / 16, 0.002) << run;
    problem.runs[run] = problem.runs["float64"];  // nobody could see it
    EXPECT_EQ(admitted(problem).barred, "") << run;
    EXPECT_EQ(admitted(problem).tolerance, 1) << run;
  }
}

// Outputs of one number near 1, by how many times what is allowed of it, 4e-4, they are above that.
Made scalars(const std::vector<float>& above) {
  Made made;
  for (size_t trial = 0; trial < above.size(); ++trial) {
    const std::string name = trial == 0 ? "expected" : trial == 1 ? "other" : fmt::format("other.{}", trial);
    made.runs[name] = {1 + 4e-4f * above[trial]};
  }
  made.runs["float64"] = {1 + 1e-6f};
  return made;
}

TEST(Admission, AConstantBetweenSeveralTrialsTightensTheToleranceOrBars) {
  EXPECT_NEAR(admitted(scalars({0, 3})).tolerance, 0.75, 0.01) << "by the other trial: of two there is no constant";
  const Admission found = admitted(scalars({0, 3, 1, 2, 4}));
  EXPECT_EQ(found.barred, "");
  EXPECT_TRUE(found.within.empty());
  EXPECT_NEAR(found.tolerance, 0.5, 0.02);  // a quarter of 2, the error that 2 has against half of the others
  EXPECT_EQ(admitted(scalars({0, 90, 30, 60, 120})).tolerance, 1);
  const Admission alike = admitted(scalars({3, 0, 0, 0, 0}));
  EXPECT_NE(alike.barred.find("constant"), std::string::npos) << alike.barred;
  // One that is within the reference's own error of the others bars only where it is within the tolerance.
  Made coarse = scalars({0, 3, 1, 2, 4});
  coarse.runs["float64"] = {1 + 4e-4f * 0.4f};
  EXPECT_EQ(admitted(coarse).barred, "");
}

TEST(Admission, IdleOperationsAskForOtherInputs) {
  Made problem = sound(), wider = sound();
  problem.idle = {"abs", "relu"};
  wider.idle = {"relu"};
  const Admission found = admitted(problem, {{Draw::kSigned, wider}});
  EXPECT_EQ(found.draw, Draw::kSigned);
  EXPECT_EQ(found.idle, std::vector<std::string>{"relu"});
  EXPECT_EQ(admitted(problem).draw, Draw::kAsGiven) << "where nothing helps it stays as it is";
}

TEST(Admission, InputsThatTheProblemDoesNotTakeAreNotDrawn) {
  Made problem = sound(), broken = sound();
  problem.idle = {"abs"};
  broken.runs["expected"][7] = std::nanf("");
  const Admission found = admitted(problem,
                                   {{Draw::kSigned, broken}, {Draw::kWide, Made{}}, {Draw::kLargeWeights, Made{}}});
  EXPECT_EQ(found.draw, Draw::kAsGiven);
  EXPECT_EQ(found.barred, "");
}

TEST(Admission, ALargeErrorOfItsOwnWidensTheToleranceToTwiceThat) {
  Made problem = sound();
  problem.runs["float64"] = wave(1.00016f, 0, 0);  // 0.72 of what is allowed at the crest
  EXPECT_NEAR(admitted(problem).tolerance, 1.45, 0.01);
  problem.runs["float64"] = wave(1.0007f, 0, 0);  // exponentials of long sums, say: other right answers are as far off
  EXPECT_NEAR(admitted(problem).tolerance, 6.3, 0.1);
  problem.runs["float64"] = wave(1.5f, 0, 0);  // another random choice, no rounding
  EXPECT_EQ(admitted(problem).tolerance, 1);
  EXPECT_EQ(admitted(problem).own_error, -1);
  EXPECT_EQ(admitted(problem).barred, "");
}

TEST(Admission, HalfPrecisionThatIsExactIsNoDoubt) {
  Made problem = sound();
  problem.runs["half"] = problem.runs["expected"];
  EXPECT_EQ(admitted(problem).barred, "");
  problem.runs["half"] = problem.runs["float64"] = wave(1.00002f, 0, 0);  // no worse than the reference itself
  EXPECT_EQ(admitted(problem).barred, "");
}

TEST(Admission, OutputsBelowTheToleranceTightenItWhereTheyAreMany) {
  Made problem = sound();
  // One of eight, or of 64, are half of what is allowed beside waves of a thousand, 1e-4 times 3 q.
  for (const size_t step : {8, 64}) {
    Values values = wave(1000, 0, 0, 256);
    for (size_t i = 0; i < values.size(); i += step) values[i] = 0.02f;
    problem.runs = {{"expected", values}, {"float64", values}, {"other", wave(1000, 0, 1, 256)}};
    const Admission found = admitted(problem);
    EXPECT_EQ(found.within, step == 8 ? std::vector<Control>{Control::kWithoutSmall} : std::vector<Control>());
    EXPECT_EQ(found.tolerance < 1, step == 8);
    EXPECT_GE(found.tolerance, 1.0 / 16);
    EXPECT_EQ(found.barred, "");
  }
}

TEST(Admission, NoToleranceIsBelowTheLastPlaceOfTheOutputs) {
  // 64 numbers of bfloat16, all 4 but the first, which is one or two places off: a place is 1 / 32, allowed is 0.16.
  const auto fours = [](uint16_t first) {
    std::vector<uint16_t> bits(64, 0x4080);
    bits[0] = first;
    const auto bytes = std::as_bytes(std::span(bits));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto kFour = fours(0x4080), kNext = fours(0x4081), kOver = fours(0x4082);
  const auto view = [](const std::vector<std::byte>& bytes) {
    return std::vector<TensorView>{{.dtype = Dtype::kBFloat16, .shape = {64}, .order = {0}, .bytes = bytes}};
  };
  const TensorView four = view(kFour)[0];
  EXPECT_NEAR(last_place(four, bounds_of(four, {})), 4.0 / 128 / 0.16, 0.01);
  const auto tolerance = [&](const std::vector<std::byte>& control) {
    Probe probe;
    probe.runs = {{"expected", view(kFour)}, {"float64", view(kFour)}, {"without_term.0", view(control)}};
    return admit([&](Draw) { return probe; }, {}).tolerance;
  };
  EXPECT_LT(tolerance(kOver), 0.3);
  EXPECT_TRUE(compare(view(kNext)[0], four, Tolerances().scaled(tolerance(kOver)), "output").passed);
  EXPECT_FALSE(compare(view(kOver)[0], four, Tolerances().scaled(tolerance(kOver)), "output").passed);
  EXPECT_EQ(tolerance(kNext), 1);  // which no tolerance tells from a right answer
}

TEST(Admission, HalfIsNoControlOfAHalfOutput) {
  // Numbers from 1 upwards; what is computed in half precision is a last place off, a tenth of what is allowed or less.
  const auto numbers = [](uint16_t off) {
    std::vector<uint16_t> bits(64);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(0x3C00 + 8 * i + off);
    return bits;
  };
  const std::vector<uint16_t> expected = numbers(0), half = numbers(1);
  const auto as_float16 = [](const std::vector<uint16_t>& bits) {
    const auto bytes = std::as_bytes(std::span(bits));
    return std::vector<TensorView>{{.dtype = Dtype::kFloat16, .shape = {64}, .order = {0}, .bytes = bytes}};
  };
  Probe probe;
  probe.runs["expected"] = probe.runs["float64"] = as_float16(expected);
  probe.runs["half"] = as_float16(half);
  const auto held = hold_controls(probe, {});
  EXPECT_TRUE(std::any_of(held.begin(), held.end(), [](const ControlError& control) {
    return control.control == Control::kHalf && control.within && control.error > 0;
  }));
  const Admission found = admit([&](Draw) { return probe; }, {});
  EXPECT_TRUE(found.within.empty());
  EXPECT_EQ(found.tolerance, 1);
}

}  // namespace
}  // namespace tritonforge::evaluate
