#pragma once
// Products of products: (A B) v is A (B v), with a fraction of the work. What a reference's chains would save in their
// best order counts as done by torch (plan/work.h) where a candidate's plan has torch make products that the best order
// has and the reference has not.
//
// A chain are products (mm, bmm, mv, linear, addmm, a convolution of single places) of which one is a factor of the
// other and nothing else looks at it, through views; a sum or mean over one of a product's dimensions ends it as a
// product with ones. An added bias stays in place. The order is chosen by operations and bytes as everywhere in
// plan/work.h.
#include <algorithm>
#include <array>
#include <map>

#include "evaluate/plan/plan.h"

namespace tritonforge::evaluate {

// Flops of products by what they are of: matrices, rows, length of the sums, columns.
using ProductShapes = std::map<std::array<int64_t, 4>, double>;

// What there is in `some` beyond `others`, both flops by what they are of.
template <typename Key>
double beyond(const std::map<Key, double>& some, const std::map<Key, double>& others) {
  double flops = 0;
  for (const auto& [key, own] : some) {
    const auto found = others.find(key);
    flops += std::max(0.0, own - (found == others.end() ? 0 : found->second));
  }
  return flops;
}

struct Chains {
  double saved = 0;  // work that the best orders leave out
  // Flops of products in the best orders that are none of the plan's own.
  double new_flops = 0;
  ProductShapes own;  // of all products of the plan
};
Chains chains_of(const Plan& plan);
// Of what the chains save, that which these products of torch's save.
double saved_by_order(const Plan& plan, const Chains& reference);

}  // namespace tritonforge::evaluate
