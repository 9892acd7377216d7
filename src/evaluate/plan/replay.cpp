#include "evaluate/plan/replay.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "evaluate/ir/machine.h"

namespace tritonforge::evaluate {
namespace {

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat64: return at::kDouble;
    case Dtype::kFloat32: return at::kFloat;
    case Dtype::kFloat16: return at::kHalf;
    case Dtype::kBFloat16: return at::kBFloat16;
    case Dtype::kInt64: return at::kLong;
    case Dtype::kInt32: return at::kInt;
    case Dtype::kInt16: return at::kShort;
    case Dtype::kInt8: return at::kChar;
    case Dtype::kUint8: return at::kByte;
    case Dtype::kBool: return at::kBool;
  }
  return at::kFloat;
}

std::optional<Dtype> dtype_of(at::ScalarType type) {
  for (int k = 0; k <= static_cast<int>(Dtype::kBool); ++k) {
    if (scalar_type(static_cast<Dtype>(k)) == type) return static_cast<Dtype>(k);
  }
  return std::nullopt;
}

at::Tensor tensor_of(const TensorView& view) {
  std::vector<int64_t> strides(view.shape.size());
  int64_t step = 1;
  for (size_t i = view.order.size(); i-- > 0;) {
    strides[static_cast<size_t>(view.order[i])] = step;
    step *= view.shape[static_cast<size_t>(view.order[i])];
  }
  at::Tensor out = at::empty_strided(view.shape, strides, scalar_type(view.dtype));
  if (!view.bytes.empty()) std::memcpy(out.data_ptr(), view.bytes.data(), view.bytes.size());
  return out;
}

ReplayedTensor bytes_of(const at::Tensor& given) {
  const auto dtype = dtype_of(given.scalar_type());
  if (!dtype || given.layout() != at::kStrided)
    fail(ErrorKind::kUnsupported, "replay: an output of dtype {}", c10::toString(given.scalar_type()));
  const at::Tensor tensor = given.resolve_conj().resolve_neg().contiguous();
  std::vector<int64_t> order(static_cast<size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  ReplayedTensor out;
  out.bytes.resize(tensor.nbytes());
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), tensor.data_ptr(), out.bytes.size());
  out.described = {{"dtype", std::string(name_of(*dtype))},
                   {"shape", tensor.sizes().vec()},
                   {"order", order},
                   {"bytes", out.bytes.size()}};
  return out;
}

void poison(const at::Tensor& tensor) {
  if (tensor.is_floating_point()) tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  else if (tensor.scalar_type() == at::kBool) tensor.fill_(true);
  else if (tensor.scalar_type() == at::kByte) tensor.fill_(254);
  else if (tensor.scalar_type() == at::kChar) tensor.fill_(126);
  else if (tensor.scalar_type() == at::kShort) tensor.fill_(32766);
  else if (tensor.scalar_type() == at::kInt) tensor.fill_(int64_t{2147483646});
  else if (tensor.scalar_type() == at::kLong) tensor.fill_(std::numeric_limits<int64_t>::max() - 1);
}

// What a launch was given, to see afterwards whether it left anything but copies of it.
class Weighing {
 public:
  explicit Weighing(const std::vector<at::Tensor>& bound) : bound_(bound) {
    for (const at::Tensor& tensor : bound) before_.push_back(tensor.to(at::kDouble).flatten());
  }
  bool only_copied() const {
    const auto same = [](const at::Tensor& a, const at::Tensor& b) {
      constexpr double kTolerance = 1e-3;
      return a.numel() == b.numel() && at::allclose(a, b, kTolerance, kTolerance, /*equal_nan=*/true);
    };
    return std::all_of(bound_.begin(), bound_.end(), [&](const at::Tensor& tensor) {
      const at::Tensor after = tensor.to(at::kDouble).flatten();
      return std::any_of(before_.begin(), before_.end(), [&](const at::Tensor& given) { return same(after, given); });
    });
  }

