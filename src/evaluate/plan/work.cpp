#include "evaluate/plan/work.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <unordered_map>

#include "base/rng.h"
#include "evaluate/plan/call_flops.h"

namespace tritonforge::evaluate {
namespace {

constexpr double kMostSaved = 4;  // of a product, by doing it in pieces: what Winograd's 4 x 4 tiles save a convolution

// Calls of one name that formulas spell out in several: how many passes over its tensors these are, at most. In-place
// ones are found without their underscore.
// clang-format off
const std::unordered_map<std::string_view, double> kPasses = {
    {"sigmoid", 5}, {"tanh", 7}, {"log_sigmoid", 6}, {"log_sigmoid_forward", 6}, {"silu", 6}, {"mish", 12},
    {"gelu", 14}, {"softplus", 4}, {"softsign", 4}, {"elu", 6}, {"selu", 6}, {"celu", 6}, {"hardswish", 5},
    {"hardsigmoid", 4}, {"relu", 2}, {"relu6", 3}, {"hardtanh", 3}, {"leaky_relu", 4}, {"prelu", 4},
    {"_prelu_kernel", 4}, {"hardshrink", 5}, {"softshrink", 6}, {"threshold", 3}, {"glu", 6}, {"clamp", 3}, {"sinh", 5},
    {"cosh", 5}, {"asinh", 5}, {"acosh", 5}, {"atanh", 5}, {"tan", 4}, {"exp2", 2}, {"expm1", 2}, {"log1p", 2},
    {"log2", 2}, {"log10", 2}, {"rsqrt", 2}, {"logit", 4}, {"lerp", 4}, {"addcmul", 4}, {"addcdiv", 4}, {"hypot", 5},
    {"xlogy", 5}, {"nan_to_num", 6}, {"abs", 3}, {"sign", 4}, {"fmod", 4}, {"remainder", 4}, {"atan2", 4},
    {"clamp_min", 3}, {"clamp_max", 3}, {"maximum", 2}, {"minimum", 2}, {"fmax", 2}, {"fmin", 2}, {"frac", 3},
    {"pow", 3}, {"copysign", 3}, {"heaviside", 3}, {"floor_divide", 2}, {"where", 4}, {"masked_fill", 4}, {"sgn", 4},
    {"trunc", 5}, {"floor", 4}, {"ceil", 4}, {"round", 6}, {"sqrt", 3}, {"sin", 2}, {"cos", 2}, {"asin", 5},
    {"acos", 6}, {"atan", 6}, {"erf", 40}, {"erfc", 41}, {"erfinv", 40}, {"lgamma", 40}, {"digamma", 40},
    {"deg2rad", 2}, {"rad2deg", 2}, {"ldexp", 2}, {"bitwise_xor", 5}, {"__xor__", 5}, {"logical_xor", 5},
    // reductions (one by one, a partial sum is read, a term is read, and their sum is written) and norms
    {"sum", 3}, {"amax", 3}, {"amin", 3}, {"max", 3}, {"min", 3}, {"median", 3}, {"kthvalue", 3}, {"sort", 6},
    {"argsort", 6}, {"mean", 2}, {"prod", 3}, {"any", 3}, {"all", 3}, {"count_nonzero", 4}, {"cumsum", 2}, {"cumprod", 2}, {"var", 5},
    {"std", 6}, {"var_mean", 6}, {"std_mean", 7}, {"norm", 4}, {"linalg_vector_norm", 4}, {"_weight_norm", 6},
    {"_weight_norm_interface", 6},
    {"logsumexp", 6}, {"logcumsumexp", 5}, {"aminmax", 2}, {"softmax", 6}, {"_softmax", 6}, {"_safe_softmax", 6},
    {"log_softmax", 7}, {"_log_softmax", 7}, {"native_layer_norm", 9}, {"layer_norm", 9}, {"native_group_norm", 9},
    {"group_norm", 9}, {"native_batch_norm", 9}, {"_native_batch_norm_legit", 9}, {"batch_norm", 9},
    {"_native_batch_norm_legit_no_training", 6}, {"instance_norm", 9}, {"rms_norm", 6}, {"_fused_rms_norm", 6},
    {"cosine_similarity", 8}, {"pairwise_distance", 6}, {"dist", 5}, {"cross", 6}, {"linalg_cross", 6},
    // losses, interpolation
    {"mse_loss", 4}, {"l1_loss", 4}, {"smooth_l1_loss", 9}, {"huber_loss", 9}, {"kl_div", 6}, {"nll_loss", 4},
    {"nll_loss_forward", 4}, {"nll_loss2d_forward", 4}, {"binary_cross_entropy", 9},
    {"binary_cross_entropy_with_logits", 10}, {"soft_margin_loss", 6}, {"upsample_bilinear2d", 12}};
// clang-format on

// What calls compute on the way, by names of their own: these are the reference's, too, where it makes such a call.
const std::vector<std::string_view> kOfNorms = {"mean", "var", "std", "var_mean", "std_mean", "rsqrt", "sqrt", "sum"};
const std::vector<std::string_view> kOfLosses = {"mean", "sum"};
const std::vector<std::string_view> kOfSoftmax = {"max", "amax", "sum"};
const std::vector<std::string_view> kOfLogSoftmax = {"logsumexp", "max", "amax", "sum"};
const std::vector<std::string_view> kOfRecurrence = {"sigmoid", "tanh", "linear", "addmm"};
const std::unordered_map<std::string_view, std::vector<std::string_view>> kParts = {
    {"batch_norm", kOfNorms},
    {"native_layer_norm", kOfNorms},
    {"native_group_norm", kOfNorms},
    {"rms_norm", kOfNorms},
    {"lstm", kOfRecurrence},
    {"lstm_cell", kOfRecurrence},
    {"gru", kOfRecurrence},
    {"gru_cell", kOfRecurrence},
    {"rnn_tanh", kOfRecurrence},
    {"rnn_relu", {"relu", "linear", "addmm"}},
    {"silu", {"sigmoid"}},
    {"mish", {"softplus", "tanh"}},
    {"log_softmax", kOfLogSoftmax},
    {"_log_softmax", kOfLogSoftmax},
    {"scaled_dot_product_attention", {"softmax"}},
    {"softmax", kOfSoftmax},
    {"_softmax", kOfSoftmax},
    {"logsumexp", kOfSoftmax},
    {"gelu", {"erf", "tanh"}},
    {"mean", {"sum"}},
    {"var", kOfNorms},
    {"std", kOfNorms},
    {"norm", {"sum", "sqrt"}},
    {"linalg_vector_norm", {"sum", "sqrt"}},
    {"mse_loss", kOfLosses},
    {"l1_loss", kOfLosses},
    {"smooth_l1_loss", kOfLosses},
    {"huber_loss", kOfLosses},
    {"kl_div", kOfLosses},
    {"soft_margin_loss", kOfLosses},
    {"nll_loss_forward", kOfLosses},
    {"nll_loss2d_forward", kOfLosses},
    {"binary_cross_entropy", kOfLosses},
    {"binary_cross_entropy_with_logits", kOfLosses}};

double passes_of(std::string_view name) {
  const auto found = kPasses.find(name);
  return found == kPasses.end() ? 1 : found->second;
}

double product_of(const Json& sizes) {
  if (sizes.is_number_integer()) return sizes.get<double>();
  double product = 1;
  for (const auto& size : sizes) product *= size.is_number_integer() ? size.get<double>() : 1;
  return product;
}

// Of one of a tensor's elements: numbers of a narrower type than the reference's weigh as the reference's.
double width_of(const PlanValue& value, const ReferenceWork& reference) {
  return std::max(static_cast<double>(size_of(value.dtype)), reference.width);
}
double bytes_of(const PlanValue& value, const ReferenceWork& reference) {
  return static_cast<double>(value.elements()) * width_of(value, reference);
}

// Of the widest type among tensors of half as many elements as the largest one of numbers with fractions, where there
// are any, or more: counters and indices are none.
double widest_of(const Values& values) {
  const auto most_of_type = [&](bool floating) {
    int64_t most = 0;
    for (const PlanValue* value : values) {
      if (!floating || is_floating(value->dtype)) most = std::max(most, value->elements());
    }
    return most;
  };
  const int64_t fractions = most_of_type(true), most = fractions > 0 ? fractions : most_of_type(false);
  size_t width = 0;
  for (const PlanValue* value : values) {
    if (2 * value->elements() >= most) width = std::max(width, size_of(value->dtype));
  }
  return static_cast<double>(width);
}

bool is_bag(const Call& call) {
  return call.name.find("embedding_bag") != std::string_view::npos && call.in.size() > 1;
}

// What a recurrent layer makes on the way: every product's results.
double gates_of(const Call& call) {
  double elements = 0;
  if (is_recurrent(call.name)) {
    for (const PlanValue* matrix : recurrent_matrices(call)) elements += recurrent_rows(call) * size(*matrix, 0);
  }
  return elements;
}
// They are written and read. Where the reference's loop of cells reads its matrices at every step, so does the layer.
double gate_bytes(const Call& call, const ReferenceWork& reference) {
  if (call.in.size() < 2 || !is_recurrent(call.name)) return 0;
  double bytes = 2 * gates_of(call) * width_of(*call.in[0], reference);
  if (reference.calls.empty() || reference.calls.contains(std::string(call.name))) return bytes;
  const double steps = recurrent_rows(call) / std::max(1.0, size(*call.in[1], -2));
  for (const PlanValue* matrix : recurrent_matrices(call)) bytes += (steps - 1) * bytes_of(*matrix, reference);
  return bytes;
}

// Elements of the rows that bags take from their table.
double rows_of_bags(const Call& call) { return static_cast<double>(call.in[1]->elements()) * size(*call.in[0], -1); }

// Adds its products by the length of their sums.
void add_products(const Call& call, Products& products) {
  if (call.name == "_trilinear" && !call.in.empty())
    products[std::llround(size(*call.in[0], -1))] += trilinear_flops(call);
  const double flops = product_flops(call);
  if (flops == 0) return;
  if (is_recurrent(call.name)) {
    for (const auto& [length, of_it] : recurrent_products(call)) products[length] += of_it;
    return;
  }
  if (is_attention(call)) {
    const double width = size(*call.in[0], -1), of_keys = width / (width + size(*call.out.front(), -1));
    products[std::llround(width)] += flops * of_keys;
    products[std::llround(size(*call.in[1], -2))] += flops * (1 - of_keys);
    return;
  }
  const bool distances = is_distances(call.name);  // half of it may be done as a product
  const double multiplied = distances ? flops / 2 : flops;
  products[std::llround(multiplied / (2 * std::max(1.0, call.results())))] += multiplied;
}

// What products in pieces saved of the reference's.
double saved_by_pieces(const Products& products, const Products& reference) {
  const double pieces = beyond(products, reference), rest = beyond(reference, products);
  return std::max(0.0, std::min(kMostSaved * pieces, rest) - pieces);
}

// Takes of a tensor what its order says.
bool selects(std::string_view name) {
  static const std::set<std::string_view> kSelecting = {"topk", "kthvalue", "median",  "mode",   "max",   "min",
                                                        "amax", "amin",     "aminmax", "argmax", "argmin"};
  return kSelecting.contains(name);
}

// Elements of a pool's window; 0 where none of them overlap.
double windows_of(const Call& call) {
  if (call.name.find("adaptive") == std::string_view::npos) return product_of(call.argument(1));
  double window = 1;
  bool overlap = false;
  for (int64_t dimension = -static_cast<int64_t>(call.argument(1).size()); dimension < 0; ++dimension) {
    const double ratio = size(*call.in.front(), dimension) / std::max(1.0, size(*call.out.front(), dimension));
    window *= std::ceil(ratio);
    overlap = overlap || ratio != std::floor(ratio);
  }
  return overlap ? window : 0;
}

// Elements that are compared with each other where a search or a count is spelled out.
double compared(const Call& call) {
  const auto given = static_cast<double>(call.in.front()->elements());
  if (call.name == "bincount" || call.name == "histc") return given * call.results();
  if ((call.name == "searchsorted" || call.name == "bucketize") && call.in.size() > 1)
    return given * size(*call.in[1], -1);
  return 0;
}

// A product and a sum in one call.
bool adds_product(std::string_view name) {
  return name == "addmm" || name == "baddbmm" || name == "addmv" || name == "linear";
}

// Factors and roundings within a call, each an operation of its own: alpha and beta of add and addmm, div's mode.
double within(const Call& call) {
  double found = 0;
  for (const char* option : {"alpha", "beta", "rounding_mode"}) {
    const Json value = call.step.kwargs.is_object() ? call.step.kwargs.value(option, Json()) : Json();
    const bool does_nothing = value.is_null() || value == Json(1) || value == Json(0);
    found += does_nothing ? 0 : 1;
  }
  return found;
}
std::string with_options(const Call& call) { return std::string(call.name) + " with options"; }
// Calls that take parts of their tensors away.
bool is_mask(std::string_view name) {
  return name == "tril" || name == "triu" || name == "masked_fill" || name == "where" || name == "masked_scatter";
}
bool masks(const Call& call) { return is_mask(call.name); }

// Bools are bytes where a comparison writes them or a mask is read, else numbers.
double bytes_of(const PlanValue& value, const Call& call, const ReferenceWork& reference) {
  const auto is_bool = [](const PlanValue* one) { return one->dtype == Dtype::kBool; };
  const bool computes_on_bools = !masks(call) && std::any_of(call.in.begin(), call.in.end(), is_bool);
  return is_bool(&value) && !computes_on_bools ? static_cast<double>(value.elements()) : bytes_of(value, reference);
}

double within_bytes(const Call& call, const ReferenceWork& reference) {
  return call.out.empty() ? 0 : 2 * within(call) * bytes_of(*call.out.front(), reference);
}

// Bytes that a formula of elementary calls would move beside the call's own tensors. `spelled_out`: flops of its
// products that the reference's products are not.
double hidden_bytes(const Call& call, const ReferenceWork& reference, double spelled_out) {
  const auto& [name, in] = std::pair(call.name, call.in);
  if (call.out.empty() || in.empty()) return 0;
  // Of what the reference sorts, values and places.
  if (selects(name) && (reference.calls.contains("sort") || reference.calls.contains("argsort")))
    return static_cast<double>(in[0]->elements()) * (width_of(*in[0], reference) + size_of(Dtype::kInt64));
  const double element = width_of(*call.out.front(), reference);
  constexpr double kOfSums = 3;                        // a sum is read, a term is read, and their sum is written
  constexpr double kOnPairs = 5;                       // two comparisons, both, a number of it, a sum
  if (name == "topk" && call.argument(1).is_number())  // so many maxima, each taken out before the next
    return kOfSums * bytes_of(*in[0], reference) * call.argument(1).get<double>();
  if (const double pairs = compared(call); pairs > 0) return kOnPairs * pairs / kFlopsPerByte;
  // Of products that a reference makes none of: a factor is read, their term is written, read and added up.
  if (reference.work.computing > 0 && spelled_out > 0) return (2 + kOfSums) * element * spelled_out / 2;
  const bool fused = std::ranges::any_of(reference.calls | std::views::keys, adds_product);
  if (adds_product(name) && in.size() > 2 && !fused && !reference.calls.empty()) return 2 * element * call.results();
  if (is_attention(call)) {
    constexpr double kOnScores = 18;  // two products, scale, mask and softmax read and write them
    return kOnScores * element * call.results() / std::max(1.0, size(*call.out.front(), -1)) * size(*in[1], -2);
  }
  if (name.find("pool") != std::string_view::npos) return kOfSums * element * call.results() * windows_of(call);
  if (is_distances(name)) return 2 * element * call.results();                                   // the root of the sums
  if (name == "addbmm" && in.size() > 1) return 2 * element * call.results() * size(*in[1], 0);  // what is summed
  return 0;
}

// Elements that a call goes over though no tensor of it has them.
double hidden_elements(const Call& call) {
  static const std::set<std::string_view> kOfPairs = {"cosine_similarity",
                                                      "pairwise_distance",
                                                      "dist",
                                                      "mse_loss",
                                                      "l1_loss",
                                                      "smooth_l1_loss",
                                                      "huber_loss",
                                                      "kl_div",
                                                      "binary_cross_entropy",
                                                      "binary_cross_entropy_with_logits",
                                                      "soft_margin_loss"};
  if (is_bag(call)) return rows_of_bags(call) * (call.in.size() > 3 ? 2 : 1);  // each times its weight
  if (!kOfPairs.contains(call.name)) return 0;
  double elements = 1;  // of its operands' broadcast
  for (int64_t dimension = -1;; --dimension) {
    double most = 0;
    for (const PlanValue* value : call.in) {
      if (-dimension <= static_cast<int64_t>(value->shape.size())) most = std::max(most, size(*value, dimension));
    }
    if (most == 0) return elements;
    elements *= most;
  }
}

// Its operands are broadcast against each other, to more than there was.
bool spreads(const Call& call) {
  double given = 0;
  for (const PlanValue* value : call.in) {
    given += static_cast<double>(value->elements());
    const auto& own = value->shape;
    const auto& whole = call.out.empty() ? own : call.out.front()->shape;
    if (own.size() > whole.size()) return false;
    for (size_t k = 1; k <= own.size(); ++k) {
      if (own[own.size() - k] != 1 && own[own.size() - k] != whole[whole.size() - k]) return false;
    }
  }
  return call.in.size() > 1 && call.results() > given;
}

// A tensor of a launch that is larger than all its others together.
const PlanValue* spread_by_launch(const Plan& plan, const PlanStep& step) {
  std::set<const PlanValue*> values;
  for (const PlanBinding& binding : step.bindings) {
    if (binding.form == PlanBinding::Form::kTensor) values.insert(&plan.values[static_cast<size_t>(binding.value)]);
  }
  int64_t all = 0;
  const PlanValue* largest = nullptr;
  for (const PlanValue* value : values) {
    all += value->elements();
    if (largest == nullptr || value->elements() > largest->elements()) largest = value;
  }
  return largest && 2 * largest->elements() > all ? largest : nullptr;
}

// A cast to whole numbers, or of numbers to bools, which is a comparison.
bool rounds(const Call& call) {
  if (call.out.empty() || is_floating(call.out.front()->dtype)) return false;
  const bool to_bool = call.out.front()->dtype == Dtype::kBool;
  return std::ranges::any_of(call.in, [&](const PlanValue* value) {
    return is_floating(value->dtype) || (to_bool && value->dtype != Dtype::kBool);
  });
}

// Data that a call only moves. A triangle is a mask where the reference has no call for one, but a product.
bool moves_data(const Call& call, const ReferenceWork& reference) {
  if (!only_moves(call.step.name) || rounds(call)) return false;
  return !masks(call) || std::ranges::any_of(reference.calls | std::views::keys, is_mask);
}

// A product or quotient with 1.
bool by_one(const Call& call) {
  const Json& factor = call.argument(1);
  return (call.name == "mul" || call.name == "div") && within(call) == 0 &&
         (factor == Json(1) || (factor.is_object() && factor.value("f", "") == "1.0"));
}

// Takes elements from where they are told to.
bool gathers(std::string_view name) {
  static const std::set<std::string_view> kGathering = {"index", "index_select", "gather",
                                                        "take",  "embedding",    "take_along_dim"};
  return kGathering.contains(name);
}

// What a product multiplies, without what it adds.
Values factors(const Call& call) {
  const size_t first = call.name.starts_with("add") || call.name.starts_with("badd") ? 1 : 0;
  const size_t last = std::min(call.in.size(), first + 2);
  return first < last ? Values(call.in.begin() + first, call.in.begin() + last) : Values();
}

// Values of which products need not take all: what masks made, what was made of it, and what is masked afterwards.
std::set<const PlanValue*> masked_values(const Plan& plan, const std::vector<Call>& calls,
                                         const std::set<size_t>& with_zeros) {
  std::set<const PlanValue*> masked;
  for (const size_t value : with_zeros) masked.insert(&plan.values.at(value));
  const auto in_it = [&](const PlanValue* value) { return masked.contains(value); };
  const auto add = [&](const Values& values) { masked.insert(values.begin(), values.end()); };
  for (const Call& call : calls) {
    const Values multiplied = factors(call);
    const bool less = product_flops(call) > 0  // it has zeros where both of its factors have them
                          ? !multiplied.empty() && std::all_of(multiplied.begin(), multiplied.end(), in_it)
                          : masks(call) || std::any_of(call.in.begin(), call.in.end(), in_it);
    if (less) add(call.out);
  }
  // Backwards to the products whose results are masked.
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (product_flops(*call) == 0 && (masks(*call) || std::any_of(call->out.begin(), call->out.end(), in_it)))
      add(call->in);
  }
  return masked;
}

}  // namespace

