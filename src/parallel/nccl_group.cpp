#include <utility>

#include "kernels/gpu/handles.h"
#include "parallel/group.h"
#include "parallel/peer_copies.h"

namespace tritonforge::parallel {
namespace {

using gpu::check_cuda;

// Its collectives run on a stream of their own, behind what was queued on ATen's current one, and beside what is queued
// there until wait(); those by copies on another one, and neither waits for the other.
class NcclGroup : public Group {
 public:
  NcclGroup(std::string name, int64_t rank, int64_t size, int64_t unit, at::Device device, const GroupPlace& place)
      : Group(std::move(name), rank, size, unit), api_(on(device)), recorder_(place.recorder) {
    if (place.peer_copies) copies_ = std::make_unique<PeerCopies>(this->name(), rank, size, unit, place);
    const std::string key = "nccl-" + this->name();
    gpu::NcclId id{};
    if (rank == 0) {
      check_cuda(api_.nccl_id(&id));
      place.meeting.put(key, std::string(id.bytes, sizeof id.bytes));
    } else {
      const std::string bytes = place.meeting.get(key, Deadline::after(place.timeout_s));
      TF_CHECK(bytes.size() == sizeof id.bytes, "an id of NCCL of {} bytes", bytes.size());
      bytes.copy(id.bytes, sizeof id.bytes);
    }
    check(api_.nccl_open(&comm_, &id, static_cast<int>(rank), static_cast<int>(size)), "join", "NCCL");
  }
  ~NcclGroup() override {
    if (comm_ != nullptr) api_.nccl_close(comm_);
  }
  void abandon() override {
    if (copies_ != nullptr) copies_->abandon();
    api_.nccl_abort(std::exchange(comm_, nullptr));
  }
  bool lend(const at::Tensor& x) override { return copies_ != nullptr && copies_->lend(x); }

  PendingPtr all_reduce(const at::Tensor& x, std::string_view what) override {
    return queue("all_reduce", what, x, [&](gpu::Stream stream) {
      return api_.nccl_all_reduce(comm_, x.mutable_data_ptr(), x.numel(), fp32(x), stream);
    });
  }
  PendingPtr reduce_scatter(const at::Tensor& x, std::string_view what) override {
    if (copies(x)) return queue_copies("reduce_scatter", what, x, &PeerCopies::reduce_scatter);
    return queue("reduce_scatter", what, x, [&](gpu::Stream stream) {
      const gpu::NcclShares all = shares(x);
      return api_.nccl_reduce_scatter(comm_, &all, stream);
    });
  }
  PendingPtr all_gather(const at::Tensor& x, std::string_view what) override {
    if (copies(x)) return queue_copies("all_gather", what, x, &PeerCopies::all_gather);
    return queue("all_gather", what, x, [&](gpu::Stream stream) {
      const gpu::NcclShares all = shares(x);
      return api_.nccl_all_gather(comm_, &all, stream);
    });
  }
  PendingPtr broadcast(const at::Tensor& x, int64_t root, std::string_view what) override {
    return queue("broadcast", what, x, [&](gpu::Stream stream) {
      return api_.nccl_broadcast(comm_, x.mutable_data_ptr(), x.numel(), fp32(x), static_cast<int>(root), stream);
    });
  }
  PendingPtr all_to_all(const at::Tensor& to, const at::Tensor& from, std::string_view what) override {
    return queue("all_to_all", what, from, [&](gpu::Stream stream) {
      return api_.nccl_all_to_all(comm_, to.mutable_data_ptr(), from.const_data_ptr(), from.numel() / size(),
                                  static_cast<int>(size()), fp32(from), stream);
    });
  }
  PendingPtr shift(const at::Tensor& to, const at::Tensor& from, std::string_view what) override {
    return queue("shift", what, from, [&](gpu::Stream stream) {
      return api_.nccl_exchange(comm_, to.mutable_data_ptr(), from.const_data_ptr(), from.numel(), fp32(from),
                                static_cast<int>(next()), static_cast<int>(previous()), stream);
    });
  }

  PendingPtr send(const at::Tensor& x, int64_t to, std::string_view what) override {
    return queue("send", what, x, [&](gpu::Stream stream) {
      return api_.nccl_send(comm_, x.const_data_ptr(), x.numel(), fp32(x), static_cast<int>(to), stream);
    });
  }
  PendingPtr receive(const at::Tensor& x, int64_t from, std::string_view what) override {
    return queue("receive", what, x, [&](gpu::Stream stream) {
      return api_.nccl_receive(comm_, x.mutable_data_ptr(), x.numel(), fp32(x), static_cast<int>(from), stream);
    });
  }

