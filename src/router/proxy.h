#pragma once
// Passes requests through to engines: to one of them, or to all.
#include <atomic>

#include "net/async_client.h"
#include "router/admission.h"
#include "router/policy.h"
#include "router/registry.h"

namespace tritonforge::router {

struct ProxyOptions {
  std::string worker_api_key;  // sent to workers instead of the client's own key
  double connect_timeout_s = 5;
  double fan_out_timeout_s = 600;  // unless the request's deadline is earlier
};

// What becomes of the client's Authorization: a server that asks for a key of its own keeps it.
enum class ClientKey { kPassOn, kKeep };

class Proxy {
 public:
  Proxy(const Registry& registry, Policy& policy, Admission& admission, net::AsyncClient& client, net::Metrics& metrics,
        ProxyOptions options);

  // To one worker, once `admission` lets it. Where a breaker is half-open, that worker is asked first. A worker that
  // fails (or says 429 / 503) before the first byte of its reply went to the client is replaced by another, each tried
  // once; bytes are passed on as they come. When the client leaves, the worker is hung up on; a worker that dies after
  // the first byte cuts the client's stream.
  void forward(net::Request& request, net::ResponderPtr reply, ClientKey key);

  // To every worker: 200 {"success": true, "workers": {url: reply}}, or 502 with the same, success false, and an
  // "error" that names the workers that failed (a status other than 2xx, "success": false in the reply, or no reply).
  void fan_out(net::Request& request, net::ResponderPtr reply, ClientKey key);

  // The version barrier: what is forwarded from here on is answered from these weights or newer ones; an engine that
  // serves older ones, because it has just started, refuses it (503), and another is asked.
  void require_weights(int64_t version) { min_weight_version_ = version; }
  int64_t required_weights() const { return min_weight_version_; }

 private:
  struct Forward;
  struct FanOut;
  net::AsyncRequest outgoing(net::Request& request, ClientKey key) const;  // takes its headers and body
  const Registry& registry_;
  Policy& policy_;
  Admission& admission_;
  net::AsyncClient& client_;
  net::Metrics& metrics_;
  const ProxyOptions options_;
  std::atomic<int64_t> min_weight_version_{0};
};

// The session, an estimate of the tokens of a request (a quarter of its bytes and its max_new_tokens / max_tokens) and
// its prompt, which is a part of `body`.
RouteHint hint_of(const net::Headers& headers, std::string_view body);

}  // namespace tritonforge::router
