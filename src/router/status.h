#pragma once
// What a server says of the peers behind it.
#include "net/http.h"
#include "router/registry.h"

namespace tritonforge::router {

// {"url", "state", "breaker", "draining", "load", "outstanding_tokens", "consecutive_failures", "served", "failed",
// "last_error",
//  "seconds_since_seen"}
Json describe(const Worker& worker);

Json describe(const Registry& registry);  // a list of those

struct PeerCount {  // without those that drain
  int green = 0, yellow = 0, red = 0;
  int all() const { return green + yellow + red; }
  // Red where none takes traffic, yellow where one needs a look or there is none at all.
  net::Colour colour() const;
};
PeerCount count_peers(const Registry& registry);

}  // namespace tritonforge::router
