#include <atomic>

#include "router/policy.h"

namespace tritonforge::router {
namespace {

class RoundRobin final : public Policy {
 public:
  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint&) override {
    return usable[turn_.fetch_add(1, std::memory_order_relaxed) % usable.size()];
  }

 private:
  std::atomic<size_t> turn_{0};
};

}  // namespace

std::unique_ptr<Policy> make_round_robin() { return std::make_unique<RoundRobin>(); }

}  // namespace tritonforge::router