double product_flops(const Plan& plan, const std::set<size_t>& with_zeros) {
  std::vector<Call> calls;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel < 0) calls.push_back(call_of(plan, step));
  }
  const auto masked = masked_values(plan, calls, with_zeros);
  const auto is_masked = [&](const PlanValue* value) { return masked.contains(value); };
  double flops = 0;
  for (const Call& call : calls) {
    if (is_free(call.step.name) || only_moves(call.step.name)) continue;
    const Values multiplied = factors(call);
    const bool less = std::any_of(multiplied.begin(), multiplied.end(), is_masked) ||
                      std::any_of(call.out.begin(), call.out.end(), is_masked) ||
                      (is_attention(call) && call.in.size() > 3);  // it is given a mask
    const bool distances = is_distances(call.name);                // |x|^2 - 2 x y + |y|^2: one product
    if (!less) flops += (distances ? 0.5 : 1) * product_flops(call);
  }
  return flops;
}

double part_of_zeros(const TensorView& tensor) {
  constexpr size_t kLooks = 4096;
  const size_t size = size_of(tensor.dtype), count = tensor.bytes.size() / size;
  if (count == 0) return 0;
  Rng rng(0);
  size_t zeros = 0;
  for (size_t k = 0; k < kLooks; ++k) {
    const auto element = tensor.bytes.subspan(rng.below(count) * size, size);
    zeros += std::all_of(element.begin(), element.end(), [](std::byte byte) { return byte == std::byte{0}; }) ? 1 : 0;
  }
  return static_cast<double>(zeros) / kLooks;
}

