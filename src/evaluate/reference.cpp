#include "evaluate/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "base/checksum.h"
#include "base/rng.h"

namespace tritonforge::evaluate {
namespace {

Frame ask(Child& child, const Json& request, Deadline deadline) {
  Frame frame;
  std::string detail;
  const double limit_s = deadline.remaining_s();
  Silence silence = child.channel().send(request, {}, deadline);
  if (silence == Silence::kNone) silence = child.channel().receive(frame, deadline, detail);
  if (silence != Silence::kNone) {
    const std::string how = describe_silence(silence, child, detail, std::round(limit_s));
    if (silence == Silence::kClosed && child.orphaned())
      fail(ErrorKind::kUnavailable, "evaluator: the Python parent died under the problem's code");
    throw ProblemFault{"the problem's own code " + how, silence};
  }
  if (frame.header.contains("failed"))
    throw ProblemFault{"the problem's own code fails: " + frame.header["failed"].value("text", "")};
  if (frame.header.contains("fatal")) throw ProblemFault{"the problem's child failed: " + frame.header["fatal"].dump()};
  return frame;
}

std::unique_ptr<ReferenceTrial> take_trial(Frame frame) {
  auto trial = std::make_unique<ReferenceTrial>();
  trial->payload = std::move(frame.payload);
  const auto tensors = parse_tensors(frame.header.at("tensors"), trial->payload);
  const auto inputs = frame.header.at("input_tensors").get<size_t>(),
             after = frame.header.at("after_tensors").get<size_t>();
  if (inputs + after > tensors.size() || inputs != after)
    fail(ErrorKind::kCorrupt, "the problem's child announced wrong tensor counts");
  trial->inputs = frame.header.at("inputs");
  trial->input_tensors = Json::array();
  for (size_t i = 0; i < inputs; ++i) {
    trial->input_tensors.push_back(frame.header["tensors"][i]);
    trial->input_bytes += tensors[i].bytes.size();
  }
  const auto at = [&](size_t i) { return tensors.begin() + static_cast<ptrdiff_t>(i); };
  trial->before.assign(at(0), at(inputs));
  trial->after.assign(at(inputs), at(inputs + after));
  trial->outputs.assign(at(inputs + after), tensors.end());
  trial->output_tree = frame.header.at("outputs");
  for (const auto& alias : frame.header.at("aliases")) trial->aliases.push_back(alias.get<bool>());
  trial->aliases.resize(trial->outputs.size());
  for (const auto& repeated : frame.header.at("repeats")) trial->repeats.push_back(repeated.get<bool>());
  trial->repeats.resize(trial->outputs.size());
  for (const auto& by_row : frame.header.at("by_row")) trial->by_row.push_back(by_row.get<bool>());
  trial->by_row.resize(trial->outputs.size());
  for (const TensorView& output : trial->outputs) trial->output_bytes += output.bytes.size();
  return trial;
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

constexpr size_t kFractions = size_t{1} << 16;

std::vector<int64_t> draw_fractions(uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> fractions(kFractions);
  for (int64_t& fraction : fractions) fraction = static_cast<int64_t>(rng.below(uint64_t{1} << 32));
  return fractions;
}

void keep(std::unique_ptr<ReferenceTrial> trial, const TrialSeeds& seeds, ReferenceData& data) {
  trial->seed = seeds.inputs;
  trial->forward_seed = seeds.forward;
  for (const TensorView& output : trial->outputs) trial->bounds.push_back(bounds_of(output, data.tolerances));
  for (const TensorView& left : trial->after) trial->input_bounds.push_back(bounds_of(left, data.tolerances));
  data.trials.push_back(std::move(trial));
}

// What one way to draw inputs and weights gives. Wider ones may be more than the problem takes: then there is no
// output. One that its process does not survive, or not in time, says nothing of right and wrong.
Probe probe_of(Child& child, uint64_t seed, Draw draw, Deadline deadline) {
  const auto seed_of = [&](int trial) { return Rng::derive(Rng::derive(seed, "probe"), trial) >> 1; };
  Probe probe;
  try {
    Frame frame = ask(child,
                      {{"op", "probe"},
                       {"seeds", {seed_of(0), seed_of(1)}},
                       {"forward_seed", Rng::derive(seed, "forward") >> 1},
                       {"inputs", name_of(draw)},
                       {"max_bytes", ChannelLimits().frame_bytes}},
                      deadline);
    probe.payload = std::move(frame.payload);
    const auto tensors = parse_tensors(frame.header.at("tensors"), probe.payload);
    size_t at = 0;
    for (const auto& run : frame.header.at("runs")) {
      const auto count = run.at(1).get<size_t>();
      if (count > tensors.size() - at) fail(ErrorKind::kCorrupt, "the problem's child announced too many tensors");
      const auto first = tensors.begin() + static_cast<ptrdiff_t>(at);
      probe.runs[run.at(0).get<std::string>()].assign(first, first + static_cast<ptrdiff_t>(count));
      at += count;
    }
    for (const auto& name : frame.header.at("idle")) probe.idle.push_back(name.get<std::string>().substr(0, 60));
  } catch (const ProblemFault& fault) {
    if (draw == Draw::kAsGiven) throw;
    if (fault.silence != Silence::kNone)
      throw ProblemFault{fmt::format("{} (held against its controls, drawn {})", fault.text, name_of(draw)),
                         fault.silence};
    return {};
  }
  return probe;
}

// The problem's own code is no candidate: where it cannot be recorded, or breaks under it, there is nothing to hold
// against anybody.
void record(Child& child, ReferenceData& data, Deadline deadline) {
  const ReferenceTrial& call = *data.trials.front();
  Frame frame = ask(child, {{"op", "record"}, {"inputs", call.inputs}, {"tensors", call.input_tensors}}, deadline);
  if (!frame.header.contains("plan")) return;
  const Plan plan = parse_plan(frame.header["plan"], frame.payload);
  data.work = reference_work(plan);
  std::set<std::string> known;
  for (const auto& item : data.state) known.insert(item.at(0).get<std::string>());
  const bool complete = std::all_of(plan.values.begin(), plan.values.end(), [&](const PlanValue& value) {
    return value.weight.empty() || known.contains(value.weight);
  });
  if (!complete) return;
  data.plan = std::move(frame.header["plan"]);
  data.plan_payload = std::move(frame.payload);
}

// Of what is no plan the calls are known all the same, from a forward over a trial's inputs.
void count_calls(Child& child, ReferenceData& data, Deadline deadline) {
  const uint64_t seed = data.trials.front()->seed;
  const Frame frame = ask(child, {{"op", "weigh"}, {"seed", seed}, {"inputs", name_of(data.admission.draw)}}, deadline);
  if (frame.header.contains("plan")) data.work = reference_work(parse_calls(frame.header["plan"]));
}

using Weigh = void (*)(Child& child, ReferenceData& data, Deadline deadline);

void try_to(Weigh weigh, Child& child, ReferenceData& data, Deadline deadline) {
  try {
    weigh(child, data, deadline);
  } catch (const ProblemFault& fault) {
    if (fault.silence == Silence::kTimeout) throw;  // the machine's load shall not decide what is weighed
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) throw;
  }
}

// The problem's get_inputs as a plan, where it is one.
std::unique_ptr<ReferenceData::Drawn> drawn_inputs(Child& child, const ReferenceSpec& spec, Draw draw, Plan& plan,
                                                   Deadline deadline) {
  if (!spec.draw || !spec.weigh) return nullptr;
  Frame frame = ask(child, {{"op", "draw"}, {"inputs", name_of(draw)}}, deadline);
  if (!frame.header.contains("plan")) return nullptr;
  auto drawn = std::make_unique<ReferenceData::Drawn>();
  drawn->inputs = std::move(frame.header["plan"]);
  drawn->payload = std::move(frame.payload);
  try {
    plan = parse_plan(drawn->inputs, drawn->payload);
  } catch (const Error& error) {  // it has operations that no plan may have, or is too large for one
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) throw;
    return nullptr;
  }
  const std::set<int> different(plan.output_values.begin(), plan.output_values.end());
  if (different.size() < plan.output_values.size()) return nullptr;
  drawn->fractions = draw_fractions(spec.fractions_seed);
  return drawn;
}

// The trials as the problem's own process makes them, of which it hands over the sampled elements. Leaves data.drawn
// empty, and no trials, where they have to be handed over whole; whether the module was used up by then.
bool draw_trials(Child& child, const ReferenceSpec& spec, ReferenceData& data, Deadline deadline) {
  Plan plan;
  const Draw draw = data.admission.draw;
  data.drawn = drawn_inputs(child, spec, draw, plan, deadline);
  if (!data.drawn) return false;
  const Json tensors = described(plan);
  // Before its forward is seen, what it takes beside its inputs is a guess: as much three times over.
  std::optional<DeviceMemory::Hold> memory;
  if (spec.memory) memory.emplace(spec.memory->take(4.0 * static_cast<double>(bytes_of(tensors)), deadline));
  for (const TrialSeeds& seeds : spec.trials) {
    Frame frame = ask(child,
                      {{"op", "sample"},
                       {"seed", seeds.inputs},
                       {"forward_seed", seeds.forward},
                       {"inputs", name_of(draw)},
                       {"fractions", data.drawn->fractions}},
                      deadline);
    auto trial = take_trial(std::move(frame));
    trial->inputs = plan.outputs;
    trial->input_tensors = tensors;
    trial->input_bytes = bytes_of(tensors);
    keep(std::move(trial), seeds, data);
  }
  memory.reset();
  try_to(record, child, data, deadline);
  if (!data.plan.is_null()) {
    const Json outputs = described(parse_plan(data.plan, data.plan_payload));
    for (auto& trial : data.trials) trial->output_bytes = bytes_of(outputs);
    return false;
  }
  data.drawn.reset();
  data.trials.clear();
  data.work.reset();
  return true;
}

}  // namespace

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
  using Loaded = std::tuple<uint64_t, bool, Budget>;  // the module in the child
  std::optional<Loaded> loaded;
  const auto load = [&](uint64_t seed, uint64_t weight_seed, Draw draw, const Budget& budget, bool probing) {
    const bool large = draw == Draw::kLargeWeights;
    if (loaded == Loaded(seed, large, budget)) return;
    loaded = Loaded(seed, large, budget);
    Json request = {{"op", "problem"},
                    {"source", spec.source},
                    {"seed", seed},
                    {"weight_seed", weight_seed},
                    {"large_weights", large},
                    {"probe", probing},
                    {"max_state", uint64_t{1} << 30}};
    if (budget.elements > 0) request["budget"] = {{"elements", budget.elements}, {"flops", budget.flops}};
    Frame frame = ask(child, request, deadline);
    data->init = frame.header.at("init");
    data->tensors = frame.header.at("tensors");
    data->state = frame.header.at("state");
    data->sizes = frame.header.at("sizes");
    data->full = frame.header.at("full");
    data->payload = std::move(frame.payload);
    parse_tensors(data->tensors, data->payload);  // checked before it is handed on
  };
  // A problem is admitted alike, whoever asks first, and at sizes at which its controls cost little.
  const Budget small = spec.budget.elements > 0 ? Budget{std::min(spec.budget.elements, kSmall.elements),
                                                         std::min(spec.budget.flops, kSmall.flops)}
                                                : kSmall;
  const auto probe = [&, seed = Rng::derive(0, checksum(spec.source))](Draw draw) {
    load(seed >> 1, Rng::derive(seed, "weights") >> 1, draw, small, true);
    return probe_of(child, seed, draw, deadline);
  };
  try {
    data->admission = spec.admission ? *spec.admission : admit(probe, spec.tolerances);
    data->tolerances = spec.tolerances.scaled(data->admission.tolerance);
    if (!data->admission.barred.empty()) return data;
    const auto load_whole = [&] { load(spec.init_seed, spec.weight_seed, data->admission.draw, spec.budget, false); };
    load_whole();
    if (draw_trials(child, spec, *data, deadline)) {
      loaded.reset();
      load_whole();
    }
    if (data->drawn) return data;
    for (const TrialSeeds& seeds : spec.trials) {
      Frame frame = ask(child,
                        {{"op", "trial"},
                         {"seed", seeds.inputs},
                         {"forward_seed", seeds.forward},
                         {"inputs", name_of(data->admission.draw)},
                         {"max_bytes", ChannelLimits().frame_bytes}},
                        deadline);
      keep(take_trial(std::move(frame)), seeds, *data);
    }
    if (spec.weigh) try_to(record, child, *data, deadline);
    if (spec.weigh && !data->work) try_to(count_calls, child, *data, deadline);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw ProblemFault{fmt::format("the problem's child sent something that is not an answer: {}", error.what())};
  } catch (const nlohmann::json::exception&) {
    throw ProblemFault{"the problem's child sent an answer without the expected fields"};
  }
  return data;
}

}  // namespace tritonforge::evaluate
