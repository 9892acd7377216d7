#pragma once
// Role R from the trusted side: init arguments, weights, inputs and expected outputs of one problem under given seeds.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/verdict.h"
#include "evaluate/admission.h"
#include "evaluate/children.h"
#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {

class Device;

// What outputs are beside their elements, whatever the seeds.
struct OutputForms {
  Json output_tree;           // their structure
  std::vector<bool> aliases;  // output i shares memory with an input
  std::vector<bool> repeats;  // it shows one element of memory at several places
  std::vector<bool> by_row;   // its memory is in the order of its elements
  std::vector<bool> shared;   // its memory is one with an earlier output's
};

struct ReferenceTrial : OutputForms {
  uint64_t seed = 0, forward_seed = 0;
  Json inputs, input_tensors;  // as the candidate is sent them
  size_t input_bytes = 0;      // the payload's first bytes, where it is not drawn
  size_t output_bytes = 0;
  std::vector<std::byte> payload;  // inputs, inputs after the call, outputs
  // Views into payload; of a drawn trial the elements that are sampled, flat.
  std::vector<TensorView> before, after, outputs;
  std::vector<Bounds> bounds, input_bounds;  // of each output, and input as the call leaves it
};

// Of a problem that was seen to be drawn as its module makes it (drawn_reference.h): what is the same for all seeds.
struct DrawnForms {
  std::string inputs, forward;  // checksums of the plans of get_inputs and forward, their constants apart
  OutputForms outputs;
};

struct ReferenceData {
  Json init, tensors, state, sizes;  // the frame that the candidate's "load" is built from
  // At the problem's own sizes, where they were reduced: {"init", "inputs", "tensors": forms without data, "outputs":
  // {"value", "tensors"}, null where it is not known}; null where they cannot be told without their data.
  Json full;
  std::vector<std::byte> payload;
  std::vector<std::unique_ptr<ReferenceTrial>> trials;
  Admission admission;
  Tolerances tolerances;  // of this problem
  // That its forward has torch do; nullopt where it was not asked for or cannot be recorded.
  std::optional<ReferenceWork> work;
  // The same forward as a plan, with its payload, to be replayed beside a candidate's; null where it is none, or where
  // not all of its weights are among `state`.
  Json plan;
  std::vector<std::byte> plan_payload;
  // Of a problem that is drawn where plans are replayed (plan/drawn.h): get_inputs as a plan, and which elements of
  // its tensors are sampled. Its trials hold those alone.
  struct Drawn {
    Json inputs;
    std::vector<std::byte> payload;
    std::vector<int64_t> fractions;
    std::shared_ptr<const DrawnForms> forms;
  };
  std::optional<Drawn> drawn;
  // Of a candidate whose launches do `own` and whose plan leaves `aten` to torch (plan/work.h).
  double own_share_of(const Work& own, const Work& aten) const;
  size_t bytes() const;
};

// What a problem's sizes are reduced to; 0: they stay.
struct Budget {
  int64_t elements = 0, flops = 0;  // of inputs, weights and outputs; of one forward
  bool operator==(const Budget&) const = default;
};
inline constexpr Budget kSmall{1 << 17, 1 << 27};  // runs in milliseconds on a CPU

// None is told by another (evaluate/seeds.h): a candidate's process is told that of the constructor, and in the modes
// where it runs forward that of forward.
struct TrialSeeds {
  uint64_t inputs = 0, forward = 0;
};
struct ReferenceSpec {
  std::string problem_id;  // for the log
  std::string source;
  uint64_t init_seed = 0, weight_seed = 0;
  std::vector<TrialSeeds> trials;
  Budget budget;
  Tolerances tolerances;               // of any problem
  std::optional<Admission> admission;  // where it is known; else the problem is probed
  bool timed = false;                  // its process is kept, for timing
  bool weigh = false;                  // ReferenceData::work; the child is of no further use then
  // Trials are drawn by its processes P, if get_inputs and forward are plans; with `weigh`.
  Device* draws_on = nullptr;
  uint64_t fractions_seed = 0;
  std::shared_ptr<const DrawnForms> forms;  // where they are known
};

struct ProblemFault {
  std::string text;
  Silence silence = Silence::kNone;  // its process gave no answer: nothing more is to be had from it
};

// Runs the spec in `child` (role reference), which stays usable for timing (not after `weigh`); trials are handed over
// whole. Of a problem that is barred there are none. Throws ProblemFault with the problem's own error.
std::shared_ptr<const ReferenceData> make_reference(Child& child, const ReferenceSpec& spec, Deadline deadline);

// {"tensor": 3} leaves made equal, so that the structure of two outputs can be compared.
Json shape_of_tree(const Json& tree);
// Whose fault it is that a candidate's process gave no frame; `how`: describe_silence's text.
Fault fault_of(Silence silence, const Child& child, const std::string& how);
std::string describe_silence(Silence silence, Child& child, const std::string& detail, double limit_s);
// What a process says of its own failure is that memory ran out, the device's or its own: in the words of torch's
// allocators, of a driver or of the C library. In the first line, since lines of a source may follow.
bool says_out_of_memory(std::string_view failure);

}  // namespace tritonforge::evaluate
