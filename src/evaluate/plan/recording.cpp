// The part of PlanRunner that speaks with U: the candidate is loaded and its forward recorded, or fails there.
#include "evaluate/plan/as_plan.h"
#include "evaluate/plan/runner.h"

namespace tritonforge::evaluate {
namespace {

constexpr size_t kMaxAnswer = 1 << 20;

// A failure that any mode would see: of what Python's parser and Triton's front end refuse, and what its process says
// is no doing of the recorder's. It can only lower a reward.
std::optional<Ended> own_failure(const Frame& frame) {
  if (!frame.header.contains("failed")) return std::nullopt;
  Ended ended = failure_of(frame);
  const bool text = ended.fault == Fault::kSyntaxError || ended.fault == Fault::kCompileError;
  return text || frame.header.value("own", false) ? std::optional(std::move(ended)) : std::nullopt;
}

// The reference's parameters and buffers of one element, whose value forward may ask for (.item()): every trial begins
// with it.
struct Numbers {
  Json named = Json::array();  // [name, tensor]
  std::vector<std::span<const std::byte>> payload;
};

Numbers numbers_of(const ReferenceData& reference) {
  Numbers numbers;
  std::map<size_t, std::string> names;  // by tensor
  for (const auto& item : reference.state) names.emplace(item.at(1).get<size_t>(), item.at(0).get<std::string>());
  size_t at = 0;
  for (size_t k = 0; k < reference.tensors.size(); ++k) {
    const Json& tensor = reference.tensors[k];
    const auto bytes = tensor.at("bytes").get<size_t>();
    const Json& shape = tensor.at("shape");
    const bool one = std::all_of(shape.begin(), shape.end(), [](const Json& size) { return size == 1; });
    if (one && names.contains(k)) {
      numbers.named.push_back({names[k], tensor});
      numbers.payload.push_back(std::span(reference.payload).subspan(at, bytes));
    }
    at += bytes;
  }
  return numbers;
}

}  // namespace

std::optional<Conversation> PlanRunner::load_candidate(const Json& how, std::span<const std::byte> init_tensors,
                                                       Loaded& loaded) {
  std::unique_ptr<Child> child;  // a Python parent that is started again takes seconds, which are not the candidate's
  time_.paused(
      [&] { child = context_.children.spawn("record", candidate_limits(context_.options), context_.overall); });
  Conversation candidate(std::move(child), time_);
  loaded.layers = candidate.child().layers();
  Json request = how;
  request["op"] = "load";
  request["source"] = context_.request.candidate;
  request["seed"] = context_.init_seed;
  request["state"] = Json::array();
  request["targets"] = targets_;
  request["language"] = context_.language.name();
  candidate.send(request, {init_tensors}, "loading");
  Stage reached = Stage::kExtracted;
  for (const char* stage : {"parsed", "imported", "built"}) {
    const Frame frame = candidate.receive("loading", kMaxAnswer);
    if (auto ended = own_failure(frame)) {
      take_failure(frame, *ended, loaded);
      loaded.stage = reached;
      return std::nullopt;
    }
    if (frame.header.contains("failed"))
      throw NotAPlan{.reason = "the candidate does not load", .ended = failure_of(frame), .stage = reached};
    if (frame.header.value("stage", "") != stage) throw NotAPlan{"the candidate does not load"};
    if (stage == std::string_view("parsed")) loaded.doubts = screen_of(frame.header);
    reached = stage == std::string_view("parsed") ? Stage::kParsed : Stage::kImported;
  }
  return candidate;
}

// U: the candidate is loaded and its forward recorded. It is sent nothing of a trial but shapes.
void PlanRunner::record(Loaded& loaded) {
  const Spent::Range recording(context_.spent, Part::kRecording);
  const ReferenceData& reference = context_.reference;
  const ReferenceTrial& first = *reference.trials.front();
  for (const auto& trial : reference.trials) {
    if (trial->inputs != first.inputs || trial->input_tensors != first.input_tensors)
      throw NotAPlan{"the problem's inputs differ in shape from trial to trial"};
  }
  // The reference's tensors: those of the init arguments first, then the weights.
  size_t first_weight = reference.tensors.size(), init_bytes = 0;
  Json weights = Json::array(), init_tensors = Json::array();
  for (const auto& item : reference.state) {
    first_weight = std::min(first_weight, item.at(1).get<size_t>());
    if (weights_ == Weights::kReferences)
      weights.push_back({item.at(0), reference.tensors.at(item.at(1).get<size_t>())});
  }
  for (size_t k = 0; k < first_weight; ++k) {
    init_tensors.push_back(reference.tensors[k]);
    init_bytes += reference.tensors[k].at("bytes").get<size_t>();
  }
  // What is too small for tl.dot at reduced sizes alone is not refused: full_size, or who asks, has the problem's own.
  const bool small_dots = !context_.compiles || !reference.full.is_null();
  auto candidate = load_candidate(
      {{"init", reference.init}, {"tensors", init_tensors}, {"sizes", reference.sizes}, {"small_dots", small_dots}},
      std::span(reference.payload).first(init_bytes), loaded);
  if (!candidate) return;
  const Numbers numbers = weights_ == Weights::kReferences ? numbers_of(reference) : Numbers();
  took_weights_ = !numbers.named.empty();
  candidate->send({{"op", "record"},
                   {"weights", weights},
                   {"numbers", numbers.named},
                   {"inputs", first.inputs},
                   {"tensors", first.input_tensors}},
                  numbers.payload, "recording");
  recording_ = candidate->receive("recording", kMaxPlanBytes);
  if (const auto ended = own_failure(recording_)) return take_failure(recording_, *ended, loaded);
  check_recorded(recording_);
  PlanLimits limits = runs_ == Runs::kOnGpu ? PlanLimits::on_gpu() : PlanLimits();
  limits.total_bytes = static_cast<int64_t>(context_.options.plan_memory * (1 << 30)) / PlanLimits::kViews;
  plan_ = parse_plan(recording_.header.at("plan"), recording_.payload, limits);
}

// Kernels that it launched before it failed are compiled as others are.
void PlanRunner::take_failure(const Frame& frame, const Ended& ended, Loaded& loaded) {
  loaded.ended = ended;
  loaded.stage = Stage::kImported;
  if (ended.fault == Fault::kCompileError) loaded.compiled.push_back({.target = targets_.front(), .error = ended.text});
  if (!context_.compiles || !frame.header.contains("plan")) return;
  const Plan plan = parse_kernels(frame.header["plan"], frame.payload);
  loaded.launched = !plan.steps.empty();
  loaded.claimed = {"compiled", "compile_targets", "kernels"};
  for (const PlanStep& step : plan.steps)
    loaded.ended->kernels.push_back(plan.kernels[static_cast<size_t>(step.kernel)].name);
  for (Compiled& one : compile(plan)) loaded.compiled.push_back(std::move(one));
}

}  // namespace tritonforge::evaluate