  double waited_s() override {
    double seconds = 0;
    for (size_t i = 0; i < waits_; ++i) seconds += waited_[i].end->seconds_since(*waited_[i].begin);
    waits_ = 0;
    return seconds;
  }

 private:
  class Queued : public Pending {
   public:
    Queued(NcclGroup& group, std::shared_ptr<gpu::GpuEvent> ended) : group_(group), ended_(std::move(ended)) {}
    void wait() override {
      const Wait& wait = group_.next_wait();
      wait.begin->record(nullptr);
      check_cuda(group_.api_.stream_wait(nullptr, *ended_));
      wait.end->record(nullptr);
    }

   private:
    NcclGroup& group_;
    std::shared_ptr<gpu::GpuEvent> ended_;
  };

  void check(int error, std::string_view operation, std::string_view what) const {
    if (error == 0) return;
    fail(error == gpu::kRankGone ? ErrorKind::kUnavailable : ErrorKind::kMachine, "group {}, {} '{}': {}", name(),
         operation, what, api_.last_error());
  }
  // The stream and the events below are made on the calling thread's current device.
  static const gpu::CudaApi& on(at::Device device) {
    const gpu::CudaApi& api = gpu::open_cuda_library();
    check_cuda(api.set_device(device.index()));
    return api;
  }
  static int fp32(const at::Tensor& x) {
    TF_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16, "a collective of {}",
             at::toString(x.scalar_type()));
    return x.scalar_type() == at::kFloat ? 1 : 0;
  }
  gpu::NcclShares shares(const at::Tensor& x) const {
    return {.x = x.mutable_data_ptr(),
            .count = x.numel(),
            .share = share(x.numel(), 0).count,
            .rank = static_cast<int>(rank()),
            .ranks = static_cast<int>(size()),
            .fp32 = fp32(x) != 0};
  }
  bool copies(const at::Tensor& x) const { return copies_ != nullptr && copies_->lent(x); }
  PendingPtr queue_copies(std::string_view operation, std::string_view what, const at::Tensor& x,
                          void (PeerCopies::*start)(const at::Tensor&)) {
    return queue_on(copies_->stream(), operation, what, x, [&](gpu::Stream) { (*copies_.*start)(x); });
  }
  template <typename F>
  PendingPtr queue(std::string_view operation, std::string_view what, const at::Tensor& x, const F& start) {
    return queue_on(stream_, operation, what, x, [&](gpu::Stream stream) { check(start(stream), operation, what); });
  }
  template <typename F>
  PendingPtr queue_on(gpu::Stream stream, std::string_view operation, std::string_view what, const at::Tensor& x,
                      const F& start) {
    before_.record(nullptr);
    check_cuda(api_.stream_wait(stream, before_));
    start(stream);
    const auto ended = std::make_shared<gpu::GpuEvent>();
    ended->record(stream);
    recorder_.begin(name(), operation, what, static_cast<int64_t>(x.nbytes()), [ended] { return ended->done(); });
    return std::make_unique<Queued>(*this, ended);
  }

  // When ATen's stream came to a wait and went on from it. The events are used again after waited_s().
  struct Wait {
    std::unique_ptr<gpu::GpuEvent> begin, end;
  };
  const Wait& next_wait() {
    if (waits_ == waited_.size())
      waited_.push_back({std::make_unique<gpu::GpuEvent>(true), std::make_unique<gpu::GpuEvent>(true)});
    return waited_[waits_++];
  }

  const gpu::CudaApi& api_;
  FlightRecorder& recorder_;
  gpu::NcclComm* comm_ = nullptr;
  gpu::GpuStream stream_{/*high_priority=*/true};  // or the blocks of long products leave it no place
  std::unique_ptr<PeerCopies> copies_;
  gpu::GpuEvent before_;
  std::vector<Wait> waited_;
  size_t waits_ = 0;  // of them, since waited_s()
};

}  // namespace

std::unique_ptr<Group> make_nccl_group(std::string name, int64_t rank, int64_t size, int64_t unit, at::Device device,
                                       const GroupPlace& place) {
  return std::make_unique<NcclGroup>(std::move(name), rank, size, unit, device, place);
}

}  // namespace tritonforge::parallel
