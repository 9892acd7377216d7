#include "evaluate/plan/replay.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <set>

namespace tritonforge::evaluate {

struct Replayer::Impl {
  Impl(Plan given_plan, std::map<std::string, TensorView> given_weights)
      : plan(std::move(given_plan)), every_step(plan.steps), weights(std::move(given_weights)) {}

  void choose(const Choice& choice) {
    plan.steps = chosen_steps(every_step, plan.tunings, choice);
    steps.emplace(plan);
  }

  // A fresh copy for each pass, which may write into it; a GPU has them once and copies there.
  at::Tensor fresh(std::vector<at::Tensor>& kept, size_t index, const TensorView& view) {
    const at::Device device = launcher->device();
    if (device.is_cpu()) return tensor_of(view);
    if (kept.size() <= index) kept.resize(index + 1);
    if (!kept[index].defined()) kept[index] = tensor_of(view, device);
    return kept[index].clone();
  }

  Plan plan;  // with the steps that are chosen
  std::vector<PlanStep> every_step;
  std::map<std::string, TensorView> weights;
  std::optional<Steps> steps;
  std::unique_ptr<Launcher> launcher;
  std::vector<at::Tensor> kept_constants, kept_weights;  // of a GPU
};

Replayer::Replayer(Plan plan, std::map<std::string, TensorView> weights,
                   const std::function<std::unique_ptr<Launcher>(const Plan&)>& make_launcher)
    : impl_(std::make_unique<Impl>(std::move(plan), std::move(weights))) {
  impl_->launcher = make_launcher(impl_->plan);  // for the steps of all configurations
  impl_->choose(recorders_choice(impl_->plan));
}
Replayer::Replayer(Plan plan, std::map<std::string, TensorView> weights, const std::string& target)
    : Replayer(std::move(plan), std::move(weights),
               [&](const Plan& checked) { return make_cpu_launcher(checked, target); }) {}
Replayer::~Replayer() = default;
const Plan& Replayer::plan() const { return impl_->plan; }
Launcher& Replayer::launcher() { return *impl_->launcher; }

void Replayer::choose(const Choice& choice) { impl_->choose(choice); }

void Replayer::forget_copies() {
  impl_->kept_constants.clear();
  impl_->kept_weights.clear();
}

Pass Replayer::begin(std::vector<at::Tensor> inputs, const PassOptions& options, std::vector<at::Tensor> constants) {
  Given given{.inputs = std::move(inputs), .constants = std::move(constants)};
  const auto& recorded = impl_->plan.constants;
  for (size_t k = given.constants.size(); k < recorded.size(); ++k)
    given.constants.push_back(impl_->fresh(impl_->kept_constants, k, recorded[k]));
  std::set<std::string> used;
  for (const PlanValue& value : impl_->plan.values) used.insert(value.weight);
  size_t index = 0;
  for (const auto& [name, view] : impl_->weights) {
    if (used.contains(name)) given.weights[name] = impl_->fresh(impl_->kept_weights, index, view);
    ++index;
  }
  return Pass(*impl_->steps, *impl_->launcher, std::move(given), options);
}

Replay Replayer::run(const ReplayRequest& request) {
  std::vector<at::Tensor> inputs;
  for (const TensorView& input : request.inputs) inputs.push_back(tensor_of(input, impl_->launcher->device()));
  Finished finished = run(std::move(inputs), request);
  Replay result{.aliases = std::move(finished.aliases),
                .shared = std::move(finished.shared),
                .report = std::move(finished.report)};
  for (const at::Tensor& input : finished.inputs) result.inputs.push_back(bytes_of(input));
  for (const at::Tensor& output : finished.outputs) result.outputs.push_back(bytes_of(output));
  // No later call on the same inputs finds an answer in the memory of a device.
  if (!impl_->launcher->device().is_cpu()) {
    for (const at::Tensor& tensor : finished.placed) wipe(tensor);
  }
  return result;
}

// An accumulator that nobody clears is right at the first call alone.
std::vector<at::Tensor> Replayer::constants_after(const std::vector<at::Tensor>& inputs, const ReplayRequest& request) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& input : inputs) copies.push_back(input.clone());
  ReplayRequest first = request;
  first.again = first.weigh = false;
  const Finished call = run(std::move(copies), first);
  std::vector<at::Tensor> left;  // the next pass takes the place of this one's memory
  for (const at::Tensor& constant : call.constants) left.push_back(constant.clone());
  if (!impl_->launcher->device().is_cpu()) {
    for (const at::Tensor& tensor : call.placed) wipe(tensor);
  }
  return left;
}

Finished Replayer::run(std::vector<at::Tensor> inputs, const ReplayRequest& request) {
  const Deadline deadline = Deadline::after(request.timeout_s);
  std::vector<at::Tensor> constants;
  if (request.again && !impl_->plan.constants.empty()) constants = constants_after(inputs, request);
  Pass pass = begin(std::move(inputs),
                    {.order_seed = request.order_seed,
                     .schedule = request.schedule,
                     .weigh = request.weigh,
                     .own_sizes = request.own_sizes,
                     .guard = request.guard,
                     .deadline = deadline},
                    std::move(constants));
  seed_torch(request.forward_seed, impl_->launcher->device());
  pass.run([&](int kernel) { return request.launch && kernel != request.without; });
  LaunchReport report = impl_->launcher->end();
  report.only_copied = pass.only_copied();
  return {.inputs = pass.inputs(),
          .outputs = pass.outputs(),
          .aliases = pass.aliases(),
          .shared = pass.shared(),
          .constants = pass.constants(),
          .placed = pass.placed(),
          .report = std::move(report)};
}

void seed_torch(uint64_t seed, at::Device device) {
  for (const at::Device one : {at::Device(at::kCPU), device}) {
    at::Generator generator = at::globalContext().defaultGenerator(one);
    generator.set_current_seed(seed);
  }
}

}  // namespace tritonforge::evaluate
