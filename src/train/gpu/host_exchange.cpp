#include "train/gpu/host_exchange.h"

#include <algorithm>

namespace tritonforge::train::gpu {

HostExchange::HostExchange(std::vector<Bucket> buckets)
    : api_(tritonforge::gpu::open_cuda_library()), buckets_(std::move(buckets)) {}

void HostExchange::begin() {
  made_.record(kStream);
  check_cuda(api_.stream_wait(to_host_, made_));
  for (size_t i = 0; i < std::min(buckets_.size(), slots_.size()); ++i) fetch(i);
}

void HostExchange::fetch(size_t bucket) {
  const Bucket& of = buckets_[bucket];
  Slot& to = slot(bucket);
  check_cuda(
      api_.copy(to.gradients.as<float>(), of.gradients, static_cast<size_t>(of.count) * sizeof(float), to_host_));
  to.arrived.record(to_host_);
}

HostExchange::Staged HostExchange::receive(size_t bucket) {
  Slot& at = slot(bucket);
  at.arrived.wait();
  at.sent.wait();
  return {at.gradients.as<float>(), at.weights.as<Bf16>()};
}

void HostExchange::send(size_t bucket) {
  const Bucket& to = buckets_[bucket];
  Slot& from = slot(bucket);
  check_cuda(api_.copy(to.weights, from.weights.as<Bf16>(), static_cast<size_t>(to.count) * sizeof(Bf16), to_device_));
  from.sent.record(to_device_);
  check_cuda(api_.stream_wait(kStream, from.sent));
  if (bucket + slots_.size() < buckets_.size()) fetch(bucket + slots_.size());
}

}  // namespace tritonforge::train::gpu