namespace {

struct Counted {
  Work work;
  double unwritten = 0;  // ReferenceWork
};

// Elements that a call goes over.
double most_of(const Call& call) {
  double most = std::max(call.results(), hidden_elements(call));
  for (const PlanValue* value : call.in) most = std::max(most, static_cast<double>(value->elements()));
  return most;
}

// The part of so many elements that the reference's calls of this name went over, which is then spent.
double known_part(std::map<std::string, double>& known, const std::string& name, double elements) {
  const auto found = known.find(name);
  if (found == known.end()) return 0;
  const double part = std::min(1.0, found->second / std::max(1.0, elements));
  found->second -= part * elements;
  return part;
}

constexpr std::string_view kCausal = "attention that is causal";

Counted count(const Plan& plan, const ReferenceWork& reference, std::string* heaviest = nullptr) {
  Work work;
  double unwritten = 0;
  std::map<std::string_view, double> computing;  // by name
  Products products;
  std::set<const PlanValue*> spread;  // larger than all that it was made of: never written by a fused kernel
  std::set<const PlanValue*> reciprocals;
  std::map<std::string, double> known_calls = reference.calls;
  double pieces = 0;  // flops that can be the reference's products in pieces
  for (const auto& [length, flops] : reference.products) pieces += kMostSaved * flops;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel >= 0) {
      const PlanValue* written = spread_by_launch(plan, step);
      if (written && static_cast<double>(written->elements()) <= reference.spread) spread.insert(written);
      continue;
    }
    const Call call = call_of(plan, step);
    // Torch makes 1 / x of a reciprocal and a product with 1.
    if (call.name == "reciprocal") reciprocals.insert(call.out.begin(), call.out.end());
    const bool of_one = by_one(call) && !call.in.empty() && reciprocals.contains(call.in.front());
    const bool moves = moves_data(call, reference), free = is_free(step.name) || of_one;
    double product = 0, spelled_out = 0;
    if (!moves && !free) {
      product = std::max(product_flops(call), unlisted_flops(call));
      // That a mask is causal is the candidate's word where the reference's is a tensor.
      if (product > 0 && is_attention(call) && !reference.calls.empty() &&
          !reference.calls.contains(std::string(kCausal)))
        product /= unmasked(call);
      spelled_out = std::max(0.0, product_flops(call) - pieces);
      pieces = std::max(0.0, pieces - product_flops(call));
      add_products(call, products);
    }
    // Of a table of rows those that are taken are read.
    double read = is_bag(call) ? (rows_of_bags(call) - static_cast<double>(call.in[0]->elements())) *
                                     width_of(*call.in[0], reference)
                               : gate_bytes(call, reference);
    double inputs = 0, spared = 0;
    double kept = 0;  // elements of the largest operand that is written
    bool of_spread = false;
    std::set<const PlanValue*> seen;  // x * x reads x once
    for (const PlanValue* value : call.in) {
      const auto elements = static_cast<double>(value->elements());
      inputs += elements;
      if (spread.contains(value)) of_spread = true;
      else kept = std::max(kept, elements);
      if (seen.insert(value).second) (spread.contains(value) ? spared : read) += bytes_of(*value, call, reference);
    }
    const bool wider = product == 0 && !moves && !free && spreads(call);
    double bytes = read;
    for (const PlanValue* value : call.out) {
      const auto elements = static_cast<double>(value->elements());
      // With an operand of its own size that is written a result is no more spread than that one.
      const bool stays = of_spread && (free || (elements >= inputs / 2 && elements > kept));
      if (wider || stays) spread.insert(value);
      (wider || stays ? spared : bytes) += bytes_of(*value, call, reference);
    }
    if (free) continue;
    const double most = most_of(call), known = known_part(known_calls, std::string(call.name), most);
    const double passes = known + (1 - known) * passes_of(call.name);
    double all = passes * ((product > 0 ? product : most) / kFlopsPerByte + bytes);
    if (known < 1) all += (1 - known) * hidden_bytes(call, reference, spelled_out);
    if (within(call) > 0)
      all += (1 - known_part(known_calls, with_options(call), most)) * within_bytes(call, reference);
    (moves ? work.moving : work.computing) += all;
    unwritten += passes * spared;
    if (!moves) computing[call.name] += all;
  }
  const auto most = std::ranges::max_element(computing, {}, [](const auto& one) { return one.second; });
  if (heaviest && most != computing.end()) *heaviest = most->first;
  work.computing += saved_by_pieces(products, reference.products) / kFlopsPerByte;
  work.computing += saved_by_order(plan, reference.chains);
  return {work, unwritten};
}

}  // namespace

