#include "evaluate/reference_process.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/checksum.h"
#include "base/rng.h"
#include "evaluate/conversation.h"

namespace tritonforge::evaluate {
namespace {

constexpr int kProbedTrials = 9;
// Of weights that are handed on; and of a trial of a problem that is made smaller, where nothing was found to halve.
constexpr uint64_t kMaxState = uint64_t{1} << 30, kMaxReduced = uint64_t{1} << 30;

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
  const std::pair<const char*, std::vector<bool>*> flags[] = {{"aliases", &trial->aliases},
                                                              {"repeats", &trial->repeats},
                                                              {"by_row", &trial->by_row},
                                                              {"shared", &trial->shared}};
  for (const auto& [name, into] : flags) {
    for (const auto& flag : frame.header.at(name)) into->push_back(flag.get<bool>());
    into->resize(trial->outputs.size());
  }
  for (const TensorView& output : trial->outputs) trial->output_bytes += output.bytes.size();
  return trial;
}

}  // namespace

// Of a trial's tensors, or a probe's.
uint64_t ReferenceProcess::max_bytes() const {
  return spec_.budget.elements > 0 ? kMaxReduced : ChannelLimits().frame_bytes;
}

Frame ReferenceProcess::ask(const Json& request, uint64_t payload_bytes) {
  Frame frame;
  std::string detail;
  const double limit_s = deadline_.remaining_s();
  Silence silence = child_.channel().send(request, {}, deadline_);
  if (silence == Silence::kNone) silence = child_.channel().receive(frame, deadline_, detail, payload_bytes);
  if (silence != Silence::kNone) {
    const std::string how = describe_silence(silence, child_, detail, std::round(limit_s));
    if (silence == Silence::kClosed && child_.orphaned())
      fail(ErrorKind::kUnavailable, "evaluator: the Python parent died under the problem's code");
    throw ProblemFault{"the problem's own code " + how, silence};
  }
  if (frame.header.contains("failed"))
    throw ProblemFault{"the problem's own code fails: " + frame.header["failed"].value("text", "")};
  if (frame.header.contains("fatal")) throw ProblemFault{"the problem's child failed: " + frame.header["fatal"].dump()};
  return frame;
}

void ReferenceProcess::load(const Module& module, uint64_t weight_seed, bool probing, ReferenceData& data) {
  if (loaded_ == module) return;
  loaded_ = module;
  const auto& [seed, large, budget] = module;
  Json request = {
      {"op", "problem"},        {"source", spec_.source}, {"seed", seed},          {"weight_seed", weight_seed},
      {"large_weights", large}, {"probe", probing},       {"max_state", kMaxState}};
  if (budget.elements > 0) request["budget"] = {{"elements", budget.elements}, {"flops", budget.flops}};
  Frame frame = ask(request, kMaxState + kPayloadSlack);
  data.init = frame.header.at("init");
  data.tensors = frame.header.at("tensors");
  data.state = frame.header.at("state");
  data.sizes = frame.header.at("sizes");
  data.full = frame.header.at("full");
  data.payload = std::move(frame.payload);
  parse_tensors(data.tensors, data.payload);  // checked before it is handed on
}

void ReferenceProcess::load(ReferenceData& data) {
  const bool large = data.admission.draw == Draw::kLargeWeights;
  load({spec_.init_seed, large, spec_.budget}, spec_.weight_seed, false, data);
}

