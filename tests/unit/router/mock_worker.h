#pragma once
// An engine in process whose failures are knobs.
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "net/http.h"

namespace tritonforge::router {

class MockWorker {
 public:
  enum class Mode { kAnswer, kHold, kBusy, kStreamByHand };

  explicit MockWorker(int port = 0) : server(options_at(port)) {
    server.route("GET", "/health",
                 [this](const net::Request&) { return net::Response::text("", healthy ? 200 : 503); });
    server.route_async("POST", "/generate", [this](const net::Request& request, net::ResponderPtr reply) {
      generate(request, std::move(reply));
    });
    server.route("POST", "/update_weights_from_disk", [this](const net::Request& request) {
      ++updates;
      if (refuse_update) fail(ErrorKind::kCorrupt, "checksum of lm_head differs");
      return net::Response::json({{"success", true}, {"weight_version", request.json()["weight_version"]}});
    });
    server.route("GET", "/get_model_info", [](const net::Request& request) {
      return net::Response::json(
          {{"model_path", "m"},
           {"authorization", request.headers.count("authorization") ? request.headers.at("authorization") : ""},
           {"te", request.headers.count("te") ? request.headers.at("te") : ""},
           {"target", request.target}});
    });
    server.start();
  }
  ~MockWorker() { kill(); }

  // As kill -9 does: connections are cut without a reply.
  void kill() { server.stop(0); }
  std::string url() const { return server.url(); }
  std::vector<net::ResponderPtr> take_held() {
    const std::lock_guard lock(mutex);
    return std::exchange(held, {});
  }

  std::atomic<Mode> mode{Mode::kAnswer};
  std::atomic<bool> healthy{true}, refuse_update{false};
  std::atomic<int> generated{0}, updates{0}, disconnects{0};
  std::atomic<int64_t> weight_version{0};
  std::mutex mutex;
  std::vector<net::ResponderPtr> held;
  net::HttpServer server;

 private:
  static net::ServerOptions options_at(int port) {
    net::ServerOptions options;
    options.port = port;
    return options;
  }
  void generate(const net::Request& request, net::ResponderPtr reply) {
    reply->on_disconnect([this] {
      ++disconnects;
      disconnects.notify_all();
    });
    // As the engine does: it has no such weights.
    const auto wanted = request.headers.find("x-min-weight-version");
    if (wanted != request.headers.end() && std::stoll(wanted->second) > weight_version) {
      reply->send(net::Response::error(Error(ErrorKind::kUnavailable, "the weights here are older")));
      return;
    }
    switch (mode.load()) {
      case Mode::kAnswer: reply->send(net::Response::json({{"text", request.body}, {"worker", url()}})); break;
      case Mode::kBusy: reply->send(net::Response::error(Error(ErrorKind::kUnavailable, "queue is full"))); break;
      case Mode::kStreamByHand: reply->begin_stream(200, "text/event-stream"); [[fallthrough]];
      case Mode::kHold: {
        const std::lock_guard lock(mutex);
        held.push_back(std::move(reply));
      }
    }
    ++generated;  // last: who sees it may take what is held
    generated.notify_all();
  }
};

}  // namespace tritonforge::router
