#include "evaluate/plan/work.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/rng.h"
#include "evaluate/plan/call_bytes.h"

namespace tritonforge::evaluate {
namespace {

constexpr double kMostSaved = 4;  // of a product, by doing it in pieces: what Winograd's 4 x 4 tiles save a convolution

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

// A product or quotient with 1.
bool by_one(const Call& call) {
  const Json& factor = call.argument(1);
  return (call.name == "mul" || call.name == "div") && within(call) == 0 &&
         (factor == Json(1) || (factor.is_object() && factor.value("f", "") == "1.0"));
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

// The part of so many elements that the reference's calls of this name went over, which is then spent.
double known_part(std::map<std::string, double>& known, const std::string& name, double elements) {
  const auto found = known.find(name);
  if (found == known.end()) return 0;
  const double part = std::min(1.0, found->second / std::max(1.0, elements));
  found->second -= part * elements;
  return part;
}

constexpr std::string_view kCausal = "attention that is causal";

// What the calls of a plan cost, one after the other; the reference's own calls and products pay for their like.
class Counter {
 public:
  Counter(const Plan& plan, const ReferenceWork& reference)
      : plan_(plan), reference_(reference), known_calls_(reference.calls) {
    for (const auto& [length, flops] : reference.products) pieces_ += kMostSaved * flops;
  }

  void add(const PlanStep& step) {
    if (step.kernel >= 0) return add_launch(step);
    const Call call = call_of(plan_, step);
    // Torch makes 1 / x of a reciprocal and a product with 1.
    if (call.name == "reciprocal") reciprocals_.insert(call.out.begin(), call.out.end());
    const bool of_one = by_one(call) && !call.in.empty() && reciprocals_.contains(call.in.front());
    const bool moves = moves_data(call, reference_), free = is_free(step.name) || of_one;
    const Flops flops = moves || free ? Flops() : flops_of(call);
    const Traffic traffic = traffic_of(call, free, flops.product == 0 && !moves && !free && spreads(call));
    if (free) return;
    const double most = most_of(call), known = known_part(known_calls_, std::string(call.name), most);
    const double passes = known + (1 - known) * passes_of(call.name);
    double all = passes * ((flops.product > 0 ? flops.product : most) / kFlopsPerByte + traffic.bytes);
    if (known < 1) all += (1 - known) * hidden_bytes(call, reference_, flops.spelled_out);
    if (within(call) > 0)
      all += (1 - known_part(known_calls_, with_options(call), most)) * within_bytes(call, reference_);
    (moves ? counted_.work.moving : counted_.work.computing) += all;
    counted_.unwritten += passes * traffic.spared;
    if (!moves) computing_[call.name] += all;
  }

  Counted counted() const {
    Counted result = counted_;
    result.work.computing += saved_by_pieces(products_, reference_.products) / kFlopsPerByte;
    result.work.computing += saved_by_order(plan_, reference_.chains);
    return result;
  }

  // The name whose calls compute most; "" where none does.
  std::string heaviest() const {
    const auto most = std::ranges::max_element(computing_, {}, [](const auto& one) { return one.second; });
    return most == computing_.end() ? "" : std::string(most->first);
  }

 private:
  struct Flops {
    double product = 0, spelled_out = 0;  // of them beyond the reference's products
  };
  struct Traffic {
    double bytes = 0, spared = 0;  // of what a fused kernel writes, and of what it never does
  };

  void add_launch(const PlanStep& step) {
    const PlanValue* written = spread_by_launch(plan_, step);
    if (written && static_cast<double>(written->elements()) <= reference_.spread) spread_.insert(written);
  }

  Flops flops_of(const Call& call) {
    Flops flops{.product = std::max(product_flops(call), unlisted_flops(call))};
    // That a mask is causal is the candidate's word where the reference's is a tensor.
    if (flops.product > 0 && is_attention(call) && !reference_.calls.empty() &&
        !reference_.calls.contains(std::string(kCausal)))
      flops.product /= unmasked(call);
    flops.spelled_out = std::max(0.0, product_flops(call) - pieces_);
    pieces_ = std::max(0.0, pieces_ - product_flops(call));
    add_products(call, products_);
    return flops;
  }

  // wider: the results are larger than what they are made of.
  Traffic traffic_of(const Call& call, bool free, bool wider) {
    Traffic traffic{.bytes = inner_bytes(call, reference_)};
    double inputs = 0, kept = 0;  // elements of all operands, and of the largest one that is written
    bool of_spread = false;
    std::set<const PlanValue*> seen;  // x * x reads x once
    for (const PlanValue* value : call.in) {
      const auto elements = static_cast<double>(value->elements());
      inputs += elements;
      if (spread_.contains(value)) of_spread = true;
      else kept = std::max(kept, elements);
      if (seen.insert(value).second)
        (spread_.contains(value) ? traffic.spared : traffic.bytes) += bytes_of(*value, call, reference_);
    }
    for (const PlanValue* value : call.out) {
      const auto elements = static_cast<double>(value->elements());
      // With an operand of its own size that is written a result is no more spread than that one.
      const bool stays = of_spread && (free || (elements >= inputs / 2 && elements > kept));
      if (wider || stays) spread_.insert(value);
      (wider || stays ? traffic.spared : traffic.bytes) += bytes_of(*value, call, reference_);
    }
    return traffic;
  }

  const Plan& plan_;
  const ReferenceWork& reference_;
  Counted counted_;
  std::map<std::string_view, double> computing_;  // by name
  Products products_;
  double pieces_ = 0;                  // flops that can be the reference's products in pieces
  std::set<const PlanValue*> spread_;  // larger than all that it was made of: never written by a fused kernel
  std::set<const PlanValue*> reciprocals_;
  std::map<std::string, double> known_calls_;
};

Counter counter_of(const Plan& plan, const ReferenceWork& reference) {
  Counter counter(plan, reference);
  for (const PlanStep& step : plan.steps) counter.add(step);
  return counter;
}

}  // namespace

Work aten_work(const Plan& plan, const ReferenceWork& reference, std::string* heaviest) {
  const Counter counter = counter_of(plan, reference);
  if (heaviest) *heaviest = counter.heaviest();
  Counted own = counter.counted();
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
    for (const std::string_view part : parts_of(call.name)) reference.calls[std::string(part)] += most + gates_of(call);
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
  const Counted own = counter_of(plan, reference).counted();
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
  // The problem is to move data, or nobody computes and what torch moves is what comes out (bits that a cast cuts off).
  const bool all = reference && (reference->computing <= 0 || own.computing + aten.computing <= 0);
  const double left = aten.of(all);
  if (left <= 0) return 1;
  const double of_candidate = own.of(all) / (own.of(all) + left);
  const double of_reference = reference ? 1 - left / std::max(reference->of(all), 1e-9) : 1;
  return std::clamp(std::min(of_candidate, of_reference), 0.0, 1.0);
}

}  // namespace tritonforge::evaluate
