#include "evaluate/drawn_reference.h"

#include <algorithm>
#include <set>

#include "base/checksum.h"
#include "base/log.h"
#include "base/rng.h"
#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/reference_process.h"

namespace tritonforge::evaluate {
namespace {

std::vector<int64_t> draw_fractions(uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> fractions(kSampled);
  for (int64_t& fraction : fractions) fraction = static_cast<int64_t>(rng.below(uint64_t{1} << 32));
  return fractions;
}

// What a plan leaves, as a frame would describe it.
Json described(const Plan& plan) {
  Json tensors = Json::array();
  for (const int value : plan.output_values) {
    const PlanValue& made = plan.values[static_cast<size_t>(value)];
    tensors.push_back({{"dtype", name_of(made.dtype)},
                       {"shape", made.shape},
                       {"order", memory_order(made.shape, made.stride)},
                       {"bytes", static_cast<uint64_t>(made.elements()) * size_of(made.dtype)}});
  }
  return tensors;
}

size_t bytes_of(const Json& tensors) {
  size_t bytes = 0;
  for (const Json& tensor : tensors) bytes += tensor.at("bytes").get<size_t>();
  return bytes;
}

// The plans as what is sent and kept of each trial needs them.
struct Plans {
  Json inputs, input_tensors;
  size_t input_bytes = 0, output_bytes = 0;
  double forward_memory = 0;
};

// get_inputs and forward as plans, by a process without the device. False: one of them is none.
bool record(Children& children, const ReferenceSpec& spec, ChildLimits limits, ReferenceData& data, Plans& plans,
            Deadline deadline) {
  limits.gpu = limits.processes = false;
  limits.gpu_uuid.clear();
  const auto child = children.spawn("reference", limits, deadline);
  ReferenceProcess process(*child, spec, deadline);
  bool recorded = false;
  try_to([&] {
    as_its_own([&] {
      process.load(data);
      auto inputs = process.inputs(data.admission.draw);
      if (!inputs) return;
      const Plan drawing = parse_plan(inputs->plan, inputs->payload);
      const std::set<int> different(drawing.output_values.begin(), drawing.output_values.end());
      if (different.size() < drawing.output_values.size()) return;
      plans.inputs = drawing.outputs;
      plans.input_tensors = described(drawing);
      plans.input_bytes = bytes_of(plans.input_tensors);
      auto forward = process.forward(plans.inputs, plans.input_tensors);
      if (!forward) return;
      const std::optional<Plan> call = keep(std::move(*forward), data);
      if (!call) return;
      plans.output_bytes = bytes_of(described(*call));
      plans.forward_memory = memory_of(*call);
      data.drawn = {std::move(inputs->plan), std::move(inputs->payload), draw_fractions(spec.fractions_seed), nullptr};
      recorded = true;
    });
  });
  return recorded;
}

// P's answer to "expect", as a trial; what its outputs are beside their elements it does not say.
std::unique_ptr<ReferenceTrial> trial_of(Frame answer, const Plans& plans) {
  auto trial = std::make_unique<ReferenceTrial>();
  trial->payload = std::move(answer.payload);
  Json all = Json::array();
  for (const char* list : {"drawn", "expected", "after"}) {
    for (Json& tensor : answer.header.at(list)) all.push_back(std::move(tensor));
  }
  const auto tensors = parse_tensors(all, trial->payload);
  const auto inputs = static_cast<ptrdiff_t>(plans.input_tensors.size());
  if (std::ssize(tensors) < 2 * inputs) fail(ErrorKind::kCorrupt, "a replayer's trial of too few tensors");
  trial->before.assign(tensors.begin(), tensors.begin() + inputs);
  trial->outputs.assign(tensors.begin() + inputs, tensors.end() - inputs);
  trial->after.assign(tensors.end() - inputs, tensors.end());
  trial->inputs = plans.inputs;
  trial->input_tensors = plans.input_tensors;
  trial->input_bytes = plans.input_bytes;
  trial->output_bytes = plans.output_bytes;
  return trial;
}

// By a process P; empty where it cannot.
std::vector<std::unique_ptr<ReferenceTrial>> draw_trials(Child& replayer, const ReferenceSpec& spec,
                                                         const ReferenceData& data, const Plans& plans,
                                                         Deadline deadline) {
  const auto ask = [&](const Json& request, const std::vector<std::span<const std::byte>>& payload) {
    return ask_replayer(replayer, "a reference's replayer", request, payload, deadline, kMaxPlanBytes);
  };
  Json load = {{"plan", data.plan},
               {"plan_bytes", data.plan_payload.size()},
               {"weights", data.state},
               {"tensors", data.tensors}};
  if (spec.draws_on->gpu()) load.update({{"target", spec.draws_on->target()}, {"binaries", Json::array()}});
  std::vector<std::span<const std::byte>> payload{data.plan_payload, data.payload};
  add_drawn_problem(data, load, payload);
  std::vector<std::unique_ptr<ReferenceTrial>> trials;
  Frame answer = ask(load, payload);
  for (const TrialSeeds& seeds : spec.trials) {
    if (!answer.header.contains("failed"))
      answer = ask({{"expect", true}, {"seed", seeds.inputs}, {"forward_seed", seeds.forward}}, {});
    if (answer.header.contains("failed")) {
      log::warn("problem {}: its trials are handed from process to process, replayers cannot draw them: {}",
                spec.problem_id, answer.header["failed"].value("text", ""));
      return {};
    }
    trials.push_back(trial_of(std::move(answer), plans));
    answer = {};
  }
  ask({{"reset", true}}, {});
  return trials;
}

bool all_close(const std::vector<TensorView>& some, const std::vector<TensorView>& others,
               const Tolerances& tolerances) {
  return std::ranges::equal(
      some, others, [&](const TensorView& a, const TensorView& b) { return compare(a, b, tolerances, "").passed; });
}

// The module makes the trials, too. Nullopt: it makes something else; else what its outputs are beside their elements.
std::optional<OutputForms> bears_witness(ReferenceProcess& own, const ReferenceSpec& spec, const ReferenceData& data,
                                         const std::vector<std::unique_ptr<ReferenceTrial>>& trials) {
  std::unique_ptr<ReferenceTrial> made;
  for (size_t k = 0; k < trials.size(); ++k) {
    as_its_own([&] { made = own.sample(spec.trials[k], data.admission.draw, data.drawn->fractions); });
    const ReferenceTrial& drawn = *trials[k];
    if (made_alike(drawn.before, drawn.outputs, *made, data.tolerances) &&
        all_close(drawn.after, made->after, data.tolerances))
      continue;
    log::warn("problem {}: its trials are handed from process to process: replayed, it gives something else",
              spec.problem_id);
    return std::nullopt;
  }
  return std::move(*made);
}

// The device with others that compute on it, and memory for both forwards. Empty on a CPU.
struct Held {
  Held(Device& device, const Plans& plans, Deadline deadline) {
    if (!device.gpu()) return;
    const auto data = static_cast<double>(plans.input_bytes + plans.output_bytes);
    memory.emplace(device.gpu()->memory().take(2 * plans.forward_memory + 4 * data, deadline));
    lock.emplace(device.gpu()->device().uuid);
    computing.emplace(lock->shared(deadline));
  }
  std::optional<DeviceMemory::Hold> memory;
  std::optional<DeviceLock> lock;
  std::optional<DeviceLock::Hold> computing;
};

}  // namespace

std::shared_ptr<const ReferenceData> draw_reference(Children& children, ReferenceSpec& spec, const ChildLimits& limits,
                                                    std::unique_ptr<Child>& witness, Deadline deadline) {
  auto data = std::make_shared<ReferenceData>();
  std::optional<ReferenceProcess> own;
  if (!spec.forms || !spec.admission) {
    if (!witness) witness = children.spawn("reference", limits, deadline);
    own.emplace(*witness, spec, deadline);
    as_its_own([&] { spec.admission = own->admission(); });
  }
  data->admission = *spec.admission;
  data->tolerances = spec.tolerances.scaled(data->admission.tolerance);
  if (!data->admission.barred.empty()) return data;
  Plans plans;
  if (!record(children, spec, limits, *data, plans, deadline)) return nullptr;
  DrawnForms forms{checksum(data->drawn->inputs.dump()), checksum(data->plan.dump()), {}};
  if (!own && (forms.inputs != spec.forms->inputs || forms.forward != spec.forms->forward)) {
    spec.forms.reset();  // under these seeds the problem is another one
    return draw_reference(children, spec, limits, witness, deadline);
  }
  ReferenceData unused;
  unused.admission = data->admission;
  if (own) as_its_own([&] { own->load(unused); });  // a context is made before the device is held
  ChildPool::Worker replayer = spec.draws_on->references().take(deadline);
  std::vector<std::unique_ptr<ReferenceTrial>> trials;
  std::optional<OutputForms> outputs;
  {
    const Held held(*spec.draws_on, plans, deadline);
    trials = draw_trials(*replayer.child, spec, *data, plans, deadline);
    if (trials.empty()) return nullptr;
    outputs = own ? bears_witness(*own, spec, *data, trials) : spec.forms->outputs;
  }
  spec.draws_on->references().give_back(std::move(replayer));
  if (!outputs) return nullptr;
  for (size_t k = 0; k < trials.size(); ++k) {
    static_cast<OutputForms&>(*trials[k]) = *outputs;
    keep(std::move(trials[k]), spec.trials[k], *data);
  }
  forms.outputs = std::move(*outputs);
  data->drawn->forms = own ? std::make_shared<const DrawnForms>(std::move(forms)) : spec.forms;
  return data;
}

bool made_alike(const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
                const ReferenceTrial& trial, const Tolerances& tolerances) {
  return std::ranges::equal(inputs, trial.before, identical) && all_close(outputs, trial.outputs, tolerances);
}

void add_drawn_problem(const ReferenceData& reference, Json& header, std::vector<std::span<const std::byte>>& payload) {
  const ReferenceData::Drawn& drawn = *reference.drawn;
  header["problem"] = {{"inputs", drawn.inputs},
                       {"inputs_bytes", drawn.payload.size()},
                       {"reference", reference.plan},
                       {"reference_bytes", reference.plan_payload.size()}};
  payload.emplace_back(drawn.payload);
  payload.emplace_back(reference.plan_payload);
  payload.emplace_back(std::as_bytes(std::span(drawn.fractions)));
}

}  // namespace tritonforge::evaluate