Work aten_work(const Plan& plan, const ReferenceWork& reference, std::string* heaviest) {
  Counted own = count(plan, reference, heaviest);
  own.work.computing += std::max(0.0, own.unwritten - reference.unwritten);
  return own.work;
}

ReferenceWork reference_work(const Plan& plan) {
  ReferenceWork reference;
  bool computes = false;  // more than to look up
  Values tensors;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel >= 0) continue;
    const Call call = call_of(plan, step);
    const double most = most_of(call);
    reference.calls[std::string(call.name)] += most;
    if (const auto parts = kParts.find(call.name); parts != kParts.end()) {
      for (const std::string_view part : parts->second) reference.calls[std::string(part)] += most + gates_of(call);
    }
    if (within(call) > 0) reference.calls[with_options(call)] += most;
    if (is_attention(call) && unmasked(call) < 1) reference.calls[std::string(kCausal)] += most;
    if (is_free(step.name)) continue;
    for (const Values& some : {call.in, call.out}) tensors.insert(tensors.end(), some.begin(), some.end());
    if (only_moves(step.name)) continue;
    add_products(call, reference.products);
    if (product_flops(call) == 0 && spreads(call)) reference.spread = std::max(reference.spread, call.results());
    computes = computes || !gathers(call.name);
  }
  reference.width = widest_of(tensors);
  const Counted own = count(plan, reference);
  reference.work = own.work;
  reference.unwritten = own.unwritten;
  if (!computes) reference.work = {.moving = reference.work.of(true)};
  reference.chains = chains_of(plan);
  return reference;
}