// What one way to draw inputs and weights gives. Wider ones may be more than the problem takes: then there is no
// output. One that its process does not survive, or not in time, says nothing of right and wrong.
Probe ReferenceProcess::probe_of(uint64_t seed, Draw draw) {
  std::vector<uint64_t> seeds;
  for (int trial = 0; trial < kProbedTrials; ++trial)
    seeds.push_back(Rng::derive(Rng::derive(seed, "probe"), trial) >> 1);
  Probe probe;
  try {
    Frame frame = ask({{"op", "probe"},
                       {"seeds", seeds},
                       {"forward_seed", Rng::derive(seed, "forward") >> 1},
                       {"inputs", name_of(draw)},
                       {"max_bytes", max_bytes()}},
                      max_bytes());
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

Admission ReferenceProcess::admission() {
  if (spec_.admission) return *spec_.admission;
  // A problem is admitted alike, whoever asks first, and at sizes at which its controls cost little.
  const Budget small = spec_.budget.elements > 0 ? Budget{std::min(spec_.budget.elements, kSmall.elements),
                                                          std::min(spec_.budget.flops, kSmall.flops)}
                                                 : kSmall;
  const uint64_t seed = Rng::derive(0, checksum(spec_.source));
  ReferenceData unused;
  const auto probe = [&](Draw draw) {
    load({seed >> 1, draw == Draw::kLargeWeights, small}, Rng::derive(seed, "weights") >> 1, true, unused);
    return probe_of(seed, draw);
  };
  Admission found = admit(probe, spec_.tolerances);
  loaded_.reset();  // its plain twin is of no use to trials
  return found;
}

std::unique_ptr<ReferenceTrial> ReferenceProcess::trial(const TrialSeeds& seeds, Draw draw) {
  return take_trial(ask({{"op", "trial"},
                         {"seed", seeds.inputs},
                         {"forward_seed", seeds.forward},
                         {"inputs", name_of(draw)},
                         {"max_bytes", max_bytes()}},
                        max_bytes()));
}

std::unique_ptr<ReferenceTrial> ReferenceProcess::sample(const TrialSeeds& seeds, Draw draw,
                                                         const std::vector<int64_t>& fractions) {
  return take_trial(ask({{"op", "sample"},
                         {"seed", seeds.inputs},
                         {"forward_seed", seeds.forward},
                         {"inputs", name_of(draw)},
                         {"fractions", fractions}},
                        kMaxPlanBytes));
}

std::optional<ReferenceProcess::Recorded> ReferenceProcess::recorded(const Json& request) {
  Frame frame = ask(request, kMaxPlanBytes);
  if (!frame.header.contains("plan")) return std::nullopt;
  return Recorded{std::move(frame.header["plan"]), std::move(frame.payload)};
}

std::optional<ReferenceProcess::Recorded> ReferenceProcess::inputs(Draw draw) {
  return recorded({{"op", "draw"}, {"inputs", name_of(draw)}});
}

std::optional<ReferenceProcess::Recorded> ReferenceProcess::forward(const Json& inputs, const Json& tensors) {
  loaded_.reset();
  return recorded({{"op", "record"}, {"inputs", inputs}, {"tensors", tensors}});
}

std::optional<Json> ReferenceProcess::calls(uint64_t seed, Draw draw) {
  auto found = recorded({{"op", "weigh"}, {"seed", seed}, {"inputs", name_of(draw)}});
  if (!found) return std::nullopt;
  return std::move(found->plan);
}

void as_its_own(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw ProblemFault{fmt::format("the problem's child sent something that is not an answer: {}", error.what())};
  } catch (const nlohmann::json::exception&) {
    throw ProblemFault{"the problem's child sent an answer without the expected fields"};
  }
}

void try_to(const std::function<void()>& weigh) {
  try {
    weigh();
  } catch (const ProblemFault& fault) {
    if (fault.silence == Silence::kTimeout) throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported) throw;
  }
}

void keep(std::unique_ptr<ReferenceTrial> trial, const TrialSeeds& seeds, ReferenceData& data) {
  trial->seed = seeds.inputs;
  trial->forward_seed = seeds.forward;
  for (const TensorView& output : trial->outputs) trial->bounds.push_back(bounds_of(output, data.tolerances));
  for (const TensorView& left : trial->after) trial->input_bounds.push_back(bounds_of(left, data.tolerances));
  data.trials.push_back(std::move(trial));
}

std::optional<Plan> keep(ReferenceProcess::Recorded forward, ReferenceData& data) {
  Plan plan = parse_plan(forward.plan, forward.payload);
  data.work = reference_work(plan);
  std::set<std::string> known;
  for (const auto& item : data.state) known.insert(item.at(0).get<std::string>());
  const bool complete = std::all_of(plan.values.begin(), plan.values.end(), [&](const PlanValue& value) {
    return value.weight.empty() || known.contains(value.weight);
  });
  if (!complete) return std::nullopt;
  data.plan = std::move(forward.plan);
  data.plan_payload = std::move(forward.payload);  // its bytes stay where they are
  return plan;
}

}  // namespace tritonforge::evaluate
