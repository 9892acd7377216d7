#pragma once
// What one call of forward left behind, beside the reference's: the same judgement whoever ran the call, a candidate's
// process or the replay of its plan.
#include <span>
#include <string>
#include <vector>

#include "contract/verdict.h"
#include "evaluate/compare.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {

std::string clipped(const std::string& text, size_t size);
// The texts of a list that an untrusted process sent: 256 at most, each of 500 characters.
std::vector<std::string> strings_of(const Json& object, const char* key);
// A line more of what the model is shown; 4,000 characters at most.
void add_diagnostics(Verdict& verdict, const std::string& line);
// Once a kind; a cheat is also told in the diagnostics.
void add_flag(Verdict& verdict, Cheat kind, const std::string& evidence);
// What the source says before it runs, as the worker's "parsed" frame has it: [[doubt, evidence]]. Throws where that is
// not so; nothing of the candidate has run by then.
std::vector<Flag> screen_of(const Json& parsed);
// The last step of every evaluation: no text in a verdict, whoever wrote it, is longer than a reader needs, and no list
// has more than 256 items. Verdicts are kept in caches, sent to the buffer and shown on the page.
void bound(Verdict& verdict);

struct CallResult {
  Json outputs;                     // the tree that forward returned, tensors as indices
  std::vector<TensorView> tensors;  // the inputs as the call left them, then the outputs
  size_t inputs = 0;
  std::vector<int64_t> aliases;  // of each output: the input whose memory it is, -1 for none
  std::vector<bool> repeats;     // of each output of a plan: one element of memory is shown at several places
  std::vector<bool> by_row;      // likewise: its memory is in the order of its elements
  std::vector<int64_t> shared;   // likewise: an earlier one whose memory it shows (plan/pass.h), -1 for none
};

// What a replayer that drew a trial by itself says of all elements; `CallResult` holds the sampled ones.
struct WholeCall {
  struct Input {
    bool same = false;  // bit for bit as the reference leaves it
    Comparison compared;
  };
  std::vector<Input> inputs;
  std::vector<Comparison> outputs;
};

// The tree of a call's outputs and the rest from an answer's header; views into `payload`. Throws nlohmann's exceptions
// or kCorrupt where the header lacks what it must hold: a forgery.
CallResult call_result(const Json& outputs, const Json& header, std::span<const std::byte> payload);
// Throws kCorrupt where the result does not hold the trial's inputs.
void check_inputs(const CallResult& call, const ReferenceTrial& expected);

// Adds a Trial: inputs untouched, or changed within `tolerances` as the reference changes them, the reference's tree,
// its values within `tolerances`; of a drawn trial what was sampled, and by `whole` all of it. A failed one sets the
// fault and the diagnostics. `constant` stays true while every output of the reference is.
void judge_call(const CallResult& call, const WholeCall* whole, const ReferenceTrial& expected, size_t index,
                const Tolerances& tolerances, Verdict& verdict, bool& constant);
// Whether a call with every launch left out gives the reference's outputs all the same: its kernels do nothing.
bool same_outputs(const CallResult& call, const WholeCall* whole, const ReferenceTrial& expected,
                  const Tolerances& tolerances);

}  // namespace tritonforge::evaluate
