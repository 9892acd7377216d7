#include <atomic>
#include <tuple>

#include "router/cheapest.h"
#include "router/policy.h"

namespace tritonforge::router {
namespace {

class LeastLoaded final : public Policy {
 public:
  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint&) override {
    return cheapest(usable, turn_.fetch_add(1, std::memory_order_relaxed),
                    [](const Worker& worker) { return std::tuple(worker.load(), worker.tokens()); });
  }

 private:
  std::atomic<size_t> turn_{0};
};

}  // namespace

std::unique_ptr<Policy> make_least_loaded() { return std::make_unique<LeastLoaded>(); }

}  // namespace tritonforge::router
