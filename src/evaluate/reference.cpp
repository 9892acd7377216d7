#include "evaluate/reference.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/checksum.h"
#include "base/rng.h"

namespace tritonforge::evaluate {
namespace {

Frame ask(Child& child, const Json& request, Deadline deadline) {
  Frame frame;
  std::string detail;
  Silence silence = child.channel().send(request, {}, deadline);
  if (silence == Silence::kNone) silence = child.channel().receive(frame, deadline, detail);
  if (silence != Silence::kNone) {
    const std::string how = describe_silence(silence, child, detail, 0);
    if (silence == Silence::kClosed && child.orphaned())
      fail(ErrorKind::kUnavailable, "evaluator: the Python parent died under the problem's code");
    throw ProblemFault{"the problem's own code " + how};
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
  return trial;
}

// What one way to draw inputs and weights gives. Wider ones may be more than the problem takes: then there is no
// output.
Probe probe_of(Child& child, uint64_t seed, Draw draw, Deadline deadline) {
  const auto seed_of = [&](int trial) { return Rng::derive(Rng::derive(seed, "probe"), trial) >> 1; };
  Probe probe;
  try {
    Frame frame = ask(child,
                      {{"op", "probe"},
                       {"seeds", {seed_of(0), seed_of(1)}},
                       {"forward_seed", Rng::derive(seed, "forward") >> 1},
                       {"inputs", name_of(draw)}},
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
  } catch (const ProblemFault&) {
    if (draw == Draw::kAsGiven) throw;
    return {};
  }
  return probe;
}

// The problem's own code is no candidate: where it cannot be recorded, or breaks under it, there is nothing to hold
// against anybody.
void weigh(Child& child, ReferenceData& data, Deadline deadline) {
  try {
    Frame frame = ask(child, {{"op", "record"}}, deadline);
    if (!frame.header.contains("plan")) return;
    const Plan plan = parse_plan(frame.header["plan"], frame.payload);
    const auto calls = calls_of(plan);
    data.work = ReferenceWork{aten_work(plan, calls), calls};
    std::set<std::string> known;
    for (const auto& item : data.state) known.insert(item.at(0).get<std::string>());
    const bool complete = std::all_of(plan.values.begin(), plan.values.end(), [&](const PlanValue& value) {
      return value.weight.empty() || known.contains(value.weight);
    });
    if (!complete) return;
    data.plan = std::move(frame.header["plan"]);
    data.plan_payload = std::move(frame.payload);
  } catch (const ProblemFault&) {
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) throw;
  }
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

Fault fault_of(Silence silence, const std::string& how) {
  if (silence == Silence::kGarbled) return Fault::kForbidden;
  if (silence == Silence::kTimeout || how.find("CPU time") != std::string::npos) return Fault::kTimeout;
  return silence == Silence::kMemory ? Fault::kOutOfMemory : Fault::kCrashed;
}

std::string describe_silence(Silence silence, Child& child, const std::string& detail, double limit_s) {
  switch (silence) {
    case Silence::kTimeout:
      return limit_s > 0 ? fmt::format("did not finish within {:.0f} s", limit_s) : "did not finish in time";
    case Silence::kMemory:
      return fmt::format("used too much memory ({} MiB) or too many processes", child.channel().peak_memory() >> 20);
    case Silence::kGarbled: return "wrote to the result channel itself (" + detail + ")";
    default: return child.ending(Deadline::after(2));
  }
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
    load(spec.init_seed, spec.weight_seed, data->admission.draw, spec.budget, false);
    for (const TrialSeeds& seeds : spec.trials) {
      Frame frame = ask(child,
                        {{"op", "trial"},
                         {"seed", seeds.inputs},
                         {"forward_seed", seeds.forward},
                         {"inputs", name_of(data->admission.draw)}},
                        deadline);
      data->trials.push_back(take_trial(std::move(frame)));
      data->trials.back()->seed = seeds.inputs;
      for (const TensorView& output : data->trials.back()->outputs)
        data->trials.back()->bounds.push_back(bounds_of(output, data->tolerances));
      data->trials.back()->forward_seed = seeds.forward;
    }
    if (spec.weigh) weigh(child, *data, deadline);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw ProblemFault{fmt::format("the problem's child sent something that is not an answer: {}", error.what())};
  } catch (const nlohmann::json::exception&) {
    throw ProblemFault{"the problem's child sent an answer without the expected fields"};
  }
  return data;
}

}  // namespace tritonforge::evaluate