 private:
  const std::vector<at::Tensor>& bound_;
  std::vector<at::Tensor> before_;
};

}  // namespace

struct Replayer::Impl {
  Plan plan;
  std::map<std::string, TensorView> weights;
  std::vector<std::unique_ptr<ir::Program>> programs;

  // Of one run.
  struct Run {
    std::vector<at::Tensor> values;
    ir::Memory memory;
    std::unordered_map<const void*, int> buffers;     // storage -> buffer of the memory
    std::unordered_map<const void*, bool> unwritten;  // storages that came without contents
    std::vector<at::Tensor> keep;                     // storages stay where the memory knows them
    std::vector<at::Tensor> in, out;                  // tensors of the aten call under way
    Replay result;
  };

  c10::IValue value_of(Run& run, const Json& json, const c10::TypePtr& type, const std::string& where);
  c10::List<at::Tensor> tensors_of(Run& run, const Json& json);
  void aten(Run& run, const PlanStep& step);
  void launch(Run& run, const PlanStep& step, const ReplayRequest& request, uint64_t seed, Deadline deadline);
  int buffer_of(Run& run, const at::Tensor& tensor);
  Replay run(const ReplayRequest& request);
};

c10::IValue Replayer::Impl::value_of(Run& run, const Json& json, const c10::TypePtr& type, const std::string& where) {
  const auto wrong = [&](const char* what) {
    fail(ErrorKind::kUsage, "replay: {}: {} for {}", where, what, type->str());
  };
  if (const auto optional = type->cast<c10::OptionalType>())
    return json.is_null() ? c10::IValue() : value_of(run, json, optional->getElementType(), where);
  // A Python number where the schema wants a tensor: x * 2 is aten::mul.Tensor, and the number must not widen x's type.
  if (type->kind() == c10::TypeKind::TensorType &&
      (json.is_number() || json.is_boolean() || (json.is_object() && json.contains("f")))) {
    at::Tensor number = at::scalar_to_tensor(
        json.is_object()    ? at::Scalar(std::strtod(json["f"].get_ref<const std::string&>().c_str(), nullptr))
        : json.is_boolean() ? at::Scalar(json.get<bool>())
                            : at::Scalar(json.get<int64_t>()));
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
  }
  const auto tensor = [&](const Json& one) {
    const at::Tensor& found = run.values[one.at("t").get<size_t>()];
    run.in.push_back(found);
    return found;
  };
  if (const auto list = type->cast<c10::ListType>()) {
    const auto element = list->getElementType();
    if (!json.is_array()) {  // int[2] stride=1 is written as one number
      if (json.is_number_integer() && element->kind() != c10::TypeKind::TensorType)
        return value_of(run, Json::array({json}), type, where);
      wrong("no list");
    }
    if (element->kind() == c10::TypeKind::TensorType) {
      c10::List<at::Tensor> out;
      for (const auto& item : json) out.push_back(tensor(item));
      return out;
    }
    if (const auto inner = element->cast<c10::OptionalType>();
        inner && inner->getElementType()->kind() == c10::TypeKind::TensorType) {
      c10::List<std::optional<at::Tensor>> out;
      for (const auto& item : json)
        out.push_back(item.is_null() ? std::nullopt : std::optional<at::Tensor>(tensor(item)));
      return out;
    }
    if (element->kind() == c10::TypeKind::BoolType) {
      c10::List<bool> out;
      for (const auto& item : json) out.push_back(item.get<bool>());
      return out;
    }
    if (element->kind() == c10::TypeKind::FloatType) {
      c10::List<double> out;
      for (const auto& item : json) out.push_back(value_of(run, item, element, where).toDouble());
      return out;
    }
    if (element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType) {
      c10::List<int64_t> out;
      for (const auto& item : json) out.push_back(item.get<int64_t>());
      return out;
    }
    wrong("a list");
  }
  if (json.is_object()) {
    if (json.contains("t")) {
      if (type->kind() == c10::TypeKind::NumberType) wrong("a tensor");
      return tensor(json);
    }
    if (json.contains("f")) return std::strtod(json["f"].get_ref<const std::string&>().c_str(), nullptr);
    if (json.contains("dtype")) {
      const Json described = {{"dtype", json["dtype"]}, {"shape", {0}}, {"order", {0}}, {"bytes", 0}};
      return static_cast<int64_t>(scalar_type(parse_tensors(Json::array({described}), {}).front().dtype));
    }
    const std::string format = json.value("format", "");
    const auto chosen = format == "contiguous"         ? at::MemoryFormat::Contiguous
                        : format == "channels_last"    ? at::MemoryFormat::ChannelsLast
                        : format == "channels_last_3d" ? at::MemoryFormat::ChannelsLast3d
                                                       : at::MemoryFormat::Preserve;
    return static_cast<int64_t>(chosen);
  }
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) {
    const auto number = json.get<int64_t>();
    return type->kind() == c10::TypeKind::FloatType ? c10::IValue(static_cast<double>(number)) : c10::IValue(number);
  }
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  wrong("an argument");
  return {};
}

