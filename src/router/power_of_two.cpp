#include <atomic>
#include <tuple>

#include "base/rng.h"
#include "router/policy.h"

namespace tritonforge::router {
namespace {

class PowerOfTwo final : public Policy {
 public:
  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint&) override {
    if (usable.size() == 1) return usable[0];
    const uint64_t random = Rng::mix(turn_.fetch_add(0x9e3779b97f4a7c15ull, std::memory_order_relaxed));
    const size_t first = (random >> 32) % usable.size();
    const size_t second = (first + 1 + (random & 0xffffffffu) % (usable.size() - 1)) % usable.size();  // another one
    const WorkerPtr &a = usable[first], &b = usable[second];
    return std::tuple(b->load(), b->tokens()) < std::tuple(a->load(), a->tokens()) ? b : a;
  }

 private:
  std::atomic<uint64_t> turn_{0};
};

}  // namespace

std::unique_ptr<Policy> make_power_of_two() { return std::make_unique<PowerOfTwo>(); }

}  // namespace tritonforge::router
