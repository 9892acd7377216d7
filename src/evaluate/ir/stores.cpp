#include "evaluate/ir/stores.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

namespace tritonforge::evaluate::ir {
namespace {

using Bytes = std::optional<int64_t>;

const std::set<std::string_view> kStores{"tt.store", "tt.descriptor_store", "tt.descriptor_reduce", "tt.atomic_rmw",
                                         "tt.atomic_cas"};
constexpr int64_t kEndless = int64_t{1} << 50;  // more than any memory

Bytes times(Bytes bytes, std::optional<int64_t> rounds) {
  if (bytes == 0) return 0;
  if (!bytes || !rounds || *rounds > kEndless / std::max<int64_t>(1, *bytes)) return std::nullopt;
  return *bytes * *rounds;
}

class Stores {
 public:
  explicit Stores(const Module& module) : module_(module) {}
  Bytes of(const Function& function) {
    const auto [known, is_new] = known_.try_emplace(&function, std::nullopt);  // until it is: it may call itself
    Numbers numbers;
    if (is_new) known->second = of(function, function.body, numbers);
    return known->second;
  }

 private:
  using Numbers = std::map<int, int64_t>;  // constants by value id

  Bytes of(const Function& function, const Region& region, Numbers& numbers) {
    int64_t sum = 0;
    for (size_t b = 0; b < region.blocks.size(); ++b) {
      for (const Operation& op : region.blocks[b].operations) {
        const Bytes bytes = of(function, op, numbers);
        const bool back = std::ranges::any_of(op.successors,
                                              [&](const Successor& to) { return static_cast<size_t>(to.block) <= b; });
        if (!bytes || back) return std::nullopt;
        sum = std::min(sum + *bytes, kEndless);
      }
    }
    return sum;
  }

  Bytes of(const Function& function, const Operation& op, Numbers& numbers) {
    if (op.results.size() == 1) {
      if (const auto number = number_of(function, op, numbers)) numbers[op.results[0]] = *number;
    }
    if (kStores.contains(op.name)) {
      const Type& to = function.values[static_cast<size_t>(op.operands.at(0))];
      const bool some = to.block || to.kind == Kind::kTuple;
      const int64_t elements = std::accumulate(to.shape.begin(), to.shape.end(), int64_t{1}, std::multiplies<>());
      return (some ? elements : 1) * memory_size(to.pointee);
    }
    if (op.name == "tt.call") {
      const auto callee = op.attributes.find("callee");
      const Function* called = callee == op.attributes.end() ? nullptr : module_.find(callee->second.word);
      return called == nullptr ? std::nullopt : of(*called);
    }
    Bytes sum = 0;
    for (const Region& region : op.regions) {
      const Bytes bytes = of(function, region, numbers);
      if (!bytes) return std::nullopt;
      sum = *sum + *bytes;
    }
    if (op.name == "scf.if" || op.regions.empty()) return sum;
    return times(sum, op.name == "scf.for" ? rounds(op, numbers) : std::nullopt);
  }

  // A constant, also behind what the front end puts around a loop's bounds.
  static std::optional<int64_t> number_of(const Function& function, const Operation& op, const Numbers& numbers) {
    if (op.name == "arith.bitcast" || op.name == "arith.extsi") {
      const auto known = op.operands.size() == 1 ? numbers.find(op.operands[0]) : numbers.end();
      return known == numbers.end() ? std::nullopt : std::optional(known->second);
    }
    if (op.name != "arith.constant" || op.dense.size() != 1) return std::nullopt;
    const bool narrow = function.values[static_cast<size_t>(op.results[0])].kind == Kind::kI32;
    return narrow ? static_cast<int32_t>(op.dense[0]) : static_cast<int64_t>(op.dense[0]);
  }
  static std::optional<int64_t> rounds(const Operation& op, const Numbers& numbers) {
    std::array<int64_t, 3> bounds{};  // from, to, by
    for (size_t k = 0; k < bounds.size(); ++k) {
      const auto known = op.operands.size() > k ? numbers.find(op.operands[k]) : numbers.end();
      if (known == numbers.end()) return std::nullopt;
      bounds[k] = known->second;
    }
    const auto [from, to, by] = bounds;
    if (by <= 0 || from < 0 || to < 0 || to > kEndless) return std::nullopt;
    return to <= from ? 0 : (to - from + by - 1) / by;
  }

  const Module& module_;
  std::map<const Function*, Bytes> known_;
};

}  // namespace

std::optional<int64_t> most_stored(const Module& module) { return Stores(module).of(module.entry()); }

}  // namespace tritonforge::evaluate::ir
