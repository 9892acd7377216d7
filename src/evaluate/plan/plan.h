#pragma once
// A candidate's forward as data: tensor values, and in order the aten calls and kernel launches that make them. It
// comes from an untrusted process; parse_plan checks all of it that can be checked without tensors, and is all that
// stands between a forged plan and the replayer.
//   {"values": [{"dtype", "shape", "stride", "input" | "weight" | "constant": where it comes from}],
//    "kernels": [{"name", "options", "ir": {target: text}, "errors": {target: compiler's text}}],
//    "steps": [{"aten": "aten::mm", "overload": "", "args": [...], "kwargs": {...}, "out": [value]}
//              | {"launch": kernel, "grid": [x, y, z], "args": [{"t": value} | {"i": integer} | {"r": real} | {"null":
//              true}]}],
//    "tunings"?: [{"configurations": [name], "left_out": count}] of autotuned kernels; a step with "of": [tuning,
//              configuration] belongs to that configuration alone, the last one of each is the recorder's choice
//    "outputs": tree with {"tensor": value}, "inputs": count, "texts": [bytes], "constants": [described tensors]}
// An aten argument: {"t": value}, null, bool, integer, string, {"f": "0.5"}, {"dtype": name}, {"format": name} or a
// list of these.
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "evaluate/compare.h"

namespace tritonforge::evaluate {

// Of a recorded plan as a frame: its constants, neither weights nor inputs.
inline constexpr size_t kMaxPlanBytes = 256 << 20;
// Of a drawn problem (plan/drawn.h) so many elements of a tensor are looked at by the trusted side; of a smaller one
// all.
inline constexpr int64_t kSampled = int64_t{1} << 16;

struct PlanLimits {
  static constexpr int64_t kViews = 4;  // so many times total_bytes, views counted like tensors of their own
  size_t values = 40'000, steps = 20'000, kernels = 256, tunings = 256, configurations = 8;
  size_t text_bytes = size_t{64} << 20;    // all IR together
  int64_t elements = int64_t{1} << 31;     // of one value
  int64_t total_bytes = int64_t{8} << 30;  // of all values that are no views
  int64_t programs = int64_t{1} << 22;     // of all launches
  // On a GPU a deadline ends what takes too long.
  static PlanLimits on_gpu() {
    PlanLimits limits;
    limits.programs = int64_t{1} << 36;
    return limits;
  }
};

struct PlanValue {
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> shape, stride;
  int input = -1, constant = -1;  // its number, where it is one
  std::string weight;             // its name, where it is one
  int64_t elements() const;
};

struct PlanKernel {
  std::string name;
  Json options;
  std::map<std::string, int> ir;              // target -> text
  std::map<std::string, std::string> errors;  // target -> what the compiler's front end says
};

struct PlanBinding {
  enum class Form { kTensor, kInteger, kReal, kNull } form = Form::kNull;
  int value = -1;
  int64_t integer = 0;
  double real = 0;
};

struct PlanStep {
  int kernel = -1;                     // a launch; -1: an aten call
  int tuning = -1, configuration = 0;  // it is of one configuration of a tuning alone; -1: it is always done
  std::array<int64_t, 3> grid{1, 1, 1};
  std::vector<PlanBinding> bindings;
  std::string name, overload;  // "aten::mm", ""
  Json args, kwargs;
  std::vector<int> out;  // -1: no tensor
};

// What an autotuner has the choice of, for all launches of a kernel under one key.
struct PlanTuning {
  std::vector<std::string> configurations;  // "BLOCK 64, num_warps 4, num_stages 3"
  size_t left_out = 0;                      // others that were not recorded: its own process's word
};

struct Plan {
  std::vector<PlanValue> values;
  std::vector<PlanKernel> kernels;
  std::vector<PlanStep> steps;
  std::vector<PlanTuning> tunings;
  Json outputs;                    // tree whose leaves count the tensors in order: {"tensor": 0}
  std::vector<int> output_values;  // the value of each of those
  size_t inputs = 0;
  std::vector<std::string> texts;
  std::vector<TensorView> constants;  // views into the payload given to parse_plan
  size_t launches() const;
};

// Bytes of everything that is no view.
double memory_of(const Plan& plan);

// Throws kUsage naming the step and what is wrong with it, kUnsupported for an aten operation that is not on the list.
Plan parse_plan(const Json& json, std::span<const std::byte> payload, const PlanLimits& limits = {});

// A forward of the problem's own that is weighed (plan/work.h) and never replayed: the same with any operation. Throws
// kUsage.
Plan parse_calls(const Json& json, const PlanLimits& limits = {});

// A configuration of each tuning of a plan.
using Choice = std::vector<int>;
Choice recorders_choice(const Plan& plan);
inline bool is_done(const PlanStep& step, const Choice& choice) {
  return step.tuning < 0 || choice[static_cast<size_t>(step.tuning)] == step.configuration;
}
// The steps that are done with `choice`. Throws kUsage where it is none of a plan with these tunings.
std::vector<PlanStep> chosen_steps(const std::vector<PlanStep>& steps, const std::vector<PlanTuning>& tunings,
                                   const Choice& choice);

// Only its kernels and texts, to be compiled, and which steps launch them ("launches": [{"launch", "grid", "of"}]).
// Throws kUsage.
Plan parse_kernels(const Json& json, std::span<const std::byte> payload,
                   const PlanLimits& limits = PlanLimits::on_gpu());

// Its dimensions from the outermost in memory to the innermost, where it is dense; else those of a copy, row by row.
std::vector<int64_t> memory_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride);

// Of each output: it has more elements than the memory that it shows, so that one of these is at several places.
std::vector<bool> repeats_of(const Plan& plan);
// Of each output: its memory is in the order of its elements.
std::vector<bool> by_row(const Plan& plan);

// Operations that a plan may contain: functional, in-place and view operations that read and write nothing but their
// tensors. By schema name without overload.
bool is_allowed(std::string_view aten_name);
// Those that only make another view or shape of memory, or memory without contents: no work.
bool is_free(std::string_view aten_name);
// Those that only fill, copy, cast or pad.
bool only_moves(std::string_view aten_name);

}  // namespace tritonforge::evaluate
