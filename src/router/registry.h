#pragma once
// The set of engines.
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "router/worker.h"

namespace tritonforge::router {

using WorkerPtr = std::shared_ptr<Worker>;

class Registry {
 public:
  explicit Registry(BreakerOptions breaker) : breaker_(breaker) {}
  // "127.0.0.1:30001" and "http://127.0.0.1:30001/" name the same worker. One that is known is put in service again.
  // Throws what server_url throws.
  WorkerPtr add(const std::string& url);
  void remove(const std::string& url);      // throws kNotFound naming the nearest
  WorkerPtr drain(const std::string& url);  // throws kNotFound naming the nearest
  std::vector<WorkerPtr> all() const;
  // One whose breaker lets a probe through, now taken by the caller, and that is not in `except`; null: none.
  WorkerPtr take_probe(const std::vector<WorkerPtr>& except = {}) const;
  // Those that may take a request and are not in `except`: the green ones, or the yellow ones where none is green.
  std::vector<WorkerPtr> usable(const std::vector<WorkerPtr>& except = {}) const;

 private:
  WorkerPtr find(const std::string& name) const;
  const BreakerOptions breaker_;
  mutable std::shared_mutex mutex_;
  std::vector<WorkerPtr> workers_;
};

}  // namespace tritonforge::router
