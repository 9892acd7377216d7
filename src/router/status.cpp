#include "router/status.h"

namespace tritonforge::router {

Json describe(const Worker& worker) {
  const auto status = worker.status();
  return {{"url", worker.url()},
          {"state", name_of(status.state)},
          {"breaker", name_of(status.breaker)},
          {"draining", status.draining},
          {"load", status.outstanding_requests},
          {"outstanding_tokens", status.outstanding_tokens},
          {"consecutive_failures", status.consecutive_failures},
          {"served", status.served},
          {"failed", status.failed},
          {"last_error", status.last_error},
          {"seconds_since_seen", status.seconds_since_seen}};
}

Json describe(const Registry& registry) {
  Json out = Json::array();
  for (const auto& worker : registry.all()) out.push_back(describe(*worker));
  return out;
}

net::Colour PeerCount::colour() const {
  if (all() == 0) return net::Colour::kYellow;
  if (green + yellow == 0) return net::Colour::kRed;
  return yellow + red > 0 ? net::Colour::kYellow : net::Colour::kGreen;
}

PeerCount count_peers(const Registry& registry) {
  PeerCount count;
  for (const auto& worker : registry.all()) {
    if (worker->draining()) continue;
    const auto state = worker->state();
    ++(state == WorkerState::kGreen ? count.green : state == WorkerState::kYellow ? count.yellow : count.red);
  }
  return count;
}

}  // namespace tritonforge::router
