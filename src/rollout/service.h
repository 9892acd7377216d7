#pragma once
// The buffer's work without HTTP: it owns the store and the trajectories under way, and goes on after a restart where
// it stopped. Thread-safe.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/http.h"
#include "rollout/codec.h"
#include "rollout/generator.h"
#include "rollout/peers.h"
#include "rollout/pool.h"
#include "rollout/store.h"

namespace tritonforge::rollout {

class RolloutService {
 public:
  // Opens the store and resumes its unfinished groups. Throws kUsage where they want a tokenizer and there is none, as
  // start_groups does; without a concurrency of its own other processes have theirs.
  RolloutService(ServiceOptions options, std::unique_ptr<ChatCodec> codec);
  ~RolloutService();

  // Durable when it returns. Throws kUnavailable where the queue or the disk is full, and after stop().
  Store::Accepted start_groups(const std::vector<GroupSpec>& groups);
  // A trajectory that a generator process made: durable when it returns. Throws kUsage, kNotFound where nobody asked
  // for it (any more), kUnavailable where the disk takes nothing.
  void deliver(const Trajectory& trajectory);
  Store& store() { return store_; }
  RolloutPool& pool() { return pool_; }
  const ChatCodec& codec() const { return *codec_; }
  const PeerOptions& peers() const { return peers_.options(); }

  struct State {
    size_t queued = 0, running = 0;
    int64_t generating = 0, evaluating = 0, turns = 0, failed_turns = 0, sampled_tokens = 0;
    int64_t unwritten = 0;    // finished, waiting for the disk
    std::string write_error;  // why; "" where the disk takes writes
    std::string refused_key;  // which server refuses which; "" where none does
    bool stopping = false;
  };
  State state() const;
  // Called (from any thread) whenever a group became complete.
  void on_group_complete(std::function<void()> callback);
  // No new turns; waits for those under way. False: some were still running at the deadline (a restart does them
  // again).
  bool stop(double grace_s);
  // No thread of the service runs, and no callback is called, once this returned.
  void join();

 private:
  void run_one(const GroupPtr& group, int64_t sample, std::stop_token stop);
  void write(const GroupSpec& group, Trajectory trajectory, int64_t sample, std::stop_token stop);
  ServiceOptions options_;
  std::unique_ptr<ChatCodec> codec_;
  Peers peers_;
  Gate evaluations_;
  Activity activity_;
  std::atomic<bool> stopping_{false};
  Store store_;
  Generator generator_;
  mutable std::mutex mutex_;
  int64_t unwritten_ = 0;
  std::string write_error_;
  std::function<void()> group_complete_;
  RolloutPool pool_;  // last: its threads use all of the above
};

}  // namespace tritonforge::rollout
