#include "evaluate/plan/chains.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {
namespace {

constexpr int kOnes = -1;  // in place of a value: what a sum multiplies with
constexpr double kElementBytes = 4;
constexpr size_t kLongest = 64;  // dimensions of a chain, and products above one another; beyond, nothing is looked for

struct Product {
  int64_t matrices = 1, rows = 1, length = 1, columns = 1;
  int left = kOnes, right = kOnes;
  double flops() const { return 2.0 * double(matrices) * double(rows) * double(length) * double(columns); }
};

double work_of(double m, double k, double n) {
  return 2 * m * k * n / kFlopsPerByte + kElementBytes * (m * k + k * n + m * n);
}

// A plan's products by the value that each makes, and which value a view shows.
class Graph {
 public:
  explicit Graph(const Plan& plan) : plan_(plan), shown_(plan.values.size(), -1), uses_(plan.values.size(), 0) {
    for (const PlanStep& step : plan.steps) {
      if (step.kernel < 0 && !step.out.empty() && step.out.front() >= 0) add(step);
    }
    for (const int output : plan.output_values) ++uses_[at(root(output))];
  }
  const std::map<int, Product>& products() const { return products_; }
  // Of a factor: the product that made it and whose only use this is; nullptr where it is none.
  const Product* made(int value) const {
    const auto found = value < 0 ? products_.end() : products_.find(root(value));
    return found != products_.end() && uses_[at(found->first)] == 1 ? &found->second : nullptr;
  }
  // It is a factor of another one.
  bool goes_on(int value) const { return factors_.contains(value) && made(value) != nullptr; }

 private:
  static size_t at(int value) { return static_cast<size_t>(value); }
  int root(int value) const {
    while (shown_[at(value)] >= 0) value = shown_[at(value)];
    return value;
  }
  const std::vector<int64_t>& shape(int value) const { return plan_.values[at(value)].shape; }

  void add(const PlanStep& step) {
    std::vector<int> given;
    tensors(step.args, given);
    const int out = step.out.front();
    const bool view = is_free(step.name) && step.name.find("empty") == std::string::npos;
    if (view && given.size() == 1 && given[0] != out &&
        plan_.values[at(out)].elements() == plan_.values[at(given[0])].elements()) {
      shown_[at(out)] = given[0];
      return;
    }
    for (const int value : given) ++uses_[at(root(value))];
    if (const auto product = product_of(step, given)) {
      products_.emplace(out, *product);
      for (const int factor : {product->left, product->right}) {
        if (factor >= 0) factors_.insert(root(factor));
      }
    }
  }

  std::optional<Product> product_of(const PlanStep& step, const std::vector<int>& given) const {
    const std::string name = step.name.substr(std::min<size_t>(6, step.name.size()));
    if ((name == "sum" || name == "mean") && given.size() == 1) return sum_of(step, given[0]);
    const size_t first = name == "addmm" || name == "baddbmm" || name == "addmv" ? 1 : 0;
    const bool pointwise = name == "convolution" && is_pointwise(step, given), linear = name == "linear" || pointwise;
    if (first == 0 && !linear && name != "mm" && name != "bmm" && name != "mv" && name != "matmul") return {};
    if (given.size() < first + 2) return {};
    const auto &left = shape(given[first]), &right = shape(given[first + 1]);
    const size_t rank = linear ? 2 : right.size();
    if (rank < 1 || rank > 3 || (!pointwise && right.size() != rank) || left.empty()) return {};
    if (!linear && rank > 1 && left.size() != rank) return {};
    if (rank == 1 && left.size() != 2) return {};
    Product made{.left = given[first], .right = given[first + 1]};
    made.length = pointwise ? left[1] : left.back();
    if (rank == 3) made.matrices = left[0];
    made.columns = rank == 1 ? 1 : linear ? right[0] : right.back();
    const int64_t elements = plan_.values[at(given[first])].elements();
    made.rows = elements / std::max<int64_t>(1, made.length * made.matrices);
    return made;
  }

  // A convolution whose filters look at one place: a linear layer of channels.
  bool is_pointwise(const PlanStep& step, const std::vector<int>& given) const {
    if (given.size() < 2 || step.args.size() != 9) return false;
    const auto &input = shape(given[0]), &filter = shape(given[1]);
    const auto all = [&](const Json& sizes, int64_t wanted) {
      return std::all_of(sizes.begin(), sizes.end(), [&](const Json& size) { return size == Json(wanted); });
    };
    return input.size() > 2 && filter.size() == input.size() && input[1] == filter[1] &&
           std::all_of(filter.begin() + 2, filter.end(), [](int64_t size) { return size == 1; }) &&
           all(step.args[3], 1) && all(step.args[4], 0) && step.args[6] != Json(true) && step.args[8] == Json(1);
  }

  // Over one of two dimensions, or of the last two of three.
  std::optional<Product> sum_of(const PlanStep& step, int value) const {
    const auto& of = shape(value);
    const auto rank = static_cast<int64_t>(of.size());
    const Json dims = step.args.size() > 1 ? step.args[1] : Json();
    if (!dims.is_array() || dims.size() != 1 || !dims[0].is_number_integer() || rank < 2 || rank > 3) return {};
    const int64_t over = (dims[0].get<int64_t>() + rank) % rank, last = rank - 1;
    if (over < last - 1) return {};
    const auto summed = products_.find(root(value));
    const bool one = summed != products_.end() && summed->second.matrices == 1 && over == last;  // of many rows
    Product made{.left = value};
    made.matrices = rank == 3 && !one ? of[0] : 1;
    made.length = of[at(static_cast<int>(over))];
    made.rows = plan_.values[at(value)].elements() / std::max<int64_t>(1, made.matrices * made.length);
    return made;
  }

