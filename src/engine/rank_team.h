#pragma once
// The tensor-parallel ranks of an engine: threads of its process, a device each. So they live and die together, a
// trainer's memory is mapped once for all of them, and a GPU reads another's memory under its address. Rank 0 is the
// thread that calls.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "model/model.h"

namespace tritonforge::engine {

class RankTeam {
 public:
  using Work = std::function<void(int64_t rank)>;
  // threads: CPU threads of each rank but the first, which has its caller's. `let_go` is called where a rank has
  // thrown, for those that wait for it on a device.
  RankTeam(int64_t ranks, int64_t threads, std::function<void()> let_go = nullptr);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  int64_t size() const { return static_cast<int64_t>(together_.size()); }

  // Work of every rank on its thread; returns once all have ended. What the first one threw is thrown here: who waits
  // for it in a sum is let go.
  void each(const Work& work);
  // Sums and gathers by copies between the ranks' tensors, on any devices, for use within each(). Waits for the device.
  model::Together& together(int64_t rank) { return *together_[static_cast<size_t>(rank)]; }

 private:
  class ByCopies;
  void run(int64_t rank, const Work& work);
  void serve(int64_t rank, int64_t threads);
  void meet();  // returns once all ranks have come here; throws where one has thrown

  const std::function<void()> let_go_;
  std::vector<std::unique_ptr<model::Together>> together_;
  std::vector<at::Tensor> shown_;  // by rank, between two meetings

  std::mutex mutex_;  // all below
  std::condition_variable changed_;
  const Work* work_ = nullptr;
  uint64_t job_ = 0, meeting_ = 0;
  int64_t ended_ = 0, met_ = 0;
  std::exception_ptr failure_;  // the first
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tritonforge::engine
