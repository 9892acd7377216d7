#include <algorithm>
#include <atomic>
#include <tuple>

#include "router/policy.h"

namespace tritonforge::router {
namespace {

class LeastLoaded final : public Policy {
 public:
  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint&) override {
    // Equals take turns: the search starts one further each time.
    const size_t start = turn_.fetch_add(1, std::memory_order_relaxed);
    WorkerPtr best;
    for (size_t i = 0; i < usable.size(); ++i) {
      const WorkerPtr& worker = usable[(start + i) % usable.size()];
      if (!best || std::tuple(worker->load(), worker->tokens()) < std::tuple(best->load(), best->tokens()))
        best = worker;
    }
    return best;
  }

 private:
  std::atomic<size_t> turn_{0};
};

}  // namespace

std::unique_ptr<Policy> make_least_loaded() { return std::make_unique<LeastLoaded>(); }

}  // namespace tritonforge::router
