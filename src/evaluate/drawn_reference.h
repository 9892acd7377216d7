#pragma once
// The trials of a problem that is drawn where plans are replayed (plan/drawn.h), as the trusted side keeps them: made
// by a process P in which no candidate's kernel ever ran, from the problem's plans, which a process without the device
// records. That P makes what the module does the module itself bears witness to once, in a process of its own that has
// the device. Not every time: a driver makes one context of the whole host at a time, in 0.2 s, and lets every
// allocation of others wait meanwhile (docs/results.md, "Contexts").
#include "evaluate/device.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {

// Null: it cannot be drawn. Of a problem that is barred there are no trials. Leaves in `spec` what it found out of it,
// and in `witness` the process with the device that it asked, if one. Throws as make_reference, and DeviceFault where P
// was lost.
std::shared_ptr<const ReferenceData> draw_reference(Children& children, ReferenceSpec& spec, const ChildLimits& limits,
                                                    std::unique_ptr<Child>& witness, Deadline deadline);

// What a process made of a trial's seeds is what `trial` holds: the inputs' bits, and outputs within the tolerance.
bool made_alike(const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
                const ReferenceTrial& trial, const Tolerances& tolerances);

// Adds to what P is handed ("plan": plan/process.cpp) how the problem is drawn.
void add_drawn_problem(const ReferenceData& reference, Json& header, std::vector<std::span<const std::byte>>& payload);

}  // namespace tritonforge::evaluate
