#pragma once
// A trainer's process without its training, for what measures and tests updates of the weights across processes.
//   POST /publish {"version", "way": "device" | "shm" | "disk"} -> published weights that can come that way alone
//   POST /change {}     turns every matrix upside down; twice is never
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <string>

#include "base/process.h"
#include "contract/weights.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "net/http.h"
#include "net/retry.h"
#include "train/publish.h"

namespace tritonforge {

inline int run_weight_trainer(int port, const model::Model& model) {
  train::Publisher publisher(fmt::format("weights-of-{}", ::getpid()), "");
  const TemporaryFolder disk("weights");
  SignalWaiter signals;
  net::HttpServer server({.port = port, .worker_threads = 1});
  server.route("POST", "/change", [&](const net::Request&) {
    const at::NoGradGuard no_grad;
    publisher.settle();
    for (auto& [name, tensor] : model.named_parameters()) {
      if (tensor.dim() == 2) at::Tensor(tensor).copy_(tensor.flip({0}));
    }
    kernels::synchronize(model.device());
    return net::Response::json(Json::object());
  });
  server.route("POST", "/publish", [&](const net::Request& request) {
    const Json body = request.json();
    const std::string way = body.at("way");
    const int64_t version = body.at("version");
    PublishedWeights published{disk.path() / "weights.safetensors", version, {}, {}};
    if (way == "disk") {
      published.checksums = model::save_safetensors(model.named_parameters(), published.path, {});
    } else {
      published = publisher.to_shared_memory(model, version);
      if (way == "shm") {
        publisher.settle();
        published.device.reset();
      }
    }
    return net::Response::json(to_json(published));
  });
  server.start();
  signals.block();
  return 0;
}

// The other side: this program, started again with `arguments` and a port behind them.
class WeightTrainer {
 public:
  explicit WeightTrainer(std::vector<std::string> arguments)
      : port_(free_port()), child_({.argv = command(std::move(arguments), port_)}) {
    net::retry<net::Response>(
        "the trainer's process", Deadline::after(300), [&] { return client_.get(url("/health")); },
        {.again = [&](const Error&) { return !child_.poll().has_value(); }, .backoff = {.max_s = 0.5}})
        .value();
  }
  void change() { client_.post_json(url("/change"), Json::object()).value(); }
  PublishedWeights publish(int64_t version, const std::string& way) {
    return published_weights_from_json(
        client_.post_json(url("/publish"), {{"version", version}, {"way", way}}).value());
  }
  void kill() {
    child_.signal(9);
    child_.wait(Deadline::after(60));
  }

 private:
  static std::vector<std::string> command(std::vector<std::string> arguments, int port) {
    arguments.insert(arguments.begin(), own_executable().string());
    arguments.push_back(std::to_string(port));
    return arguments;
  }
  std::string url(const char* path) const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }
  const int port_;
  ChildProcess child_;
  net::HttpClient client_{{.timeout_s = 300}};
};

}  // namespace tritonforge
