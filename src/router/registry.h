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
  explicit Registry(int failures_until_red) : failures_until_red_(failures_until_red) {}
  // "127.0.0.1:30001" and "http://127.0.0.1:30001/" name the same worker. Adding twice changes nothing. Throws what
  // parse_url throws.
  WorkerPtr add(const std::string& url);
  void remove(const std::string& url);  // throws kNotFound naming the nearest
  std::vector<WorkerPtr> all() const;
  // Those that may take a request and are not in `except`: the green ones, or the yellow ones where none is green.
  std::vector<WorkerPtr> usable(const std::vector<WorkerPtr>& except = {}) const;

 private:
  const int failures_until_red_;
  mutable std::shared_mutex mutex_;
  std::vector<WorkerPtr> workers_;
};

}  // namespace tritonforge::router
