#include <sched.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>

#include "base/error.h"
#include "parallel/group.h"
#include "parallel/meeting_store.h"

namespace tritonforge::parallel {
namespace {

using Milliseconds = std::chrono::milliseconds;
Milliseconds milliseconds(double seconds) { return Milliseconds(static_cast<int64_t>(seconds * 1e3)); }

// Threads that are made while this lives take no core from whoever computes there when they wake. Gloo's loop asks for
// events again and again while the thread that it woke in front of holds a connection's lock: with more threads than
// cores, until that one's turn ends. Twenty steps of the tests' ranks took 2.4 times as long on two cores.
class PatientThreads {
 public:
  PatientThreads() : before_(::sched_getscheduler(0)) { set(SCHED_BATCH); }
  ~PatientThreads() { set(SCHED_OTHER); }
  PatientThreads(const PatientThreads&) = delete;
  PatientThreads& operator=(const PatientThreads&) = delete;

 private:
  void set(int policy) const {
    const sched_param none{};
    if (before_ == SCHED_OTHER) ::sched_setscheduler(0, policy, &none);  // a wish: without it, slower
  }
  const int before_;
};

class GlooGroup : public Group {
 public:
  GlooGroup(std::string name, int64_t rank, int64_t size, int64_t unit, const GroupPlace& place)
      : Group(std::move(name), rank, size, unit), recorder_(place.recorder) {
    const PatientThreads patient;
    const Milliseconds timeout = milliseconds(place.timeout_s);
    const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(place.host));
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        meeting_store(place.meeting, "gloo-" + this->name(), place.timeout_s), static_cast<int>(rank),
        static_cast<int>(size), options);
  }

  PendingPtr all_reduce(const at::Tensor& x, std::string_view what) override {
    std::vector<at::Tensor> tensors{x};
    return pending("all_reduce", what, x, {gloo_->allreduce(tensors)});
  }

  // Everybody's part of the rank's share comes to it, and is added up in the order of the ranks.
  PendingPtr reduce_scatter(const at::Tensor& x, std::string_view what) override {
    std::vector<int64_t> to, from;
    const at::Tensor own = part(x, rank());
    for (int64_t r = 0; r < size(); ++r) {
      to.push_back(share(x.numel(), r).count);
      from.push_back(own.numel());
    }
    at::Tensor parts = at::empty({size() * own.numel()}, x.options()), whole = x;
    return pending("reduce_scatter", what, x, {gloo_->alltoall_base(parts, whole, from, to)},
                   [own, parts, ranks = size()] {
                     own.copy_(parts.narrow(0, 0, own.numel()));
                     for (int64_t r = 1; r < ranks; ++r) own.add_(parts.narrow(0, r * own.numel(), own.numel()));
                   });
  }

  PendingPtr all_gather(const at::Tensor& x, std::string_view what) override {
    std::vector<Work> works;
    for (int64_t r = 0; r < size(); ++r) {
      if (const at::Tensor of_rank = part(x, r); of_rank.numel() > 0) works.push_back(start_broadcast(of_rank, r));
    }
    return pending("all_gather", what, x, std::move(works));
  }

  PendingPtr broadcast(const at::Tensor& x, int64_t root, std::string_view what) override {
    return pending("broadcast", what, x, {start_broadcast(x, root)});
  }

  PendingPtr all_to_all(const at::Tensor& to, const at::Tensor& from, std::string_view what) override {
    at::Tensor received = to, sent = from;
    std::vector<int64_t> equal;
    return pending("all_to_all", what, from, {gloo_->alltoall_base(received, sent, equal, equal)});
  }

  PendingPtr shift(const at::Tensor& to, const at::Tensor& from, std::string_view what) override {
    std::vector<at::Tensor> received{to}, sent{from};
    return pending("shift", what, from,
                   {gloo_->send(sent, static_cast<int>(next()), /*tag=*/0),
                    gloo_->recv(received, static_cast<int>(previous()), /*tag=*/0)});
  }

