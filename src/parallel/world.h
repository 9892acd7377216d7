#pragma once
// One process's place among the ranks of a job: its groups, its way to the others, and the watch that ends it when one
// of them is gone or a collective hangs.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/dims.h"
#include "parallel/group.h"
#include "parallel/recorder.h"
#include "parallel/rendezvous.h"

namespace tritonforge::parallel {

class World {
 public:
  // Waits for the others, at most dims.timeout_s. failed: called once, from the watch's thread, when the job cannot go
  // on; it must end the process, whose collectives may never return.
  World(const ParallelDims& dims, const WorldOptions& options, at::Device device,
        std::function<void(const std::string&)> failed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int64_t rank() const { return options_.rank; }
  int64_t size() const { return dims_.world(); }
  const ParallelDims& dims() const { return dims_; }
  const Coordinates& at() const { return at_; }
  int64_t ranks_here() const { return ranks_here_; }  // with this one's rank_host: on its machine
  Groups groups() const {
    return {.tp = tp_.get(),
            .cp = cp_.get(),
            .cp_form = dims_.cp_form,
            .zero = zero_.get(),
            .ep = ep_.get(),
            .expert_zero = expert_zero_.get(),
            .onward = onward_.get(),
            .back = back_.get()};
  }
  double waited_s();                // of all of them: Group::waited_s()
  Group& host() { return *host_; }  // all ranks, over the host's tensors
  FlightRecorder& recorder() { return recorder_; }
  Meeting& meeting() { return *meeting_; }

  // Rank 0 tells the others what to do next; each gets all of it, in order.
  void tell(std::string command);
  std::string told();  // waits however long rank 0 takes, as long as it is there

  // This rank cannot go on, so nobody can: all of them hear why. of_another: is_of_another() of what ended it. Returns;
  // `failed` is called soon after.
  void report(const std::string& why, bool of_another = false);

 private:
  void watch();
  void end_watch();
  std::vector<Group*> device_groups() const;  // those that are there

  const ParallelDims dims_;
  const WorldOptions options_;
  const Coordinates at_;
  int64_t ranks_here_ = 0;
  const std::function<void(const std::string&)> failed_;
  std::optional<Rendezvous> rendezvous_;
  std::optional<Meeting> meeting_;
  FlightRecorder recorder_;
  std::unique_ptr<Group> host_, tp_, cp_, zero_, ep_, expert_zero_, onward_, back_;
  int64_t commands_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::atomic<bool> failing_ = false;  // the job ends; nobody is waited for
  std::thread watch_;
};

}  // namespace tritonforge::parallel
