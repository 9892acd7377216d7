#include <array>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "weights/nccl_comm.h"
#include "weights/relay.h"

namespace tritonforge::weights {
namespace {

using gpu::check_cuda;

constexpr int64_t kBroadcastBytes = int64_t{32} << 20;

// Two broadcasts are under way at a time; between them and a stream in the host's memory lies a buffer each.
class NcclRelay : public Relay {
 public:
  NcclRelay(const RelayPlace& place, at::Device device)
      : meeting_(place.meeting),
        name_(place.name),
        place_(place.place),
        size_(place.size),
        stall_s_(place.stall_s),
        api_(on(device)) {
    const std::string key = place.name + "-id";
    gpu::NcclId id{};
    if (place_ == 0) {
      check_cuda(api_.nccl_id(&id));
      place.meeting.put(key, std::string(id.bytes, sizeof id.bytes));
    } else {
      const std::string bytes = place.meeting.get(key, Deadline::after(stall_s_));
      TF_CHECK(bytes.size() == sizeof id.bytes, "an id of NCCL of {} bytes", bytes.size());
      bytes.copy(id.bytes, sizeof id.bytes);
    }
    comm_.emplace(fmt::format("relay {}, place {}", name_, place_), id, place_, size_, Deadline::after(stall_s_));
  }

  void pass_all(const at::Tensor& stream, const std::function<void(int64_t)>& arrived) override {
    const int64_t bytes = stream.numel();
    int64_t done = 0;
    for (int64_t at = 0; at < bytes; at += kBroadcastBytes) {
      begin(stream, at);
      if (at > 0) finish(stream, std::exchange(done, at), arrived);
    }
    if (bytes > 0) finish(stream, done, arrived);
    await_all();
  }

 private:
  struct Turn {
    gpu::DeviceMemory buffer;
    gpu::GpuEvent ended;
  };

  static const gpu::CudaApi& on(at::Device device) {
    const gpu::CudaApi& api = gpu::open_cuda_library();
    check_cuda(api.set_device(device.index()));
    return api;
  }
  static int64_t length(const at::Tensor& stream, int64_t at) { return std::min(kBroadcastBytes, stream.numel() - at); }
  Turn& turn(int64_t at) { return turns_[static_cast<size_t>(at / kBroadcastBytes) % turns_.size()]; }

  void begin(const at::Tensor& stream, int64_t at) {
    Turn& now = turn(at);
    auto* there = stream.mutable_data_ptr<uint8_t>() + at;
    void* from = there;
    if (stream.is_cpu()) {
      if (now.buffer.as<void>() == nullptr) now.buffer = gpu::DeviceMemory(static_cast<size_t>(kBroadcastBytes));
      from = now.buffer.as<void>();
      if (place_ == 0) check_cuda(api_.copy(from, there, static_cast<size_t>(length(stream, at)), queue_));
    }
    comm_->broadcast(from, length(stream, at), Deadline::after(stall_s_), queue_);
    now.ended.record(queue_);
  }

  void finish(const at::Tensor& stream, int64_t at, const std::function<void(int64_t)>& arrived) {
    const Turn& then = turn(at);
    comm_->wait(then.ended, Deadline::after(stall_s_));
    if (place_ == 0) return;
    if (stream.is_cpu()) {
      check_cuda(api_.copy(stream.mutable_data_ptr<uint8_t>() + at, then.buffer.as<void>(),
                           static_cast<size_t>(length(stream, at)), copies_));
      check_cuda(api_.stream_synchronize(copies_));
    }
    arrived(at + length(stream, at));
  }

  // What is still on its way elsewhere is lost where this end closes. Of a receiver that has all, a failure of the
  // others is their own affair: they come again.
  void await_all() {
    const std::string over = name_ + "-over";
    if (place_ > 0 && meeting_.add(name_ + "-have", 1) == size_ - 1) meeting_.put(over, "");
    if (meeting_.look(over, stall_s_)) return;
    if (place_ == 0)
      fail(ErrorKind::kUnavailable, "relay {}: not all receivers have all within {:.0f} s", name_, stall_s_);
    log::warn("relay {}: not all receivers have all within {:.0f} s; here all is", name_, stall_s_);
  }

  parallel::Meeting& meeting_;
  const std::string name_;
  const int64_t place_, size_;
  const double stall_s_;
  const gpu::CudaApi& api_;
  gpu::GpuStream queue_, copies_;
  std::array<Turn, 2> turns_;
  std::optional<NcclComm> comm_;  // goes first, and with it what is under way on the others
};

}  // namespace

std::unique_ptr<Relay> make_nccl_relay(const RelayPlace& place, at::Device device) {
  return std::make_unique<NcclRelay>(place, device);
}

}  // namespace tritonforge::weights