  static void tensors(const Json& argument, std::vector<int>& into) {
    if (argument.is_object() && argument.contains("t")) into.push_back(argument["t"].get<int>());
    if (argument.is_array()) {
      for (const Json& item : argument) tensors(item, into);
    }
  }

  const Plan& plan_;
  std::vector<int> shown_;  // of a view: what it shows
  std::vector<int> uses_;   // by calls that are no views
  std::map<int, Product> products_;
  std::set<int> factors_;
};

// The sizes along a chain, from its first factor's rows to its last one's columns, and what it takes as it stands.
struct Chain {
  std::vector<int64_t> sizes;
  double work = 0;
  bool ends_with_ones = false;
};

// From `first` to `last`; a factor is used transposed where its own chain goes the other way.
std::optional<Chain> turned(Chain chain, int64_t first, int64_t last) {
  if (chain.sizes.front() == first && chain.sizes.back() == last) return chain;
  std::reverse(chain.sizes.begin(), chain.sizes.end());
  return chain.sizes.front() == first && chain.sizes.back() == last ? std::optional(chain) : std::nullopt;
}

Chain chain_of(const Graph& graph, const Product& product, size_t depth = 0) {
  const auto factor = [&](int value, int64_t first, int64_t last) {
    const Product* made = graph.made(value);
    if (made != nullptr && made->matrices == product.matrices && depth < kLongest) {
      if (const auto own = turned(chain_of(graph, *made, depth + 1), first, last); own && own->sizes.size() < kLongest)
        return *own;
    }
    return Chain{.sizes = {first, last}};
  };
  Chain chain = factor(product.left, product.rows, product.length);
  const Chain right = factor(product.right, product.length, product.columns);
  chain.sizes.insert(chain.sizes.end(), right.sizes.begin() + 1, right.sizes.end());
  chain.work += right.work + work_of(double(product.rows), double(product.length), double(product.columns));
  chain.ends_with_ones = product.right == kOnes;
  return chain;
}

// By dynamic programming over where the last product of a part is.
class BestOrder {
 public:
  explicit BestOrder(const Chain& chain)
      : sizes_(chain.sizes), ones_(chain.ends_with_ones), n_(sizes_.size()), least_(n_ * n_, 0), split_(n_ * n_, 0) {
    for (size_t span = 2; span < n_; ++span) {
      for (size_t from = 0; from + span < n_; ++from) choose(from, from + span);
    }
  }
  double work() const { return least_[n_ - 1]; }
  void add_shapes(int64_t matrices, ProductShapes& shapes) const { add(0, n_ - 1, matrices, shapes); }

 private:
  void choose(size_t from, size_t to) {
    double& least = least_[from * n_ + to];
    least = std::numeric_limits<double>::infinity();
    for (size_t at = from + 1; at < to; ++at) {
      const double all = least_[from * n_ + at] + least_[at * n_ + to] +
                         work_of(double(sizes_[from]), double(sizes_[at]), double(sizes_[to]));
      if (all < least) std::tie(least, split_[from * n_ + to]) = std::pair(all, at);
    }
  }
  void add(size_t from, size_t to, int64_t matrices, ProductShapes& shapes) const {
    if (to - from < 2) return;
    const size_t at = split_[from * n_ + to];
    add(from, at, matrices, shapes);
    add(at, to, matrices, shapes);
    if (ones_ && at + 1 == to && to + 1 == n_) return;  // a sum
    shapes[{matrices, sizes_[from], sizes_[at], sizes_[to]}] += 2.0 * double(matrices) * double(sizes_[from]) *
                                                                double(sizes_[at]) * double(sizes_[to]);
  }
  std::vector<int64_t> sizes_;
  bool ones_;
  size_t n_;
  std::vector<double> least_;
  std::vector<size_t> split_;
};

ProductShapes shapes_of(const Graph& graph) {
  ProductShapes shapes;
  for (const auto& [value, product] : graph.products()) {
    if (product.right != kOnes)
      shapes[{product.matrices, product.rows, product.length, product.columns}] += product.flops();
  }
  return shapes;
}

}  // namespace

Chains chains_of(const Plan& plan) {
  const Graph graph(plan);
  Chains chains{.own = shapes_of(graph)};
  ProductShapes best;
  for (const auto& [value, product] : graph.products()) {
    if (graph.goes_on(value)) continue;  // a part of another one's chain
    const Chain chain = chain_of(graph, product);
    if (chain.sizes.size() < 4) continue;
    const BestOrder order(chain);
    chains.saved += double(product.matrices) * std::max(0.0, chain.work - order.work());
    order.add_shapes(product.matrices, best);
  }
  chains.new_flops = beyond(best, chains.own);
  return chains;
}

double saved_by_order(const Plan& plan, const Chains& reference) {
  if (reference.saved <= 0 || reference.new_flops <= 0) return 0;
  return reference.saved * std::min(1.0, beyond(shapes_of(Graph(plan)), reference.own) / reference.new_flops);
}

}  // namespace tritonforge::evaluate
