#include "evaluate/plan/pass.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

bool has_strides(const at::Tensor& tensor, const std::vector<int64_t>& strides) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1 && tensor.numel() > 0 && tensor.stride(d) != strides[static_cast<size_t>(d)]) return false;
  }
  return true;
}

// Of a call that orders its results in memory otherwise from device to device (attention, by what it is fused to).
at::Tensor in_order(const at::Tensor& tensor, const PlanValue& wanted) {
  if (tensor.sizes() != at::IntArrayRef(wanted.shape) || has_strides(tensor, wanted.stride)) return tensor;
  const at::Tensor ordered = at::empty_strided(wanted.shape, wanted.stride, tensor.options());
  return ordered.is_non_overlapping_and_dense() ? ordered.copy_(tensor) : tensor;
}

// What the recording saw is what is replayed: a view of another size would give launches other strides.
void check_result(const at::Tensor& tensor, const PlanValue& wanted, const PlanStep& step) {
  if (!tensor.defined() || tensor.sizes() != at::IntArrayRef(wanted.shape) ||
      tensor.scalar_type() != scalar_type(wanted.dtype)) {
    fail(ErrorKind::kUsage, "replay: {}: a result of another shape than recorded", step.name);
  }
  if (!has_strides(tensor, wanted.stride))
    fail(ErrorKind::kUsage, "replay: {}: a result of other strides than recorded", step.name);
}

// Counts are as many as the largest value says, which in memory that no launch wrote is beyond all memory.
void check_counted(const std::vector<at::Tensor>& values, const PlanStep& step, const Plan& plan) {
  if (step.name != "aten::bincount" || step.args.empty() || !step.args[0].contains("t") || step.out.empty()) return;
  const at::Tensor& counted = values[step.args[0]["t"].get<size_t>()];
  const int64_t counts = step.out[0] < 0 ? 0 : plan.values[static_cast<size_t>(step.out[0])].elements();
  if (counted.numel() == 0) return;
  const auto largest = counted.max().item<int64_t>();
  if (largest >= counts)
    fail(ErrorKind::kUsage, "replay: {}: a value of {}, {} counts are recorded", step.name, largest, counts);
}

// {"t": value} anywhere in an aten call's arguments.
void add_arguments(const Json& json, std::vector<size_t>& values) {
  if (json.is_object() && json.contains("t") && json["t"].is_number()) values.push_back(json["t"].get<size_t>());
  else if (json.is_structured())
    for (const Json& item : json) add_arguments(item, values);
}
std::vector<size_t> arguments_of(const PlanStep& step) {
  std::vector<size_t> values;
  add_arguments(step.args, values);
  add_arguments(step.kwargs, values);
  return values;
}

}  // namespace

Steps::Steps(const Plan& plan) : plan_(plan), last_use_(plan.values.size(), -1) {
  const auto count = static_cast<int64_t>(plan.steps.size());
  for (int64_t k = 0; k < count; ++k) {
    const PlanStep& step = plan.steps[static_cast<size_t>(k)];
    operations_.push_back(step.kernel < 0 ? std::make_unique<AtenStep>(step) : nullptr);
    for (const PlanBinding& binding : step.bindings) {
      if (binding.value >= 0) last_use_[static_cast<size_t>(binding.value)] = k;
    }
    for (const size_t value : arguments_of(step)) last_use_[value] = k;
  }
  for (const int value : plan.output_values) last_use_[static_cast<size_t>(value)] = count;
}

Pass::Pass(const Steps& steps, Launcher& launcher, Given given, const PassOptions& options)
    : steps_(steps), launcher_(launcher), given_(std::move(given)), options_(options) {
  const at::NoGradGuard no_grad;
  launcher_.begin(options_);
  values_.resize(steps.plan().values.size());
  place_given();
}

at::Tensor Pass::place(const at::Tensor& fresh, bool empty) {
  const at::Tensor placed = launcher_.place(fresh, empty);
  owners_.emplace(storage_of(placed), placed);
  placed_.push_back(placed);
  return placed;
}

void Pass::place_given() {
  const Plan& plan = steps_.plan();
  if (given_.inputs.size() != plan.inputs || given_.constants.size() != plan.constants.size())
    fail(ErrorKind::kUsage, "replay: {} inputs for a plan of {}", given_.inputs.size(), plan.inputs);

  for (size_t k = 0; k < plan.values.size(); ++k) {
    const PlanValue& value = plan.values[k];
    at::Tensor* tensor = nullptr;
    if (value.input >= 0) {
      tensor = &given_.inputs[static_cast<size_t>(value.input)];
    } else if (value.constant >= 0) {
      tensor = &given_.constants[static_cast<size_t>(value.constant)];
    } else if (!value.weight.empty()) {
      const auto found = given_.weights.find(value.weight);
      if (found == given_.weights.end())
        fail(ErrorKind::kUsage, "replay: the problem has no weight '{}'", value.weight.substr(0, 100));
      tensor = &found->second;
    } else {
      continue;
    }
    if (tensor->sizes() != at::IntArrayRef(value.shape) || tensor->scalar_type() != scalar_type(value.dtype))
      fail(ErrorKind::kUsage, "replay: value {} was recorded with another shape or type", k);
    // Strides as the candidate saw them, where they differ from the sender's.
    if (tensor->strides() != at::IntArrayRef(value.stride) && tensor->numel() > 0) {
      const at::Tensor other = at::empty_strided(value.shape, value.stride, tensor->options());
      other.copy_(*tensor);
      *tensor = other;
    }
    if (!owners_.contains(storage_of(*tensor))) *tensor = place(*tensor, false);
    values_[k] = *tensor;
  }
}

