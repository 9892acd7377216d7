#include "evaluate/plan/call_flops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>

namespace tritonforge::evaluate {
namespace {

void collect(const Plan& plan, const Json& argument, Values& into) {
  if (argument.is_object() && argument.contains("t")) into.push_back(&plan.values[argument["t"].get<size_t>()]);
  if (argument.is_array()) {
    for (const auto& item : argument) collect(plan, item, into);
  }
}

// aten::add_ -> add
std::string_view short_name(std::string_view name) {
  name.remove_prefix(std::min<size_t>(6, name.size()));
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

}  // namespace

double size(const PlanValue& value, int64_t dimension) {
  const auto rank = static_cast<int64_t>(value.shape.size());
  const int64_t at = dimension < 0 ? rank + dimension : dimension;
  return at >= 0 && at < rank ? static_cast<double>(value.shape[static_cast<size_t>(at)]) : 1.0;
}

Call call_of(const Plan& plan, const PlanStep& step) {
  Call call{.step = step, .name = short_name(step.name), .in = {}, .out = {}};
  collect(plan, step.args, call.in);
  for (const auto& argument : step.kwargs) collect(plan, argument, call.in);
  for (const int value : step.out) {
    if (value >= 0) call.out.push_back(&plan.values[static_cast<size_t>(value)]);
  }
  return call;
}

// The last one is what cdist has a product for, beyond 25 rows.
bool is_distances(std::string_view name) {
  return name == "cdist" || name == "_cdist_forward" || name == "_pdist_forward" || name == "_euclidean_dist";
}

bool is_attention(const Call& call) {
  return call.name.find("attention") != std::string_view::npos && call.in.size() > 1;
}

bool is_recurrent(std::string_view name) {
  return name == "lstm" || name == "gru" || name.starts_with("rnn_") || name == "lstm_cell" || name == "gru_cell";
}

double recurrent_rows(const Call& call) {
  return call.in.empty() ? 0 : static_cast<double>(call.in[0]->elements()) / std::max(1.0, size(*call.in[0], -1));
}

// Weights are behind the states.
Values recurrent_matrices(const Call& call) {
  const Json& states = call.argument(1);
  const size_t weights = 1 + (states.is_array() ? states.size() : 1);
  Values matrices;
  for (size_t k = weights; k < call.in.size(); ++k)
    if (call.in[k]->shape.size() == 2) matrices.push_back(call.in[k]);
  return matrices;
}

Products recurrent_products(const Call& call) {
  Products products;
  for (const PlanValue* matrix : recurrent_matrices(call))
    products[matrix->shape[1]] += 2 * recurrent_rows(call) * static_cast<double>(matrix->elements());
  return products;
}

// All, or those of keys up to the query's own place, sum_i min(i, keys).
double unmasked(const Call& call) {
  const bool flash = call.name.find("flash") != std::string_view::npos;  // it has no mask before is_causal
  if (!call.flag("is_causal", flash ? 4 : 5) || call.out.empty()) return 1;
  const double queries = size(*call.out.front(), -2), keys = size(*call.in[1], -2);
  const double square = std::min(queries, keys);
  return (square * (square + 1) / 2 + (queries - square) * keys) / std::max(1.0, queries * keys);
}

namespace {

// Sizes of an operand of _trilinear with its new dimensions.
std::vector<double> spread_out(const PlanValue& operand, const Json& added, size_t rank) {
  std::vector<double> sizes(rank, 1);
  for (size_t k = 0, at = 0; k < rank; ++k) {
    const bool is_new = std::any_of(added.begin(), added.end(), [&](const Json& one) { return one == Json(k); });
    if (!is_new && at < operand.shape.size()) sizes[k] = static_cast<double>(operand.shape[at++]);
  }
  return sizes;
}

// 5 n log2 n for n complex numbers, half of it where one side is real.
double fourier_flops(const Call& call) {
  if (call.in.empty() || call.out.empty()) return 0;
  const bool from_real = call.name == "_fft_r2c", to_real = call.name == "_fft_c2r";
  const PlanValue& longer = to_real ? *call.out.front() : *call.in.front();
  double length = 1;  // pairs, which complex numbers are, lie along a dimension before the others
  for (const Json& dimension : call.argument(1))
    length *= size(longer, dimension.get<int64_t>() + (from_real || to_real ? 0 : 1));
  const double numbers = static_cast<double>(longer.elements()) / (from_real || to_real ? 1 : 2);
  return (from_real || to_real ? 2.5 : 5) * numbers * std::log2(std::max(length, 1.0));
}

// What a matrix [m, n] takes at least, by m n min(m, n): Golub and Van Loan, with values alone where the rest is
// optional.
const std::unordered_map<std::string_view, double> kDecompositions = {
    {"linalg_cholesky_ex", 1 / 3.0}, {"cholesky", 1 / 3.0},     {"linalg_lu_factor_ex", 2 / 3.0},
    {"linalg_lu", 2 / 3.0},          {"_linalg_det", 2 / 3.0},  {"_linalg_slogdet", 2 / 3.0},
    {"_linalg_solve_ex", 2 / 3.0},   {"linalg_inv_ex", 2},      {"linalg_qr", 4 / 3.0},
    {"linalg_lstsq", 4 / 3.0},       {"_linalg_eigh", 4 / 3.0}, {"_linalg_svd", 8 / 3.0},
    {"linalg_pinv", 8 / 3.0},        {"linalg_matrix_exp", 2}};

}  // namespace

// Sums of products: 2 M N K from the shapes of operands and result, and what attention does to its scores; 0 for other
// operations.
double product_flops(const Call& call) {
  const auto& [name, in] = std::pair(call.name, call.in);
  const double results = call.results();
  const auto inner = [&](size_t index) { return in.size() > index ? size(*in[index], -1) : 1.0; };
  if (name == "mm" || name == "bmm" || name == "mv" || name == "matmul" || name == "dot" || name == "vdot" ||
      name == "linear" || name.ends_with("_mm"))
    return 2 * std::max(1.0, results) * inner(0);
  if (name == "addmm" || name == "baddbmm" || name == "addmv") return 2 * results * inner(1);
  if (name == "addbmm") return 2 * results * inner(1) * (in.size() > 1 ? size(*in[1], 0) : 1);  // sums over matrices
  if (is_distances(name)) return 4 * std::max(1.0, results) * inner(0);
  if (name.find("conv") != std::string_view::npos && in.size() > 1 && in[1]->shape.size() > 1 && in[1]->shape[0] > 0) {
    // Each result takes a filter's inputs; where it is transposed, each input goes to a filter's results.
    const bool transposed = name.find("transpose") != std::string_view::npos || call.argument(6) == Json(true);
    const double taken = transposed ? static_cast<double>(in[0]->elements()) : results;
    return 2 * taken * static_cast<double>(in[1]->elements()) / size(*in[1], 0);
  }
  if (is_attention(call) && !call.out.empty()) {  // queries with keys, scores with values
    const double of_keys = size(*in[0], -1) / std::max(1.0, size(*call.out.front(), -1));
    return 2 * results * size(*in[1], -2) * (1 + of_keys) * unmasked(call);
  }
  double flops = 0;
  if (is_recurrent(name)) {
    for (const auto& [length, of_it] : recurrent_products(call)) flops += of_it;
  }
  return flops;
}

// One of three operands is summed up with another before the third one comes: a product and a sum for each place.
double trilinear_flops(const Call& call) {
  if (call.in.size() < 3) return 0;
  const size_t rank = call.in[0]->shape.size() + call.argument(3).size();
  std::vector<double> most(rank, 1);
  for (size_t operand = 0; operand < 3; ++operand) {
    const auto sizes = spread_out(*call.in[operand], call.argument(3 + operand), rank);
    std::transform(most.begin(), most.end(), sizes.begin(), most.begin(),
                   [](double a, double b) { return std::max(a, b); });
  }
  return 2 * std::accumulate(most.begin(), most.end(), 1.0, std::multiplies<>());
}

// Of calls that no plan may have, which references alone make; 0 where no formula is known.
double unlisted_flops(const Call& call) {
  if (call.name == "_trilinear") return trilinear_flops(call);
  if (call.name.starts_with("_fft_")) return fourier_flops(call);
  if (call.in.empty()) return 0;
  const PlanValue& matrix = *call.in.front();
  const double elements = static_cast<double>(matrix.elements()), least = std::min(size(matrix, -2), size(matrix, -1));
  if (call.name == "linalg_solve_triangular" && call.in.size() > 1)
    return static_cast<double>(call.in[1]->elements()) * size(matrix, -1);
  const auto found = kDecompositions.find(call.name);
  if (found == kDecompositions.end()) return 0;
  const double solved = call.name == "_linalg_solve_ex" ? 2 * call.results() * size(matrix, -1) : 0;
  return found->second * elements * least + solved;
}

}  // namespace tritonforge::evaluate
