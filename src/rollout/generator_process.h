#pragma once
// A process that generates for a buffer, on any host: it asks the buffer for samples, as many as it has threads free,
// and gives back what came of them. It stores nothing; what it was at when it died is asked for elsewhere, with the
// same seeds.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/url.h"
#include "net/async_client.h"
#include "net/http.h"
#include "rollout/codec.h"
#include "rollout/generator.h"
#include "rollout/options.h"
#include "rollout/peers.h"
#include "rollout/pool.h"
#include "rollout/work.h"

namespace tritonforge::rollout {

struct GeneratorOptions {
  std::string buffer, name;
  PeerOptions peers;
  size_t concurrency = 64, evaluations = 16;

  template <typename V>
  void describe(V& v) {
    v("buffer", buffer, by_run(), required(), in_form(base_url), "URL of the buffer");
    v("name", name, by_run(), "its name there, one for each process; empty = host and process number");
    v.part(peers);
    v("concurrency", concurrency, in(1, 4096), "trajectories under way at once");
    v("evaluations", evaluations, in(1, 4096), "evaluations under way at once");
  }
};

class GeneratorProcess : private TurnKeeper {
 public:
  GeneratorProcess(GeneratorOptions options, std::unique_ptr<ChatCodec> codec);
  ~GeneratorProcess() override;

  struct State {
    ActivityCounts activity;
    int64_t delivered = 0;
    std::string buffer_error;  // "": the buffer answered last time
  };
  State state() const;
  const std::string& name() const { return options_.name; }
  // No new turns; waits for those under way. False: some were still running at the deadline, and are others' now.
  bool stop(double grace_s);

 private:
  void ask_for_work(std::stop_token stop);
  // Throws what the buffer, or the way to it, answers.
  std::vector<WorkItem> ask(bool leaving);
  void run_one(const GroupPtr& group, int64_t sample, std::stop_token stop);
  // Until the buffer has it, does not want it, or the stop.
  void deliver(const GroupSpec& group, int64_t sample, std::string bytes, std::stop_token stop);
  void say(const std::string& error);
  std::vector<KeptTurn> kept_turns(const std::string& group_id, int64_t sample) override;
  void keep_turn(const std::string& group_id, int64_t sample, int64_t index, const KeptTurn& turn) override;

  GeneratorOptions options_;
  std::unique_ptr<ChatCodec> codec_;
  Peers peers_;
  net::HttpClient client_;
  net::AsyncClient asking_client_;  // a request for work that waits can be ended
  Gate evaluations_;
  Activity activity_;
  Generator generator_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> holding_;                      // trajectory ids
  std::map<std::string, std::vector<KeptTurn>> kept_;  // of those
  int64_t delivered_ = 0;
  std::string buffer_error_;
  std::stop_source stop_;
  RolloutPool pool_;
  std::jthread asking_;  // last: it uses all of the above
};

}  // namespace tritonforge::rollout