void Replayer::Impl::aten(Run& run, const PlanStep& step) {
  const std::string where = step.overload.empty() ? step.name : step.name + "." + step.overload;
  const auto found = c10::Dispatcher::singleton().findSchema({step.name, step.overload});
  if (!found) fail(ErrorKind::kUsage, "replay: no operation {}", where);
  const c10::FunctionSchema& schema = found->schema();
  run.in.clear();
  run.out.clear();
  torch::jit::Stack stack;
  try {
    std::vector<at::Tensor> written;
    for (size_t k = 0; k < schema.arguments().size(); ++k) {
      const c10::Argument& argument = schema.arguments()[k];
      const size_t before = run.in.size();
      if (k < step.args.size()) stack.push_back(value_of(run, step.args[k], argument.real_type(), where));
      else if (step.kwargs.contains(argument.name()))
        stack.push_back(value_of(run, step.kwargs[argument.name()], argument.real_type(), where));
      else if (argument.default_value()) stack.push_back(*argument.default_value());
      else if (argument.real_type()->kind() == c10::TypeKind::OptionalType) stack.emplace_back();
      else fail(ErrorKind::kUsage, "replay: {}: argument '{}' is missing", where, argument.name());
      if (argument.alias_info() && argument.alias_info()->isWrite())
        written.insert(written.end(), run.in.begin() + static_cast<ptrdiff_t>(before), run.in.end());
    }
    if (step.args.size() > schema.arguments().size())
      fail(ErrorKind::kUsage, "replay: {}: {} arguments", where, step.args.size());
    found->callBoxed(stack);
    for (const auto& tensor : written) {
      run.unwritten.erase(tensor.storage().unsafeGetStorageImpl());
      if (const auto known = run.buffers.find(tensor.storage().unsafeGetStorageImpl()); known != run.buffers.end()) {
        auto& marks = run.memory.buffer(static_cast<size_t>(known->second)).written;
        std::fill(marks.begin(), marks.end(), 1);
      }
    }
  } catch (const c10::Error& error) {
    fail(ErrorKind::kUsage, "replay: {}: {}", where, error.what_without_backtrace());
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::kUsage, "replay: {}: an argument has the wrong type", where);
  }
  for (const auto& result : stack) {
    if (result.isTensor()) run.out.push_back(result.toTensor());
    else if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) run.out.push_back(tensor);
    else fail(ErrorKind::kUnsupported, "replay: {}: a result that is no tensor", where);
  }
  if (run.out.size() != step.out.size())
    fail(ErrorKind::kUsage, "replay: {}: {} results, {} are recorded", where, run.out.size(), step.out.size());
  const bool is_empty = step.name.find("empty") != std::string::npos;
  for (size_t k = 0; k < step.out.size(); ++k) {
    if (step.out[k] < 0) continue;
    const PlanValue& wanted = plan.values[static_cast<size_t>(step.out[k])];
    const at::Tensor& tensor = run.out[k];
    // What the recording saw is what is replayed: a view of another size would give launches other strides.
    if (!tensor.defined() || tensor.sizes() != at::IntArrayRef(wanted.shape) ||
        tensor.scalar_type() != scalar_type(wanted.dtype)) {
      fail(ErrorKind::kUsage, "replay: {}: a result of another shape than recorded", where);
    }
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (tensor.size(d) > 1 && tensor.numel() > 0 && tensor.stride(d) != wanted.stride[static_cast<size_t>(d)])
        fail(ErrorKind::kUsage, "replay: {}: a result of other strides than recorded", where);
    }
    if (is_empty) {
      poison(tensor);
      run.unwritten[tensor.storage().unsafeGetStorageImpl()] = true;
    }
    run.keep.push_back(tensor);
    run.values[static_cast<size_t>(step.out[k])] = tensor;
  }
}

