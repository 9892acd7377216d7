#include "router/hash.h"
#include "router/policy.h"

namespace tritonforge::router {
namespace {

constexpr size_t kKeyBytes = 1024;  // of a prompt

class ConsistentHash final : public Policy {
 public:
  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint& hint) override {
    const uint64_t key = hash_of(hint.session.empty() ? hint.prompt.substr(0, kKeyBytes) : hint.session);
    const WorkerPtr* best = nullptr;
    uint64_t highest = 0;
    for (const WorkerPtr& worker : usable) {
      const uint64_t weight = Rng::mix(key ^ worker->hash());
      if (best && weight <= highest) continue;
      best = &worker;
      highest = weight;
    }
    return *best;
  }
};

}  // namespace

std::unique_ptr<Policy> make_consistent_hash() { return std::make_unique<ConsistentHash>(); }

}  // namespace tritonforge::router
