#include "weights/transport.h"

#include "net/wire.h"
#include "weights/cuda_ipc.h"
#include "weights/receive.h"
#include "weights/tcp.h"

namespace tritonforge::weights {
namespace {

class CudaIpc : public Transport {
 public:
  std::string_view name() const override { return "cuda_ipc"; }
  bool offered(const PublishedWeights& weights) const override { return weights.device.has_value(); }
  StagedWeights stage(const model::Parts& model, const PublishedWeights& weights, Deadline) override {
    return map_weights(model, *weights.device, weights.checksums);
  }
};

class File : public Transport {
 public:
  std::string_view name() const override { return "file"; }
  bool offered(const PublishedWeights& weights) const override { return !weights.path.empty(); }
  StagedWeights stage(const model::Parts& model, const PublishedWeights& weights, Deadline) override {
    return stage_weights(model, weights.path, weights.checksums);
  }
};

class Group : public Transport {
 public:
  explicit Group(std::string key) : key_(std::move(key)) {}
  std::string_view name() const override { return "group"; }
  bool offered(const PublishedWeights& weights) const override { return weights.group.has_value(); }
  StagedWeights stage(const model::Parts& model, const PublishedWeights& weights, Deadline deadline) override {
    return receive_weights(model, weights, key_, id_, deadline);
  }

 private:
  const std::string key_, id_ = net::fresh_id();
};

class Tcp : public Transport {
 public:
  explicit Tcp(std::string key) : key_(std::move(key)) {}
  std::string_view name() const override { return "tcp"; }
  bool offered(const PublishedWeights& weights) const override { return weights.tcp.has_value(); }
  StagedWeights stage(const model::Parts& model, const PublishedWeights& weights, Deadline deadline) override {
    return fetch_weights(model, weights, key_, deadline);
  }

 private:
  const std::string key_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_transports(std::string key) {
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(std::make_unique<CudaIpc>());
  transports.push_back(std::make_unique<File>());
  transports.push_back(std::make_unique<Group>(key));
  transports.push_back(std::make_unique<Tcp>(std::move(key)));
  return transports;
}

}  // namespace tritonforge::weights
