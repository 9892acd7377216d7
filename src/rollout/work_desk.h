#pragma once
// Where generator processes get their work: samples of the pool's queue, each with one process at a time. A process
// that is not heard of for a while loses what it holds, and so does one that does not name it any more; it is then
// given to others, or taken by the buffer's own threads. Nothing of this is stored: a buffer that starts again finds
// its unfinished samples in the database, and leaves with a process what that says it holds.
//
// A result may come twice, from two processes: they are the same tokens by seed, and the first one counts.
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/http.h"
#include "rollout/pool.h"
#include "rollout/work.h"

namespace tritonforge::rollout {

class WorkDesk {
 public:
  WorkDesk(RolloutPool& pool, TurnKeeper& turns, double silence_s = 60);
  ~WorkDesk();  // answers those that wait with 503
  // Answers {"work": [items], "heard_within_s": S} once there is an item or at the deadline; at once where none is
  // wanted. Whoever asks must do so again within S seconds. Where what is kept of an item cannot be read, the answer is
  // that error, and the items are for whoever asks next.
  void ask(WorkRequest request, Deadline deadline, net::ResponderPtr responder);
  void work_came();
  void finished(const std::string& worker, const std::string& trajectory);
  struct Totals {
    size_t workers = 0, claimed = 0;  // that were heard of; samples that they hold
    ActivityCounts activity;
    std::string refused_key;  // of one of them
  };
  Totals totals() const;

 private:
  struct Worker {
    Clock::time_point heard;
    std::map<std::string, RolloutPool::Job> holds;  // by trajectory id
    ActivityCounts activity;
    std::string refused_key;
  };
  struct Waiting {
    WorkRequest request;
    Deadline deadline;
    net::ResponderPtr responder;
  };
  using Jobs = std::vector<RolloutPool::Job>;
  struct Claim {
    Waiting by;
    Jobs jobs;
  };
  void loop();
  void answer(const Claim& claim);
  net::Response reply_to(const Claim& claim);
  // With the mutex held:
  void hear(const WorkRequest& request);
  std::vector<Claim> claims();                           // of those that need not wait any more
  std::optional<Jobs> jobs_for(const Waiting& waiting);  // nothing: it goes on waiting
  void drop(Worker& worker, const std::vector<std::string>& trajectories);
  void forget(const std::string& name);  // what it held is for others; what it did stays in the sums
  Clock::time_point lose_silent();       // returns when the next one would be lost
  RolloutPool& pool_;
  TurnKeeper& turns_;
  const std::chrono::duration<double> silence_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Worker> workers_;
  ActivityCounts past_;  // sums of workers that are gone
  std::list<Waiting> waiting_;
  bool look_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tritonforge::rollout
