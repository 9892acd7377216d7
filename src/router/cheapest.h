#pragma once
// The search that the policies by load share.
#include "router/registry.h"

namespace tritonforge::router {

// The worker whose cost(worker) is the least; among equals the first one from `start` on, so that they take turns.
template <typename Cost>
WorkerPtr cheapest(const std::vector<WorkerPtr>& usable, size_t start, const Cost& cost) {
  const WorkerPtr* best = nullptr;
  for (size_t i = 0; i < usable.size(); ++i) {
    const WorkerPtr& worker = usable[(start + i) % usable.size()];
    if (!best || cost(*worker) < cost(**best)) best = &worker;
  }
  return *best;
}

}  // namespace tritonforge::router
