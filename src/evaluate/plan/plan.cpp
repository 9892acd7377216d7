#include "evaluate/plan/plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/error.h"

namespace tritonforge::evaluate {
namespace {

using Names = std::unordered_set<std::string_view>;

// Views and memory without contents.
const Names kFree = {"view",
                     "_unsafe_view",
                     "reshape",
                     "expand",
                     "transpose",
                     "permute",
                     "t",
                     "unsqueeze",
                     "squeeze",
                     "select",
                     "slice",
                     "narrow",
                     "split",
                     "unsafe_split",
                     "split_with_sizes",
                     "unbind",
                     "chunk",
                     "detach",
                     "alias",
                     "as_strided",
                     "diagonal",
                     "unfold",
                     "flatten",
                     "unflatten",
                     "view_as",
                     "expand_as",
                     "movedim",
                     "swapaxes",
                     "_reshape_alias",
                     "squeeze_",
                     "unsqueeze_",
                     "transpose_",
                     "t_",
                     "lift_fresh",
                     "lift",
                     "view_as_real",
                     "view_as_complex",
                     "empty",
                     "empty_like",
                     "empty_strided",
                     "new_empty",
                     "new_empty_strided",
                     "empty_permuted"};

const Names kMoving = {
    // filling
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill",
    "fill_", "zero", "zero_", "arange", "linspace", "eye", "scalar_tensor", "tril_indices", "triu_indices", "one_hot",
    // copies
    "clone", "contiguous", "copy", "copy_", "_to_copy", "to", "cat", "stack", "repeat", "repeat_interleave", "flip",
    "roll", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
    "pixel_shuffle", "pixel_unshuffle", "rot90", "tril", "triu", "tril_", "triu_", "im2col", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "reflection_pad3d", "replication_pad3d", "channel_shuffle", "native_channel_shuffle",
    "diag_embed", "diagonal_copy", "block_diag", "diagonal_scatter", "select_scatter", "slice_scatter",
    "as_strided_scatter"};

const Names kComputing = {
    // elementwise
    "add", "sub", "rsub", "mul", "div", "pow", "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "sigmoid", "logit", "floor", "ceil", "round", "trunc",
    "frac", "sign", "sgn", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder",
    "floor_divide", "where", "lerp", "addcmul", "addcdiv", "eq", "ne", "lt", "le", "gt", "ge", "logical_and",
    "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
    "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "__and__", "__or__", "__xor__", "isnan",
    "isinf", "isfinite", "nan_to_num", "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "mish",
    "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "softplus", "softsign", "threshold", "prelu",
    "_prelu_kernel", "glu", "log_sigmoid", "log_sigmoid_forward", "hypot", "copysign", "ldexp", "xlogy", "deg2rad",
    "rad2deg", "lgamma", "digamma", "heaviside", "masked_fill", "masked_fill_", "masked_scatter", "logaddexp",
    "logaddexp2", "sinc", "signbit", "angle", "isposinf", "isneginf", "isin", "rrelu_with_noise", "i0", "special_i0e",
    "special_i1", "special_i1e", "special_entr", "special_erfcx", "special_log_ndtr", "special_ndtri",
    "special_xlog1py",
    // reductions, scans, sorting
    "col2im", "sum", "mean", "prod", "var", "std", "var_mean", "std_mean", "amax", "amin", "aminmax", "max", "min",
    "argmax", "argmin", "any", "all", "nansum", "nanmedian", "trace", "norm", "linalg_vector_norm", "logsumexp",
    "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax", "_softmax", "_safe_softmax", "log_softmax",
    "_log_softmax", "sort", "argsort", "topk", "kthvalue", "median", "mode", "count_nonzero", "dist", "searchsorted",
    "bucketize", "histc", "bincount",
    // indexing
    "index", "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
    "index_add", "index_add_", "index_reduce", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_put",
    "index_put_", "_index_put_impl_", "take", "take_along_dim", "put", "embedding", "_embedding_bag",
    "_embedding_bag_forward_only", "embedding_bag",
    // linear algebra and layers; not _trilinear and einsum, whose operands' shapes do not tell their work
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "addr", "mv", "dot", "vdot", "outer", "matmul", "linear", "ger",
    "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d",
    "fractional_max_pool3d", "max_unpool2d", "max_unpool3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_bicubic2d", "upsample_trilinear3d", "grid_sampler_2d", "grid_sampler_3d", "affine_grid_generator",
    "native_layer_norm", "layer_norm", "native_group_norm", "group_norm", "native_batch_norm",
    "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "batch_norm", "instance_norm", "rms_norm",
    "_fused_rms_norm", "_weight_norm_interface", "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "cdist", "_cdist_forward",
    "_pdist_forward", "pairwise_distance", "cosine_similarity", "cross", "linalg_cross", "lstm", "gru", "rnn_tanh",
    "rnn_relu", "lstm_cell", "gru_cell", "nll_loss", "nll_loss_forward", "nll_loss2d_forward", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
    "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss_forward",
    // windows of a signal
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", "logspace",
    // random numbers: the replayer's generator is seeded by the trusted side
    "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "bernoulli_",
    "uniform_", "normal_", "normal", "exponential_", "native_dropout", "dropout"};

std::string_view short_name(std::string_view name) {
  return name.starts_with("aten::") ? name.substr(6) : std::string_view();
}

bool listed(const Names& names, std::string_view name) {
  const std::string_view own = short_name(name);
  return !own.empty() && names.contains(own);
}

// add_ is add in place.
bool listed_or_in_place(const Names& names, std::string_view name) {
  return listed(names, name) || (name.ends_with('_') && listed(names, name.substr(0, name.size() - 1)));
}

template <typename... Args>
[[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kUsage, "plan: {}", fmt::format(format, std::forward<Args>(args)...));
}

int index_of(const Json& json, size_t count, const char* what) {
  if (!json.is_number_integer()) wrong("{} is no number", what);
  const auto value = json.get<int64_t>();
  if (value < 0 || value >= static_cast<int64_t>(count)) wrong("{} {} of {}", what, value, count);
  return static_cast<int>(value);
}

std::vector<int64_t> sizes_of(const Json& json, const char* what) {
  if (!json.is_array() || json.size() > 64) wrong("{} is no list of at most 64 numbers", what);
  std::vector<int64_t> out;
  for (const auto& item : json) {
    if (!item.is_number_integer()) wrong("{} holds what is no number", what);
    out.push_back(item.get<int64_t>());
    if (out.back() < 0) wrong("{} holds {}", what, out.back());
  }
  return out;
}

// Every {"t": value} names a value that is there, and nothing is nested deeply.
void check_argument(const Json& json, size_t values, const std::string& where, int depth = 0) {
  if (depth > 4) wrong("{}: arguments are nested too deep", where);
  if (json.is_array()) {
    if (json.size() > 4096) wrong("{}: a list of {} arguments", where, json.size());
    for (const auto& item : json) check_argument(item, values, where, depth + 1);
  } else if (json.is_object()) {
    if (json.size() != 1) wrong("{}: an argument of {} fields", where, json.size());
    const std::string& key = json.begin().key();
    const Json& value = json.begin().value();
    if (key == "t") index_of(value, values, "value");
    else if ((key != "f" && key != "dtype" && key != "format") || !value.is_string())
      wrong("{}: an argument '{}'", where, key.substr(0, 40));
  }
}

// The tree with its tensors counted in order; their values go to `order`.
Json numbered(const Json& tree, size_t values, std::vector<int>& order, int depth = 0) {
  if (depth > 64) wrong("outputs are nested too deep");
  if (tree.is_object() && tree.contains("tensor")) {
    order.push_back(index_of(tree["tensor"], values, "output"));
    if (order.size() > 4096) wrong("more than 4096 outputs");
    return {{"tensor", order.size() - 1}};
  }
  if (!tree.is_structured()) return tree;
  Json out = tree;
  for (auto& item : out) item = numbered(item, values, order, depth + 1);
  return out;
}

PlanValue value_of(const Json& json, const PlanLimits& limits) {
  PlanValue value;
  const TensorView kind = [&] {
    Json described = {{"dtype", json.at("dtype")}, {"shape", {0}}, {"order", {0}}, {"bytes", 0}};
    return parse_tensors(Json::array({std::move(described)}), {}).front();
  }();
  value.dtype = kind.dtype;
  value.shape = sizes_of(json.at("shape"), "shape");
  value.stride = sizes_of(json.at("stride"), "stride");
  if (value.stride.size() != value.shape.size())
    wrong("{} strides of {} sizes", value.stride.size(), value.shape.size());
  int64_t elements = 1;
  for (const int64_t size : value.shape) {
    if (size > 0 && elements > limits.elements / size) wrong("a tensor of more than {} elements", limits.elements);
    elements *= size;
  }
  if (json.contains("input")) value.input = index_of(json["input"], limits.values, "input");
  if (json.contains("constant")) value.constant = index_of(json["constant"], limits.values, "constant");
  if (json.contains("weight")) value.weight = json["weight"].get<std::string>();
  return value;
}

PlanBinding binding_of(const Json& json, size_t values) {
  PlanBinding out;
  if (json.contains("t")) {
    out.form = PlanBinding::Form::kTensor;
    out.value = index_of(json["t"], values, "value");
  } else if (json.contains("i")) {
    out.form = PlanBinding::Form::kInteger;
    if (!json["i"].is_number_integer()) wrong("an integer argument that is none");
    out.integer = json["i"].is_number_unsigned() ? static_cast<int64_t>(json["i"].get<uint64_t>())
                                                 : json["i"].get<int64_t>();
  } else if (json.contains("r")) {
    out.form = PlanBinding::Form::kReal;
    out.real = std::strtod(json["r"].get_ref<const std::string&>().c_str(), nullptr);  // "inf" and "nan" included
  } else if (!json.contains("null")) {
    wrong("an argument of unknown kind");
  }
  return out;
}

const Json& list_of(const Json& json, const char* name, size_t most) {
  const Json& items = json.at(name);
  if (!items.is_array() || items.size() > most) wrong("'{}' is no list of at most {}", name, most);
  return items;
}

// Texts and kernels; returns where the payload's texts end.
size_t take_kernels(const Json& json, std::span<const std::byte> payload, const PlanLimits& limits, Plan& plan) {
  size_t at = 0;
  for (const auto& size : list_of(json, "texts", limits.kernels * 4)) {
    const auto bytes = size.get<uint64_t>();
    if (bytes > limits.text_bytes || at + bytes > std::min(limits.text_bytes, payload.size()))
      wrong("kernel texts of more than {} bytes", limits.text_bytes);
    plan.texts.emplace_back(reinterpret_cast<const char*>(payload.data() + at), bytes);
    at += bytes;
  }
  for (const auto& item : list_of(json, "kernels", limits.kernels)) {
    PlanKernel kernel{.name = item.at("name").get<std::string>().substr(0, 200), .options = item.at("options")};
    if (!kernel.options.is_object()) wrong("kernel {}: options are no object", kernel.name);
    for (const auto& [target, text] : item.at("ir").items())
      kernel.ir[target.substr(0, 32)] = index_of(text, plan.texts.size(), "text");
    for (const auto& [target, text] : item.at("errors").items())
      kernel.errors[target.substr(0, 32)] = text.get<std::string>().substr(0, 4000);
    plan.kernels.push_back(std::move(kernel));
  }
  return at;
}

void take_tunings(const Json& json, const PlanLimits& limits, Plan& plan) {
  if (!json.contains("tunings")) return;
  for (const auto& item : list_of(json, "tunings", limits.tunings)) {
    PlanTuning tuning{.configurations = {}, .left_out = item.at("left_out").get<uint32_t>()};
    for (const auto& name : list_of(item, "configurations", limits.configurations))
      tuning.configurations.push_back(name.get<std::string>().substr(0, 200));
    if (tuning.configurations.empty()) wrong("a tuning without configurations");
    plan.tunings.push_back(std::move(tuning));
  }
}

// How many programs a launch has.
int64_t take_grid(const Json& item, const PlanLimits& limits, const std::string& where, PlanStep& step) {
  const auto grid = sizes_of(item.at("grid"), "grid");
  if (grid.size() != 3) wrong("{}: a grid of {} sizes", where, grid.size());
  int64_t programs = 1;
  for (size_t d = 0; d < 3; ++d) {
    step.grid[d] = grid[d];
    if (grid[d] > limits.programs || programs > limits.programs / std::max<int64_t>(1, grid[d]))
      wrong("{}: more than {} programs", where, limits.programs);
    programs *= grid[d];
  }
  return programs;
}

// Which configuration a step is of.
void take_place(const Json& item, const Plan& plan, PlanStep& step) {
  if (!item.contains("of")) return;
  const Json& of = list_of(item, "of", 2);
  step.tuning = index_of(of.at(0), plan.tunings.size(), "tuning");
  step.configuration = index_of(of.at(1), plan.tunings[static_cast<size_t>(step.tuning)].configurations.size(),
                                "configuration");
}

enum class Operations { kListed, kAny };

Plan checked(const Json& json, std::span<const std::byte> payload, const PlanLimits& limits, Operations operations) {
  Plan plan;
  plan.inputs = json.at("inputs").get<size_t>();
  const size_t at = take_kernels(json, payload, limits, plan);  // then the constants
  take_tunings(json, limits, plan);
  plan.constants = parse_tensors(json.at("constants"), payload.subspan(at));
  int64_t bytes = 0;
  for (const auto& item : list_of(json, "values", limits.values)) {
    plan.values.push_back(value_of(item, limits));
    const PlanValue& value = plan.values.back();
    bytes += value.elements() * static_cast<int64_t>(size_of(value.dtype));
    if (bytes > limits.total_bytes * PlanLimits::kViews)
      wrong("values of more than {} bytes", limits.total_bytes * PlanLimits::kViews);
    if (value.input >= static_cast<int>(plan.inputs)) wrong("input {} of {}", value.input, plan.inputs);
    if (value.constant >= static_cast<int>(plan.constants.size()))
      wrong("constant {} of {}", value.constant, plan.constants.size());
  }
  // A value is made by its source or by one step, before it is used; what a configuration's step makes is its own.
  const size_t count = plan.values.size();
  using Owner = std::pair<int, int>;
  constexpr Owner kAll{-1, 0};
  std::vector<std::optional<Owner>> made(count);
  for (size_t k = 0; k < count; ++k) {
    const PlanValue& value = plan.values[k];
    if (value.input >= 0 || value.constant >= 0 || !value.weight.empty()) made[k] = kAll;
  }
  Owner owner = kAll;  // of the step at hand
  const auto used = [&](int value, const std::string& where) {
    const auto& by = made[static_cast<size_t>(value)];
    if (!by) wrong("{}: value {} is used before it is made", where, value);
    if (*by != kAll && *by != owner) wrong("{}: value {} is made by another configuration alone", where, value);
  };
  std::function<void(const Json&, const std::string&)> use_all = [&](const Json& argument, const std::string& where) {
    if (argument.is_object() && argument.contains("t")) used(argument["t"].get<int>(), where);
    else if (argument.is_array())
      for (const auto& item : argument) use_all(item, where);
  };
  std::map<Owner, int64_t> programs;
  for (const auto& item : list_of(json, "steps", limits.steps)) {
    PlanStep step;
    take_place(item, plan, step);
    owner = {step.tuning, step.configuration};
    if (item.contains("launch")) {
      step.kernel = index_of(item["launch"], plan.kernels.size(), "kernel");
      const std::string where = fmt::format("step {} (kernel {})", plan.steps.size(),
                                            plan.kernels[static_cast<size_t>(step.kernel)].name);
      programs[owner] += take_grid(item, limits, where, step);
      if (programs[owner] > limits.programs) wrong("{}: more than {} programs", where, limits.programs);
      if (!item.at("args").is_array() || item["args"].size() > 1024) wrong("{}: its arguments are no list", where);
      for (const auto& argument : item["args"]) {
        step.bindings.push_back(binding_of(argument, count));
        if (step.bindings.back().value >= 0) used(step.bindings.back().value, where);
      }
    } else {
      step.name = item.at("aten").get<std::string>();
      step.overload = item.at("overload").get<std::string>();
      if (operations == Operations::kListed && !is_allowed(step.name))
        fail(ErrorKind::kUnsupported,
             "plan: operation {} is not replayed: a kernel must do it, or other operations (no decomposition, Fourier "
             "transform or sampling is replayed)",
             step.name.substr(0, 80));
      const std::string where = fmt::format("step {} ({})", plan.steps.size(), step.name);
      step.args = item.at("args");
      step.kwargs = item.at("kwargs");
      if (!step.args.is_array() || !step.kwargs.is_object()) wrong("{}: its arguments are no list", where);
      check_argument(step.args, count, where);
      use_all(step.args, where);
      for (const auto& [name, argument] : step.kwargs.items()) {
        check_argument(argument, count, where);
        use_all(argument, where);
      }
      for (const auto& out : item.at("out")) {
        step.out.push_back(out.is_null() ? -1 : index_of(out, count, "result"));
        if (step.out.back() < 0) continue;
        auto& by = made[static_cast<size_t>(step.out.back())];
        if (!by || owner == kAll) by = owner;
      }
    }
    plan.steps.push_back(std::move(step));
  }
  std::map<int, int64_t> most;  // by tuning, of its configurations
  int64_t all = 0;
  for (const auto& [of, launched] : programs) most[of.first] = std::max(most[of.first], launched);
  for (const auto& [tuning, launched] : most) {
    if ((all += launched) > limits.programs) wrong("more than {} programs", limits.programs);
  }
  owner = kAll;
  plan.outputs = numbered(json.at("outputs"), count, plan.output_values);
  for (const int value : plan.output_values) used(value, "outputs");
  return plan;
}

}  // namespace

int64_t PlanValue::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

size_t Plan::launches() const {
  return static_cast<size_t>(
      std::count_if(steps.begin(), steps.end(), [](const PlanStep& step) { return step.kernel >= 0; }));
}

std::vector<bool> repeats_of(const Plan& plan) {
  std::vector<bool> repeats;
  for (const int output : plan.output_values) {
    const PlanValue& value = plan.values[static_cast<size_t>(output)];
    int64_t shown = 1;
    for (size_t d = 0; d < value.shape.size(); ++d) shown += (value.shape[d] - 1) * value.stride[d];
    repeats.push_back(shown < value.elements());
  }
  return repeats;
}

std::vector<bool> by_row(const Plan& plan) {
  std::vector<bool> ordered;
  for (const int output : plan.output_values) {
    const PlanValue& value = plan.values[static_cast<size_t>(output)];
    int64_t step = 1;
    bool in_order = true;
    for (size_t d = value.shape.size(); d-- > 0;) {
      in_order = in_order && (value.shape[d] == 1 || value.stride[d] == step);
      step *= value.shape[d];
    }
    ordered.push_back(in_order || step == 0);
  }
  return ordered;
}

bool is_free(std::string_view aten_name) { return listed(kFree, aten_name); }

bool only_moves(std::string_view aten_name) { return listed_or_in_place(kMoving, aten_name); }

double memory_of(const Plan& plan) {
  std::vector<bool> is_view(plan.values.size());
  for (const PlanStep& step : plan.steps) {
    const bool view = step.kernel < 0 && is_free(step.name) && step.name.find("empty") == std::string::npos;
    for (const int value : step.out) {
      if (value >= 0) is_view[static_cast<size_t>(value)] = view;
    }
  }
  double bytes = 0;
  for (size_t k = 0; k < plan.values.size(); ++k) {
    if (!is_view[k])
      bytes += static_cast<double>(plan.values[k].elements()) * static_cast<double>(size_of(plan.values[k].dtype));
  }
  return bytes;
}

std::vector<int64_t> memory_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const std::vector<int64_t> by_row = order;
  const auto at = [](const std::vector<int64_t>& list, int64_t d) { return list[static_cast<size_t>(d)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return at(stride, a) > at(stride, b); });
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    if (at(shape, order[k]) != 1 && at(stride, order[k]) != step) return by_row;
    step *= at(shape, order[k]);
  }
  return order;
}

