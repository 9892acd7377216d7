#pragma once
// What one aten call of a plan weighs beside the operations of call_flops.h: the bytes of its tensors, those of a
// formula that spells it out, and whether it computes at all. `reference`: what the problem's own code calls; none of
// it where that is not known.
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/plan/call_flops.h"

namespace tritonforge::evaluate {

// How many passes over its tensors a formula takes at most; 1 where the call is none. In-place calls go without their
// underscore, here and in all names.
double passes_of(std::string_view name);
// What a call computes on the way, by names of calls.
const std::vector<std::string_view>& parts_of(std::string_view name);

// Of a tensor: numbers of a narrower type than the reference's weigh as the reference's. As what a call is given or
// makes, bools are bytes where a comparison writes them or a mask is read, else numbers.
double bytes_of(const PlanValue& value, const ReferenceWork& reference);
double bytes_of(const PlanValue& value, const Call& call, const ReferenceWork& reference);
// Bytes of the widest type among tensors of half as many elements as the largest one of numbers with fractions, where
// there are any, or more: counters and indices are none.
double widest_of(const Values& values);

// What a recurrent layer makes on the way: elements of every product's results.
double gates_of(const Call& call);
// Bytes that no tensor of the call has: a recurrent layer's gates, written and read. Of a table of rows those that bags
// take are read: what the table weighs too much is below 0.
double inner_bytes(const Call& call, const ReferenceWork& reference);
// Bytes that a formula of elementary calls would move beside the call's own tensors. `spelled_out`: flops of its
// products that the reference's products are not.
double hidden_bytes(const Call& call, const ReferenceWork& reference, double spelled_out);
// Factors and roundings within a call, each an operation of its own (alpha and beta of add and addmm, div's mode), and
// their bytes; the name under which the reference has such calls.
double within(const Call& call);
double within_bytes(const Call& call, const ReferenceWork& reference);
std::string with_options(const Call& call);

// Elements that a call goes over.
double most_of(const Call& call);
// Its operands are broadcast against each other, to more than there was.
bool spreads(const Call& call);
// It takes parts of its tensors away.
bool masks(const Call& call);
// Data that a call only moves. A triangle is a mask where the reference has no call for one, but a product.
bool moves_data(const Call& call, const ReferenceWork& reference);
// Takes elements from where they are told to.
bool gathers(std::string_view name);

}  // namespace tritonforge::evaluate