int Replayer::Impl::buffer_of(Run& run, const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const auto [place, fresh] = run.buffers.try_emplace(storage.unsafeGetStorageImpl(), 0);
  if (fresh) {
    const bool unwritten = run.unwritten.contains(storage.unsafeGetStorageImpl());
    place->second = run.memory.add("", static_cast<std::byte*>(storage.mutable_data()),
                                   static_cast<int64_t>(storage.nbytes()), static_cast<int>(tensor.element_size()),
                                   !unwritten);
    run.keep.push_back(tensor);
  }
  return place->second;
}

void Replayer::Impl::launch(Run& run, const PlanStep& step, const ReplayRequest& request, uint64_t seed,
                            Deadline deadline) {
  const ir::Program& program = *programs[static_cast<size_t>(step.kernel)];
  std::vector<ir::Argument> arguments;
  std::vector<at::Tensor> bound;
  for (size_t k = 0; k < step.bindings.size(); ++k) {
    const PlanBinding& binding = step.bindings[k];
    switch (binding.form) {
      case PlanBinding::Form::kTensor: {
        const at::Tensor& tensor = run.values[static_cast<size_t>(binding.value)];
        const int buffer = buffer_of(run, tensor);
        bound.push_back(tensor);
        run.memory.buffer(static_cast<size_t>(buffer)).name = k < program.parameters.size() ? program.parameters[k].name
                                                                                            : "?";
        arguments.push_back({.form = ir::Argument::Form::kBuffer,
                             .buffer = buffer,
                             .integer = tensor.storage_offset() * static_cast<int64_t>(tensor.element_size())});
        break;
      }
      case PlanBinding::Form::kInteger: arguments.push_back({.integer = binding.integer}); break;
      case PlanBinding::Form::kReal:
        arguments.push_back({.form = ir::Argument::Form::kFloat, .real = binding.real});
        break;
      case PlanBinding::Form::kNull: arguments.push_back({.form = ir::Argument::Form::kBuffer}); break;
    }
  }
  const ir::LaunchOptions options{.grid = step.grid, .seed = seed, .deadline = deadline};
  const std::optional<Weighing> weighing = request.weigh ? std::make_optional<Weighing>(bound) : std::nullopt;
  const ir::Work work = ir::launch(program, run.memory, arguments, options);
  if (weighing) run.result.own += launch_work(work.flops, work.bytes, weighing->only_copied());
}