bool is_allowed(std::string_view aten_name) {
  return is_free(aten_name) || only_moves(aten_name) || listed_or_in_place(kComputing, aten_name);
}

namespace {

// What is wrong in any way becomes one kind of error.
template <typename Parse>
Plan parsed(Parse parse) {
  try {
    return parse();
  } catch (const nlohmann::json::exception&) {
    wrong("a field is missing or has the wrong type");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    wrong("{}", error.what());
  }
}

}  // namespace

Plan parse_plan(const Json& json, std::span<const std::byte> payload, const PlanLimits& limits) {
  return parsed([&] { return checked(json, payload, limits, Operations::kListed); });
}

Plan parse_calls(const Json& json, const PlanLimits& limits) {
  return parsed([&] { return checked(json, {}, limits, Operations::kAny); });
}

Choice recorders_choice(const Plan& plan) {
  Choice choice;
  for (const PlanTuning& tuning : plan.tunings) choice.push_back(static_cast<int>(tuning.configurations.size()) - 1);
  return choice;
}

std::vector<PlanStep> chosen_steps(const std::vector<PlanStep>& steps, const std::vector<PlanTuning>& tunings,
                                   const Choice& choice) {
  if (choice.size() != tunings.size()) wrong("a choice of {} for {} tunings", choice.size(), tunings.size());
  for (size_t k = 0; k < choice.size(); ++k) {
    if (choice[k] < 0 || choice[k] >= static_cast<int>(tunings[k].configurations.size()))
      wrong("configuration {} of {}", choice[k], tunings[k].configurations.size());
  }
  std::vector<PlanStep> done;
  for (const PlanStep& step : steps) {
    if (is_done(step, choice)) done.push_back(step);
  }
  return done;
}

Plan parse_kernels(const Json& json, std::span<const std::byte> payload, const PlanLimits& limits) {
  return parsed([&] {
    Plan plan;
    take_kernels(json, payload, limits, plan);
    take_tunings(json, limits, plan);
    for (const auto& item : list_of(json, "launches", limits.steps)) {
      PlanStep step{.kernel = index_of(item.at("launch"), plan.kernels.size(), "kernel")};
      take_place(item, plan, step);
      take_grid(item, limits, fmt::format("launch {}", plan.steps.size()), step);
      plan.steps.push_back(std::move(step));
    }
    return plan;
  });
}

}  // namespace tritonforge::evaluate
