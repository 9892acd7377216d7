#pragma once
// Which worker takes a request. One policy a file; make_policy lists them.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/registry.h"

namespace tritonforge::router {

struct RouteHint {
  std::string session;      // empty: none
  int64_t tokens = 0;       // estimated cost: prompt and longest answer
  std::string_view prompt;  // as it stands in the request's body, from its key on; empty: none
};

class Policy {
 public:
  virtual ~Policy() = default;
  // One of `usable` (never empty). Thread-safe.
  virtual WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint& hint) = 0;
};

std::unique_ptr<Policy> make_least_loaded();  // fewest requests under way, then fewest tokens; equals take turns
std::unique_ptr<Policy> make_least_tokens();  // fewest tokens (RouteHint) under way, then fewest requests
std::unique_ptr<Policy> make_round_robin();
// The less loaded of two drawn at random (Mitzenmacher 2001): as good as least_loaded but for a constant, and routers
// that do not know of each other's requests do not all run to the same worker.
std::unique_ptr<Policy> make_power_of_two();
// Rendezvous hashing (Thaler, Ravishankar 1998): the worker with the highest mix(hash(key) ^ hash(URL)), where the key
// is the session, else the prompt's first 1,024 bytes. Without state: any number of routers choose alike. A worker that
// goes moves only its own keys; one that comes takes 1 / n of every other's.
std::unique_ptr<Policy> make_consistent_hash();
// To a worker that has seen the longest beginning of this prompt, in blocks of 256 bytes up to 32 KiB, if that is at
// least half of its blocks and the worker's outstanding tokens are at most 1.5 x the mean of the usable ones + this
// request's: prefixes are reused, but a popular one spreads. Among several, and where none has seen it: least_tokens.
// The last `capacity` blocks are remembered, for each the last 16 workers. What an engine has dropped from its cache is
// not known here; it costs that engine a prefill.
std::unique_ptr<Policy> make_cache_aware(size_t capacity = 262144);
// A session stays with the worker that first took it while that worker is usable, else moves for good; requests
// without a session, and new sessions, go where `inner` sends them. Remembers the last `capacity` sessions.
std::unique_ptr<Policy> make_session_sticky(std::unique_ptr<Policy> inner, size_t capacity = 65536);

// One of policy_names() (router/options.h), with sessions; throws kUsage naming the nearest.
std::unique_ptr<Policy> make_policy(const std::string& name);

}  // namespace tritonforge::router
