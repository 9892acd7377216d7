#include "evaluate/reference.h"

#include <algorithm>
#include <array>

#include "evaluate/reference_process.h"

namespace tritonforge::evaluate {

double ReferenceData::own_share_of(const Work& own, const Work& aten) const {
  return own_share(own, aten, work ? std::optional(work->work) : std::nullopt);
}

size_t ReferenceData::bytes() const {
  size_t total = payload.size() + plan_payload.size() + 4096;
  for (const auto& trial : trials) total += trial->payload.size() + 4096;
  return total;
}

Json shape_of_tree(const Json& tree) {
  if (tree.is_object() && tree.contains("tensor")) return {{"tensor", nullptr}};
  if (tree.is_object() && tree.contains("tuple"))
    return shape_of_tree({{"list", tree["tuple"]}});  // KernelBench takes either
  if (tree.is_structured()) {
    Json out = tree;
    for (auto& item : out) item = shape_of_tree(item);
    return out;
  }
  return tree;
}

namespace {

// Seen by the watch from outside, or ended by the kernel.
bool took_too_much(Silence silence, const Child& child) {
  return silence == Silence::kMemory || (silence == Silence::kClosed && child.ran_out_of_memory());
}

}  // namespace

Fault fault_of(Silence silence, const Child& child, const std::string& how) {
  if (silence == Silence::kGarbled) return Fault::kForbidden;
  if (silence == Silence::kTimeout || how.find("CPU time") != std::string::npos) return Fault::kTimeout;
  return took_too_much(silence, child) ? Fault::kOutOfMemory : Fault::kCrashed;
}

std::string describe_silence(Silence silence, Child& child, const std::string& detail, double limit_s) {
  switch (took_too_much(silence, child) ? Silence::kMemory : silence) {
    case Silence::kTimeout:
      return limit_s > 0 ? fmt::format("did not finish within {:.0f} s", limit_s) : "did not finish in time";
    case Silence::kMemory:
      return fmt::format("used too much memory ({} MiB) or too many processes", child.channel().peak_memory() >> 20);
    case Silence::kGarbled: return "wrote to the result channel itself (" + detail + ")";
    default: return child.ending(Deadline::after(2));
  }
}

bool says_out_of_memory(std::string_view failure) {
  const std::string_view line = failure.substr(0, failure.find('\n'));
  constexpr std::array<std::string_view, 4> kWords = {"out of memory", "not enough memory", "can't allocate memory",
                                                      "Cannot allocate memory"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view words) { return line.find(words) != std::string_view::npos; });
}

std::shared_ptr<const ReferenceData> make_reference(Child& child, const ReferenceSpec& spec, Deadline deadline) {
  auto data = std::make_shared<ReferenceData>();
  ReferenceProcess process(child, spec, deadline);
  as_its_own([&] {
    data->admission = process.admission();
    data->tolerances = spec.tolerances.scaled(data->admission.tolerance);
    if (!data->admission.barred.empty()) return;
    process.load(*data);
    for (const TrialSeeds& seeds : spec.trials) keep(process.trial(seeds, data->admission.draw), seeds, *data);
    if (!spec.weigh) return;
    const ReferenceTrial& call = *data->trials.front();
    try_to([&] {
      if (auto forward = process.forward(call.inputs, call.input_tensors)) keep(std::move(*forward), *data);
    });
    if (data->work) return;
    // The calls are known all the same, from a forward over a trial's inputs.
    try_to([&] {
      if (const auto calls = process.calls(call.seed, data->admission.draw))
        data->work = reference_work(parse_calls(*calls));
    });
  });
  return data;
}

}  // namespace tritonforge::evaluate