void Pass::run(const std::function<bool(int)>& launches, const std::function<void(size_t)>& after) {
  const at::NoGradGuard no_grad;
  const Plan& plan = steps_.plan();
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    if (options_.deadline.expired()) throw ir::Fault("the replay did not end in time");
    const PlanStep& step = plan.steps[k];
    if (step.kernel < 0) {
      const bool moves = only_moves(step.name);
      if (!is_free(step.name) && !moves) end_run(k);
      aten(k);
      if (moves && weighing_.in_run()) weigh_move(step);
    } else if (launches(step.kernel)) {
      launch(step);
    }
    if (after) after(k);
  }
  end_run(plan.steps.size());
}

void Pass::launch(const PlanStep& step) {
  std::vector<at::Tensor> bound;
  for (const PlanBinding& binding : step.bindings) {
    if (binding.form == PlanBinding::Form::kTensor) bound.push_back(values_[static_cast<size_t>(binding.value)]);
  }
  if (options_.weigh) weighing_.before(bound);
  launcher_.launch(step, bound);
  if (options_.weigh) weighing_.after(bound);
}

void Pass::weigh_move(const PlanStep& step) {
  std::vector<at::Tensor> from, made;
  for (const size_t value : arguments_of(step)) from.push_back(values_[value]);
  for (const int value : step.out) {
    if (value >= 0 && values_[static_cast<size_t>(value)].defined())
      made.push_back(values_[static_cast<size_t>(value)]);
  }
  weighing_.moved(from, made);
}

// What a call is given is looked at after it, too: the caller sees what was written into it.
void Pass::end_run(size_t next) {
  if (!weighing_.in_run()) return;
  std::set<const void*> used;
  for (const auto* given : {&given_.inputs, &given_.constants}) {
    for (const at::Tensor& tensor : *given) used.insert(storage_of(tensor));
  }
  for (size_t k = 0; k < values_.size(); ++k) {
    if (values_[k].defined() && steps_.used_from(next, k)) used.insert(storage_of(values_[k]));
  }
  weighing_.end_run(used);
}

void Pass::aten(size_t index) {
  const PlanStep& step = steps_.plan().steps[index];
  if (options_.guard) check_counted(values_, step, steps_.plan());
  AtenStep::Results results = steps_.aten(index)->call(values_, launcher_.device());
  for (const auto& tensor : results.written) launcher_.written(tensor);
  const bool is_empty = step.name.find("empty") != std::string::npos;
  std::map<const void*, at::Tensor> moved;  // results of one step may share their memory
  for (size_t k = 0; k < step.out.size(); ++k) {
    at::Tensor tensor = results.made[k];
    if (step.out[k] < 0 || !steps_.used(step.out[k])) continue;
    const PlanValue& wanted = steps_.plan().values[static_cast<size_t>(step.out[k])];
    // On a GPU the copy would be timed.
    if (launcher_.device().is_cpu() && !owners_.contains(storage_of(tensor))) tensor = in_order(tensor, wanted);
    check_result(tensor, wanted, step);
    if (!owners_.contains(storage_of(tensor))) {
      const auto [there, fresh] = moved.try_emplace(storage_of(tensor));
      if (fresh) there->second = place(tensor, is_empty);
      tensor = there->second.is_same(tensor) || storage_of(there->second) == storage_of(tensor)
                   ? tensor
                   : there->second.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    }
    values_[static_cast<size_t>(step.out[k])] = tensor;
  }
}

std::vector<at::Tensor> Pass::outputs() const {
  std::vector<at::Tensor> out;
  for (const int value : steps_.plan().output_values) out.push_back(values_[static_cast<size_t>(value)]);
  return out;
}

std::vector<int> Pass::aliases() const {
  std::vector<int> out;
  for (const at::Tensor& output : outputs()) {
    out.push_back(-1);
    for (size_t k = 0; k < given_.inputs.size(); ++k) {
      if (storage_of(output) == storage_of(given_.inputs[k])) out.back() = static_cast<int>(k);
    }
  }
  return out;
}

std::vector<int> Pass::shared() const {
  const std::vector<at::Tensor> shown = outputs();
  std::vector<int> out(shown.size(), -1);
  size_t bytes = 0, not_written = 0;
  for (size_t k = 0; k < shown.size(); ++k) {
    bytes += shown[k].nbytes();
    for (size_t before = 0; before < k && out[k] < 0; ++before) {
      if (overlap(shown[k], shown[before])) out[k] = static_cast<int>(before);
    }
    if (out[k] >= 0) not_written += shown[k].nbytes();
  }
  if (10 * not_written < bytes) std::ranges::fill(out, -1);
  return out;
}

}  // namespace tritonforge::evaluate