Work launch_work(double flops, double bytes, bool copies) {
  const double work = flops / kFlopsPerByte + bytes;
  return copies ? Work{.moving = work} : Work{.computing = work};
}

Work bound_work(const Plan& plan, const std::vector<bool>& copied) {
  Work work;
  size_t launch = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.kernel < 0) continue;
    std::set<int> values;
    double bytes = 0;
    for (const PlanBinding& binding : step.bindings) {
      if (binding.form == PlanBinding::Form::kTensor && values.insert(binding.value).second)
        bytes += bytes_of(plan.values[static_cast<size_t>(binding.value)], {});
    }
    work += launch_work(0, bytes, launch < copied.size() && copied[launch]);
    ++launch;
  }
  return work;
}

double own_share(const Work& own, const Work& aten, const std::optional<Work>& reference) {
  if (own.of(true) <= 0) return 0;
  const bool all = reference && reference->computing <= 0;  // the problem is to move data
  const double left = aten.of(all);
  if (left <= 0) return 1;
  const double of_candidate = own.of(all) / (own.of(all) + left);
  const double of_reference = reference ? 1 - left / std::max(reference->of(all), 1e-9) : 1;
  return std::clamp(std::min(of_candidate, of_reference), 0.0, 1.0);
}

}  // namespace tritonforge::evaluate
