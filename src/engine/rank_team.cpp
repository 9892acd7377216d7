#include "engine/rank_team.h"

#include <c10/core/InferenceMode.h>

#include <utility>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/parallel.h"

namespace tritonforge::engine {

// In fp32, in the ranks' order, by each rank for itself.
class RankTeam::ByCopies : public model::Together {
 public:
  ByCopies(RankTeam& team, int64_t rank) : Together(rank), team_(team) {}
  at::Tensor sum(const at::Tensor& x) override {
    return among(x, [&](const std::vector<at::Tensor>& parts) {
      at::Tensor total = parts.front().to(x.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      for (size_t rank = 1; rank < parts.size(); ++rank) total.add_(parts[rank].to(x.device()));
      return total.to(x.scalar_type());
    });
  }
  at::Tensor side_by_side(const at::Tensor& x) override {
    return among(x, [&](const std::vector<at::Tensor>& parts) {
      std::vector<at::Tensor> here;
      for (const at::Tensor& part : parts) here.push_back(part.to(x.device()));
      return at::cat(here, 1);
    });
  }

 private:
  template <typename F>
  at::Tensor among(const at::Tensor& x, const F& f) {
    team_.shown_[static_cast<size_t>(rank())] = x;
    kernels::synchronize(x.device());
    team_.meet();
    at::Tensor result = f(team_.shown_);
    kernels::synchronize(x.device());
    team_.meet();  // before which nobody's tensor changes
    return result;
  }
  RankTeam& team_;
};

RankTeam::RankTeam(int64_t ranks, int64_t threads, std::function<void()> let_go)
    : let_go_(std::move(let_go)), shown_(static_cast<size_t>(ranks)) {
  for (int64_t rank = 0; rank < ranks; ++rank) together_.push_back(std::make_unique<ByCopies>(*this, rank));
  for (int64_t rank = 1; rank < ranks; ++rank) threads_.emplace_back([this, rank, threads] { serve(rank, threads); });
}

RankTeam::~RankTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankTeam::each(const Work& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    ended_ = met_ = 0;
    failure_ = nullptr;
    ++job_;
  }
  changed_.notify_all();
  run(0, work);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ == size(); });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void RankTeam::run(int64_t rank, const Work& work) {
  std::exception_ptr thrown;
  try {
    const c10::InferenceMode inference;
    work(rank);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (thrown) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = !failure_;
      if (first) failure_ = thrown;
    }
    changed_.notify_all();
    if (first && let_go_) let_go_();  // before each() can return, so that it is this work's alone
  }
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
  }
  changed_.notify_all();
}

void RankTeam::serve(int64_t rank, int64_t threads) {
  const kernels::ThreadPool pool(threads);
  for (uint64_t done = 0;; ++done) {
    const Work* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || job_ > done; });
      if (stopping_) return;
      work = work_;
    }
    run(rank, *work);
  }
}

void RankTeam::meet() {
  std::unique_lock lock(mutex_);
  const uint64_t meeting = meeting_;
  if (++met_ == size()) {
    met_ = 0;
    ++meeting_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return meeting_ != meeting || failure_; });
  if (meeting_ == meeting) fail(ErrorKind::kUnavailable, "another rank's step failed");
}

}  // namespace tritonforge::engine
