#include "evaluate/plan/call_bytes.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>
#include <unordered_map>

namespace tritonforge::evaluate {
namespace {

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
    {"logaddexp", 10}, {"logaddexp2", 10}, {"sinc", 10}, {"signbit", 2}, {"angle", 9}, {"isposinf", 2},
    {"isneginf", 2}, {"isin", 2}, {"rrelu_with_noise", 8}, {"exponential", 4}, {"normal", 4},
    // series and polynomials of two or three ranges, all of which a formula computes
    {"i0", 250}, {"special_i0e", 250}, {"special_i1", 250}, {"special_i1e", 250}, {"special_entr", 12},
    {"special_erfcx", 60}, {"special_log_ndtr", 60}, {"special_ndtri", 150}, {"special_xlog1py", 8},
    {"bartlett_window", 10}, {"blackman_window", 10}, {"hamming_window", 8}, {"hann_window", 8},
    {"kaiser_window", 250}, {"logspace", 4},
    // reductions (one by one, a partial sum is read, a term is read, and their sum is written) and norms
    {"sum", 3}, {"amax", 3}, {"amin", 3}, {"max", 3}, {"min", 3}, {"median", 3}, {"kthvalue", 3}, {"sort", 6},
    {"argsort", 6}, {"mean", 2}, {"nansum", 8}, {"nanmedian", 8}, {"trace", 3}, {"index_reduce", 3}, {"prod", 3},
    {"any", 3}, {"all", 3}, {"count_nonzero", 4},
    {"cumsum", 2}, {"cumprod", 2}, {"var", 5}, {"std", 6}, {"var_mean", 6}, {"std_mean", 7}, {"norm", 4}, {"linalg_vector_norm", 4}, {"_weight_norm", 6},
    {"_weight_norm_interface", 6},
    {"logsumexp", 6}, {"logcumsumexp", 5}, {"aminmax", 2}, {"softmax", 6}, {"_softmax", 6}, {"_safe_softmax", 6},
    {"log_softmax", 7}, {"_log_softmax", 7}, {"native_layer_norm", 9}, {"layer_norm", 9}, {"native_group_norm", 9},
    {"group_norm", 9}, {"native_batch_norm", 9}, {"_native_batch_norm_legit", 9}, {"batch_norm", 9},
    {"_native_batch_norm_legit_no_training", 6}, {"instance_norm", 9}, {"rms_norm", 6}, {"_fused_rms_norm", 6},
    {"cosine_similarity", 8}, {"pairwise_distance", 6}, {"dist", 5}, {"cross", 6}, {"linalg_cross", 6},
    // losses; interpolation: each neighbour is taken, weighed and added, and of cubic ones the weights are polynomials
    {"mse_loss", 4}, {"l1_loss", 4}, {"smooth_l1_loss", 9}, {"huber_loss", 9}, {"kl_div", 6}, {"nll_loss", 4},
    {"nll_loss_forward", 4}, {"nll_loss2d_forward", 4}, {"binary_cross_entropy", 9},
    {"binary_cross_entropy_with_logits", 10}, {"soft_margin_loss", 6}, {"multi_margin_loss", 16},
    {"multilabel_margin_loss_forward", 6}, {"max_unpool2d", 3}, {"max_unpool3d", 3}, {"upsample_linear1d", 12},
    {"upsample_bilinear2d", 12}, {"upsample_trilinear3d", 45}, {"upsample_bicubic2d", 100}, {"grid_sampler_2d", 200},
    {"grid_sampler_3d", 120}, {"affine_grid_generator", 16}};
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
    {"nansum", {"sum"}},
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

bool is_bag(const Call& call) {
  return call.name.find("embedding_bag") != std::string_view::npos && call.in.size() > 1;
}

// Elements of the rows that bags take from their table.
double rows_of_bags(const Call& call) { return static_cast<double>(call.in[1]->elements()) * size(*call.in[0], -1); }

// A recurrent layer's gates are written and read. Where the reference's loop of cells reads its matrices at every step,
// so does the layer.
double gate_bytes(const Call& call, const ReferenceWork& reference) {
  if (call.in.size() < 2 || !is_recurrent(call.name)) return 0;
  double bytes = 2 * gates_of(call) * width_of(*call.in[0], reference);
  if (reference.calls.empty() || reference.calls.contains(std::string(call.name))) return bytes;
  const double steps = recurrent_rows(call) / std::max(1.0, size(*call.in[1], -2));
  for (const PlanValue* matrix : recurrent_matrices(call)) bytes += (steps - 1) * bytes_of(*matrix, reference);
  return bytes;
}

// Takes of a tensor what its order says.
bool selects(std::string_view name) {
  static const std::set<std::string_view> kSelecting = {"topk", "kthvalue", "median", "nanmedian", "mode",   "max",
                                                        "min",  "amax",     "amin",   "aminmax",   "argmax", "argmin"};
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
  if (call.name == "isin" && call.in.size() > 1) return given * static_cast<double>(call.in[1]->elements());
  if (call.name == "multilabel_margin_loss_forward") return given * size(*call.in.front(), -1);
  return 0;
}

// Places that a call puts in order, or sums up to each of them, along a dimension; what goes over all pairs of them
// does the same. 0 for other calls.
double ordered(const Call& call) {
  static const std::set<std::string_view> kOrdering = {"cumsum", "cumprod", "cummax",  "cummin",
                                                       "sort",   "mode",    "argsort", "logcumsumexp"};
  if (!kOrdering.contains(call.name)) return 0;
  const Json& named = call.step.kwargs.is_object() ? call.step.kwargs.value("dim", Json()) : Json();
  const Json& dimension = named.is_null() ? call.argument(call.step.overload == "stable" ? 2 : 1) : named;
  return size(*call.in.front(), dimension.is_number_integer() ? dimension.get<int64_t>() : -1);
}

// A product and a sum in one call.
bool adds_product(std::string_view name) {
  return name == "addmm" || name == "baddbmm" || name == "addmv" || name == "linear";
}

// Calls that take parts of their tensors away.
bool is_mask(std::string_view name) {
  return name == "tril" || name == "triu" || name == "masked_fill" || name == "where" || name == "masked_scatter";
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

// A cast to whole numbers, or of numbers to bools, which is a comparison.
bool rounds(const Call& call) {
  if (call.out.empty() || is_floating(call.out.front()->dtype)) return false;
  const bool to_bool = call.out.front()->dtype == Dtype::kBool;
  return std::ranges::any_of(call.in, [&](const PlanValue* value) {
    return is_floating(value->dtype) || (to_bool && value->dtype != Dtype::kBool);
  });
}

}  // namespace

double passes_of(std::string_view name) {
  const auto found = kPasses.find(name);
  return found == kPasses.end() ? 1 : found->second;
}

const std::vector<std::string_view>& parts_of(std::string_view name) {
  static const std::vector<std::string_view> none;
  const auto found = kParts.find(name);
  return found == kParts.end() ? none : found->second;
}

double bytes_of(const PlanValue& value, const ReferenceWork& reference) {
  return static_cast<double>(value.elements()) * width_of(value, reference);
}

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

double gates_of(const Call& call) {
  double elements = 0;
  if (is_recurrent(call.name)) {
    for (const PlanValue* matrix : recurrent_matrices(call)) elements += recurrent_rows(call) * size(*matrix, 0);
  }
  return elements;
}

double inner_bytes(const Call& call, const ReferenceWork& reference) {
  if (call.name == "trace" && !call.in.empty())  // it reads the diagonal alone
    return (std::min(size(*call.in[0], 0), size(*call.in[0], 1)) - static_cast<double>(call.in[0]->elements())) *
           width_of(*call.in[0], reference);
  if (!is_bag(call)) return gate_bytes(call, reference);
  return (rows_of_bags(call) - static_cast<double>(call.in[0]->elements())) * width_of(*call.in[0], reference);
}

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

bool masks(const Call& call) { return is_mask(call.name); }

double bytes_of(const PlanValue& value, const Call& call, const ReferenceWork& reference) {
  const auto is_bool = [](const PlanValue* one) { return one->dtype == Dtype::kBool; };
  const bool computes_on_bools = !masks(call) && std::any_of(call.in.begin(), call.in.end(), is_bool);
  return is_bool(&value) && !computes_on_bools ? static_cast<double>(value.elements()) : bytes_of(value, reference);
}

double within_bytes(const Call& call, const ReferenceWork& reference) {
  return call.out.empty() ? 0 : 2 * within(call) * bytes_of(*call.out.front(), reference);
}

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
  const double all_pairs = static_cast<double>(in[0]->elements()) * ordered(call);
  if (all_pairs > 0 && reference.spread >= all_pairs) return kOnPairs * all_pairs / kFlopsPerByte;
  // Of products that a reference makes none of: a factor is read, their term is written, read and added up.
  if (reference.work.computing > 0 && spelled_out > 0) return (2 + kOfSums) * element * spelled_out / 2;
  const bool fused = std::ranges::any_of(reference.calls | std::views::keys, adds_product);
  if (adds_product(name) && in.size() > 2 && !fused && !reference.calls.empty()) return 2 * element * call.results();
  if (is_attention(call)) {
    constexpr double kOnScores = 18;  // two products, scale, mask and softmax read and write them
    return kOnScores * element * call.results() / std::max(1.0, size(*call.out.front(), -1)) * size(*in[1], -2);
  }
  if (name.find("_pool") != std::string_view::npos) return kOfSums * element * call.results() * windows_of(call);
  if (is_distances(name)) return 2 * element * call.results();                                   // the root of the sums
  if (name == "addbmm" && in.size() > 1) return 2 * element * call.results() * size(*in[1], 0);  // what is summed
  return 0;
}

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

bool moves_data(const Call& call, const ReferenceWork& reference) {
  if (!only_moves(call.step.name) || rounds(call)) return false;
  return !masks(call) || std::ranges::any_of(reference.calls | std::views::keys, is_mask);
}

bool gathers(std::string_view name) {
  static const std::set<std::string_view> kGathering = {"index", "index_select", "gather",
                                                        "take",  "embedding",    "take_along_dim"};
  return kGathering.contains(name);
}

double most_of(const Call& call) {
  double most = std::max(call.results(), hidden_elements(call));
  for (const PlanValue* value : call.in) most = std::max(most, static_cast<double>(value->elements()));
  return most;
}

}  // namespace tritonforge::evaluate