  PendingPtr send(const at::Tensor& x, int64_t to, std::string_view what) override {
    std::vector<at::Tensor> tensors{x};
    return std::make_unique<Transfer>(*this, "send", what, x, gloo_->send(tensors, static_cast<int>(to), /*tag=*/0));
  }
  PendingPtr receive(const at::Tensor& x, int64_t from, std::string_view what) override {
    std::vector<at::Tensor> tensors{x};
    return std::make_unique<Transfer>(*this, "receive", what, x,
                                      gloo_->recv(tensors, static_cast<int>(from), /*tag=*/0));
  }

  double waited_s() override { return std::exchange(waited_s_, 0); }

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;
  class GlooPending : public Pending {
   public:
    GlooPending(GlooGroup& group, uint64_t number, std::string_view what, std::vector<Work> works,
                std::function<void()> then)
        : group_(group), number_(number), what_(what), works_(std::move(works)), then_(std::move(then)) {}
    void wait() override {
      const auto begun = Clock::now();
      for (const Work& work : works_) group_.await_work(work, number_, what_);
      if (then_) then_();
      works_.clear();
      group_.recorder_.end(number_);
      group_.waited_s_ += seconds_since(begun);
    }

   private:
    GlooGroup& group_;
    const uint64_t number_;
    const std::string what_;
    std::vector<Work> works_;
    std::function<void()> then_;
  };

  // Nobody waits for it before wait(): then its time counts.
  class Transfer : public Pending {
   public:
    Transfer(GlooGroup& group, std::string_view operation, std::string_view what, at::Tensor x, Work work)
        : group_(group), operation_(operation), what_(what), x_(std::move(x)), work_(std::move(work)) {}
    void wait() override {
      const auto begun = Clock::now();
      const uint64_t number = group_.recorder_.begin(group_.name(), operation_, what_, bytes(x_));
      group_.await_work(work_, number, what_);
      group_.recorder_.end(number);
      group_.waited_s_ += seconds_since(begun);
    }

   private:
    GlooGroup& group_;
    const std::string operation_, what_;
    const at::Tensor x_;
    const Work work_;
  };

  void await_work(const Work& work, uint64_t number, const std::string& what) const {
    try {
      work->wait();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      fail(ErrorKind::kUnavailable, "group {}, collective {} '{}': {}", name(), number, what,
           text.substr(0, text.find('\n')));
    }
  }
  at::Tensor part(const at::Tensor& x, int64_t rank) const {
    const Share of_rank = share(x.numel(), rank);
    return x.narrow(0, of_rank.begin, of_rank.count);
  }
  static int64_t bytes(const at::Tensor& x) { return static_cast<int64_t>(x.nbytes()); }
  Work start_broadcast(const at::Tensor& x, int64_t root) {
    std::vector<at::Tensor> tensors{x};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return gloo_->broadcast(tensors, options);
  }
  PendingPtr pending(std::string_view operation, std::string_view what, const at::Tensor& x, std::vector<Work> works,
                     std::function<void()> then = nullptr) {
    // It may be done long before anybody waits for it: weights are shared from one step to the next.
    const uint64_t number = recorder_.begin(name(), operation, what, bytes(x), [works] {
      return std::ranges::all_of(works, [](const Work& work) { return work->isCompleted() && work->isSuccess(); });
    });
    return std::make_unique<GlooPending>(*this, number, what, std::move(works), std::move(then));
  }

  FlightRecorder& recorder_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  double waited_s_ = 0;
};

}  // namespace

std::unique_ptr<Group> make_gloo_group(std::string name, int64_t rank, int64_t size, int64_t unit,
                                       const GroupPlace& place) {
  return std::make_unique<GlooGroup>(std::move(name), rank, size, unit, place);
}

}  // namespace tritonforge::parallel
