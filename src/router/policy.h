#pragma once
// Which worker takes a request. One policy a file; make_policy lists them.
#include <memory>
#include <string>
#include <vector>

#include "router/registry.h"

namespace tritonforge::router {

struct RouteHint {
  std::string session;  // empty: none
  int64_t tokens = 0;   // estimated cost: prompt and longest answer
};

class Policy {
 public:
  virtual ~Policy() = default;
  // One of `usable` (never empty). Thread-safe.
  virtual WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint& hint) = 0;
};

std::unique_ptr<Policy> make_least_loaded();
std::unique_ptr<Policy> make_round_robin();
// A session stays with the worker that first took it while that worker is usable, else moves for good; requests
// without a session, and new sessions, go where `inner` sends them. Remembers the last `capacity` sessions.
std::unique_ptr<Policy> make_session_sticky(std::unique_ptr<Policy> inner, size_t capacity = 65536);

std::vector<std::string> policy_names();                       // least_loaded, round_robin
std::unique_ptr<Policy> make_policy(const std::string& name);  // with sessions; throws kUsage naming the nearest

}  // namespace tritonforge::router
