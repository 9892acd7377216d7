// The part of PlanRunner that looks at a call at the problem's own sizes where only smaller ones are replayed. It is
// recorded without data: its kernels are compiled, and what it makes is held against what the reference does there. All
// of it is the candidate's word, and so can only lower its reward.
#include "evaluate/ir/stores.h"
#include "evaluate/plan/as_plan.h"
#include "evaluate/plan/runner.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {

// How much launches can store, told from their kernels' IR, each of which is read once.
class MostStored {
 public:
  explicit MostStored(const Plan& kernels) : kernels_(kernels), choice_(recorders_choice(kernels)) {}
  // Bytes of these launches; nullopt where that depends on data.
  std::optional<double> of(const Json& launches) {
    double bytes = 0;
    for (const Json& number : launches) {
      const PlanStep& step = kernels_.steps.at(number.get<size_t>());
      if (!is_done(step, choice_)) continue;
      const auto one = of_a_program(step.kernel);
      if (!one) return std::nullopt;
      double programs = 1;
      for (const int64_t count : step.grid) programs *= static_cast<double>(count);
      bytes += programs * static_cast<double>(*one);
    }
    return bytes;
  }

 private:
  std::optional<int64_t> of_a_program(int number) {
    const auto [known, is_new] = known_.try_emplace(number);
    const PlanKernel& kernel = kernels_.kernels[static_cast<size_t>(number)];
    if (is_new && !kernel.ir.empty())
      known->second = ir::most_stored(ir::parse(kernels_.texts[static_cast<size_t>(kernel.ir.begin()->second)]));
    return known->second;
  }

  const Plan& kernels_;
  const Choice choice_;
  std::map<int, std::optional<int64_t>> known_;  // by kernel
};

// Of the largest tensor that goes in or comes out.
double most_elements(const Json& call, const Json& outputs) {
  double most = 0;
  for (const Json* side : {&call, &outputs}) {
    if (side->is_null()) continue;
    for (const Json& tensor : side->at("tensors")) {
      double elements = 1;
      for (const Json& size : tensor.at("shape")) elements *= size.get<double>();
      most = std::max(most, elements);
    }
  }
  return most;
}

// The operations of torch's that no step asks for, and that are of as much as half of the largest tensor: a sum of what
// many programs left may be asked for at large sizes alone.
std::vector<std::string> asked_of_torch(const Json& elements, const std::vector<PlanStep>& steps, double most) {
  std::set<std::string> known;
  for (const PlanStep& step : steps) known.insert(step.name);
  std::vector<std::string> more;
  for (const auto& [name, of] : elements.items()) {
    if (!is_free(name) && !only_moves(name) && !known.contains(name) && of.get<double>() >= most / 2)
      more.push_back(clipped(name, 60));
  }
  return more;
}

// How the outputs differ in form from the reference's, "" where they do not.
std::string differs_in_form(const Json& outputs, const Json& expected) {
  if (shape_of_tree(outputs.at("value")) != shape_of_tree(expected.at("value")))
    return "forward returns something else than Model does";
  for (size_t i = 0; i < expected.at("tensors").size(); ++i) {
    for (const char* what : {"shape", "dtype"}) {
      const Json &is = outputs.at("tensors").at(i).at(what), &wanted = expected.at("tensors").at(i).at(what);
      if (is != wanted) return fmt::format("output {} has {} {}, expected {}", i, what, is.dump(), wanted.dump());
    }
  }
  return "";
}

// Memory that launches alone fill has to be filled: "" where it may be.
std::string leaves_empty(const Json& filled, const Plan& kernels) {
  MostStored most(kernels);
  for (size_t i = 0; i < filled.size(); ++i) {
    const Json& others = filled[i].at("others");
    if (!std::ranges::all_of(others, [](const Json& name) { return is_free(name.get_ref<const std::string&>()); }))
      continue;
    const auto stored = most.of(filled[i].at("launches"));
    const auto bytes = filled[i].at("bytes").get<double>();
    if (stored && *stored < bytes)
      return fmt::format("the launches store at most {:.0f} of the {:.0f} bytes of output {}", *stored, bytes, i);
  }
  return "";
}

}  // namespace

// What is right at the sizes that are replayed shall compile at the problem's own.
std::optional<FullSize> PlanRunner::full_size() {
  if (context_.reference.full.is_null()) return std::nullopt;
  FullSize full;
  try {
    std::optional<Ended> ended;
    as_plan(ended, [&] { read_full_size(full); });
    if (ended) full.note = "not compiled: " + ended->text;
  } catch (const NotAPlan& why) {
    full.note = "not compiled: " + why.reason;
  }
  return full;
}

void PlanRunner::read_full_size(FullSize& full) {
  std::vector<std::string> sizes;
  for (const auto& [name, change] : context_.reference.sizes.items())
    sizes.push_back(fmt::format("{} = {}", name, change.at(0).dump()));
  full.where = fmt::format("at the problem's own size ({})", fmt::join(sizes, ", "));
  const Json& call = context_.reference.full;
  Loaded ignored;
  auto candidate = load_candidate(
      {{"init", call.at("init")}, {"tensors", Json::array()}, {"sizes", Json::object()}, {"meta", true}}, {}, ignored);
  if (!candidate) throw NotAPlan{ignored.ended->text};
  candidate->send({{"op", "kernels"}, {"inputs", call.at("inputs")}, {"tensors", call.at("tensors")}}, {}, "recording");
  const Frame frame = candidate->receive("recording", kMaxPlanBytes);
  check_recorded(frame);
  const Json& plan = frame.header.at("plan");
  full.failed = strings_of(plan, "failed");
  if (!full.failed.empty()) return;
  const Plan kernels = parse_kernels(plan, frame.payload);
  full.launches = kernels.steps.size();
  full.compiled = compile(kernels);
  full.note = Tunings(kernels, targets_, device_, full.compiled).left_out();
  const Json& expected = call.at("outputs");
  full.more_by_torch = asked_of_torch(plan.at("aten"), every_step_, most_elements(call, expected));
  if (!expected.is_null()) full.mismatch = differs_in_form(plan.at("outputs"), expected);
  if (full.mismatch.empty() && runs_ == Runs::kInterpreted) full.mismatch = leaves_empty(plan.at("filled"), kernels);
}

}  // namespace tritonforge::evaluate
