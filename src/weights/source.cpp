#include "weights/source.h"

#include "base/error.h"
#include "base/log.h"
#include "kernels/device.h"
#include "weights/receive.h"

namespace tritonforge::weights {
at::Tensor stream_memory(int64_t bytes, at::Device device) {
  const bool there = device.is_cuda() && 2 * bytes <= kernels::free_memory(device);
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(there ? device : at::Device(at::kCPU)));
}

Source::Source(SourceOptions options, const model::ModelConfig& whole)
    : options_(std::move(options)),
      pieces_(transfer_plan(whole, options_.layout).at(static_cast<size_t>(options_.source))),
      thread_([this] { run(); }) {}

Source::~Source() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

ChecksumShares Source::take(const model::Model& part, int64_t version) {
  const at::NoGradGuard no_grad;
  const auto copy = std::make_shared<Copy>();
  copy->version = version;
  copy->dtype = part.dtype();
  copy->device = part.device();
  copy->stream = stream_memory(stream_bytes(pieces_, part.dtype()), part.device());
  const std::vector<at::Tensor> tensors = piece_tensors(pieces_, part.dtype(), copy->stream);
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, tensor] : part.named_parameters()) own.emplace(name, tensor);
  for (size_t i = 0; i < pieces_.size(); ++i) at::Tensor(tensors[i]).copy_(own.at(pieces_[i].name));
  kernels::synchronize(part.device());
  ChecksumShares sums;
  add_checksums(pieces_, tensors, sums);
  const std::lock_guard lock(mutex_);
  copy_ = copy;
  changed_.notify_all();
  return sums;
}

std::shared_ptr<const Source::Copy> Source::newest() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || copy_; });
  return stopping_ ? nullptr : copy_;
}

void Source::run() {
  const Caller desk(options_.desk);
  std::string said;  // once, not as often as it is met
  while (const std::shared_ptr<const Copy> copy = newest()) {
    try {
      if (const auto round = desk.ask({.source = options_.source, .version = copy->version})) send(*copy, *round);
      said.clear();
    } catch (const std::exception& error) {
      std::unique_lock lock(mutex_);
      if (!stopping_ && said != error.what())
        log::warn("weights {}, source {}: {}", copy->version, options_.source, error.what());
      said = error.what();
      // The desk may be gone: not at once again.
      changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stopping_; });
    }
  }
}

void Source::send(const Copy& copy, const Round& round) {
  pass_stream(options_.desk, round, options_.source, round.nccl ? copy.stream : copy.stream.cpu(), copy.device,
              options_.stall_s, [](int64_t) {});
}

}  // namespace tritonforge::weights