Replay Replayer::Impl::run(const ReplayRequest& request) {
  const at::NoGradGuard no_grad;
  const auto deadline = Deadline::after(request.timeout_s);
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(request.forward_seed);
  Run run;
  run.values.resize(plan.values.size());
  if (request.inputs.size() != plan.inputs)
    fail(ErrorKind::kUsage, "replay: {} inputs for a plan of {}", request.inputs.size(), plan.inputs);
  std::vector<at::Tensor> inputs(plan.inputs), constants(plan.constants.size());
  std::map<std::string, at::Tensor> named;
  for (size_t k = 0; k < inputs.size(); ++k) inputs[k] = tensor_of(request.inputs[k]);
  for (size_t k = 0; k < constants.size(); ++k) constants[k] = tensor_of(plan.constants[k]);
  for (size_t k = 0; k < plan.values.size(); ++k) {
    const PlanValue& value = plan.values[k];
    at::Tensor tensor;
    if (value.input >= 0) tensor = inputs[static_cast<size_t>(value.input)];
    else if (value.constant >= 0) tensor = constants[static_cast<size_t>(value.constant)];
    else if (!value.weight.empty()) {
      auto& known = named[value.weight];
      const auto given = weights.find(value.weight);
      if (given == weights.end())
        fail(ErrorKind::kUsage, "replay: the problem has no weight '{}'", value.weight.substr(0, 100));
      if (!known.defined()) known = tensor_of(given->second);
      tensor = known;
    } else {
      continue;
    }
    if (tensor.sizes() != at::IntArrayRef(value.shape) || tensor.scalar_type() != scalar_type(value.dtype))
      fail(ErrorKind::kUsage, "replay: value {} was recorded with another shape or type", k);
    // Strides as the candidate saw them, where they differ from the sender's.
    if (tensor.strides() != at::IntArrayRef(value.stride) && tensor.numel() > 0) {
      const at::Tensor laid = at::empty_strided(value.shape, value.stride, tensor.options());
      laid.copy_(tensor);
      if (value.input >= 0) inputs[static_cast<size_t>(value.input)] = laid;
      tensor = laid;
    }
    run.values[k] = tensor;
  }
  uint64_t seed = request.order_seed;
  for (const PlanStep& step : plan.steps) {
    if (deadline.expired()) throw ir::Fault(fmt::format("the replay did not end within {:.0f} s", request.timeout_s));
    if (step.kernel < 0) aten(run, step);
    else if (request.launch) launch(run, step, request, seed += 0x9E3779B97F4A7C15ull, deadline);
  }
  for (const auto& input : inputs) run.result.inputs.push_back(bytes_of(input));
  for (const int value : plan.output_values) {
    const at::Tensor& output = run.values[static_cast<size_t>(value)];
    run.result.outputs.push_back(bytes_of(output));
    int alias = -1;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (output.storage().unsafeGetStorageImpl() == inputs[k].storage().unsafeGetStorageImpl())
        alias = static_cast<int>(k);
    }
    run.result.aliases.push_back(alias);
  }
  run.result.findings = std::move(run.memory.findings);
  return std::move(run.result);
}

Replayer::Replayer(Plan plan, std::map<std::string, TensorView> weights, const std::string& target)
    : impl_(std::make_unique<Impl>()) {
  impl_->plan = std::move(plan);
  impl_->weights = std::move(weights);
  for (const PlanKernel& kernel : impl_->plan.kernels) {
    const auto text = kernel.ir.find(target);
    if (text == kernel.ir.end()) {
      impl_->programs.push_back(nullptr);
      continue;
    }
    try {
      impl_->programs.push_back(
          std::make_unique<ir::Program>(ir::compile(ir::parse(impl_->plan.texts[static_cast<size_t>(text->second)]))));
    } catch (const Error& error) {
      fail(error.kind(), "kernel {}: {}", kernel.name, error.what());
    }
  }
  for (const PlanStep& step : impl_->plan.steps) {
    if (step.kernel >= 0 && !impl_->programs[static_cast<size_t>(step.kernel)]) {
      fail(ErrorKind::kUsage, "kernel {}: no Triton IR for {}",
           impl_->plan.kernels[static_cast<size_t>(step.kernel)].name, target);
    }
  }
}
Replayer::~Replayer() = default;
Replay Replayer::run(const ReplayRequest& request) { return impl_->run(request); }

}  // namespace tritonforge::evaluate
