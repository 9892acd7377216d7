#pragma once
// A trainer's process without its training, for what measures and tests updates of the weights across processes.
//   POST /publish {"version", "way": "device" | "shm" | "disk"} -> published weights that can come that way alone
//   POST /change {}     turns every matrix upside down; twice is never
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/server_process.h"
#include "contract/weights.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "train/publish.h"

namespace tritonforge {

inline int run_weight_trainer(int port, const model::Model& model) {
  train::Publisher publisher(fmt::format("weights-of-{}", ::getpid()));
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
class WeightTrainer : public ServerProcess {
 public:
  explicit WeightTrainer(std::vector<std::string> arguments, const std::string& gpu = "")
      : ServerProcess(std::move(arguments), gpu) {}
  void change() { post("/change").value(); }
  PublishedWeights publish(int64_t version, const std::string& way) {
    return published_weights_from_json(post("/publish", {{"version", version}, {"way", way}}).value());
  }
};

}  // namespace tritonforge
