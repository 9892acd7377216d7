#pragma once
// One aten call of a plan, and the operations that its results take: of products, transforms and decompositions, from
// the shapes of what it is given and of what it makes. What formulas beside these weigh is
// call_bytes.h's.
#include <string_view>
#include <vector>

#include "evaluate/plan/plan.h"
#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {

using Values = std::vector<const PlanValue*>;

// A call: its values, and which of them a fused kernel would never write.
struct Call {
  const PlanStep& step;
  std::string_view name;
  Values in, out;
  double results() const { return out.empty() ? 0 : static_cast<double>(out.front()->elements()); }
  const Json& argument(size_t index) const {
    static const Json none;
    return step.args.is_array() && index < step.args.size() ? step.args[index] : none;
  }
  bool flag(const char* name, size_t index) const {
    return argument(index) == Json(true) || (step.kwargs.is_object() && step.kwargs.value(name, Json()) == Json(true));
  }
};
Call call_of(const Plan& plan, const PlanStep& step);

double size(const PlanValue& value, int64_t dimension);  // 1 where it has no such dimension; -1: the last
bool is_distances(std::string_view name);                // of all pairs
bool is_attention(const Call& call);
double unmasked(const Call& call);  // the part of attention's scores that is used, as far as is_causal says it
bool is_recurrent(std::string_view name);
// Of a recurrent layer or cell: each of so many rows goes through every matrix of its weights.
double recurrent_rows(const Call& call);
Values recurrent_matrices(const Call& call);
Products recurrent_products(const Call& call);  // by the length of their sums

double product_flops(const Call& call);
double trilinear_flops(const Call& call);
double unlisted_flops(const Call& call);

}  // namespace tritonforge::evaluate
