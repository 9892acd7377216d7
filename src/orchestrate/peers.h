#pragma once
// The servers of a run as its stages see them: typed calls that survive the restart of their server. JSON and URLs end
// here. A request names the state that it counts on - the trainer's step, the weights' version, the lease's groups -
// and a server that has another one says so; which process answers does not matter (docs/architecture.md, "One
// recovery").
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "contract/lease.h"
#include "contract/problem.h"
#include "contract/rollout.h"
#include "contract/step.h"
#include "contract/weights.h"
#include "net/http.h"
#include "orchestrate/delivery.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

// A server of the run: its name to the supervisor, which brings it back where it dies, and its address. Thread-safe.
class Role {
 public:
  Role(Supervisor& supervisor, std::string name, std::string url);
  const std::string& name() const { return name_; }
  const std::string& url() const { return url_; }

  struct Request {
    std::string method = "POST", path, body;
    std::string content_type = "application/json";
    double timeout_s = 60;                // of one exchange
    std::function<bool()> given_up = {};  // nobody wants it any more: not sent again
    std::function<void()> missed = {};    // called each time that nobody was there, or whoever was there went away
  };
  // The one rule of repeating: where the server cannot be reached, does not answer in time, or has no room (429, 503),
  // waits until the supervisor has the role ready and sends again, for timeout_s and at least five minutes. So only for
  // requests that may be repeated. Any other reply is the answer. Throws kTimeout, and kUnavailable where the role is
  // beyond restarting or stopped.
  net::Response exchange(const Request& request) const;
  // The same; a reply that is not 2xx is thrown as its Error, the role's name in front, and the body is parsed.
  Json ask(const Request& request) const;
  Json post(const std::string& path, const Json& body, double timeout_s) const;

  // Throws where any role of the run is beyond restarting: for waits that are not waits for this one.
  void check_all() const { supervisor_->check(); }

 private:
  Supervisor* supervisor_;
  std::string name_, url_;
  std::shared_ptr<net::HttpClient> client_;  // shared: a Role is copied into those who call it
};

class Buffer {
 public:
  // key_patience_s: for a server that refuses its key, which its operator may be changing.
  explicit Buffer(Role role, double stalled_after_s = SupervisorOptions().stalled_after_s, double key_patience_s = 10)
      : role_(std::move(role)), stalled_after_s_(stalled_after_s), key_patience_s_(key_patience_s) {}
  const std::string& url() const { return role_.url(); }  // for the trainer, which fetches leases itself

  // All with the same options. Groups that the buffer has already are left as they are.
  void submit(const std::vector<GroupSpec>& groups) const;
  // Waits for the groups as long as trajectories end, however slow the whole is; kTimeout where none did for
  // stalled_after_s. request.timeout_s is of one round. kUnavailable where a server refuses its key for
  // key_patience_s: what waits for it is made after --resume.
  Lease lease(LeaseRequest request) const {
    return lease(std::move(request), kLeaseRound, [] {});
  }
  // The same; `waiting` is called each time that round_s went by without them.
  Lease lease(LeaseRequest request, double round_s, const std::function<void()>& waiting) const;
  GroupProgress progress(const std::string& group_prefix) const;  // of the groups whose ids begin so
  void commit(const std::string& lease_id, int64_t step) const;
  // Where nothing of the leases counts, since every trajectory failed for reasons of ours: forgets them, so that
  // --resume makes them anew, and throws kUnavailable with the first reason.
  void require_results(const std::vector<Lease>& leases, const std::string& what) const;
  void release(const std::string& lease_id) const;  // its groups may be leased again

 private:
  static constexpr double kLeaseRound = 30;
  struct State {
    int64_t trajectories = 0;  // finished ones that it holds
    std::string refused_key;   // of a server that its trajectories wait for
  };
  State state() const;
  Role role_;
  double stalled_after_s_, key_patience_s_;
};

// The trainer does not have the steps that the caller counts on: it died and went back to its last checkpoint.
class RolledBack : public Error {
 public:
  explicit RolledBack(const std::string& why) : Error(ErrorKind::kUnavailable, why) {}
};

// Not for several threads.
class Trainer {
 public:
  // weights: as what it publishes them, "shm" or "group" (docs/protocols.md, "Trainer").
  explicit Trainer(Role role, std::string weights = "shm") : role_(std::move(role)), weights_(std::move(weights)) {}
  const std::string& url() const { return role_.url(); }

  // The one recovery of every stage that trains: calls work(next), next = the first step that the trainer has not
  // trained, and again where work met RolledBack. Throws what else it throws.
  void go_on(const std::function<void(int64_t next)>& work);

  TrainerStatus status();
  // What follows counts on the steps that the trainer answered to last, and throws RolledBack where it has others. An
  // error of its own (500) changed nothing, or the trainer is restarted for it: asked again, three times.
  StepResult step(const StepRequest& request);
  // Has the trainer fetch or take the sequences of the step under way or the next one now, beside a step (for any
  // thread). Asked once: where it fails, the step itself says what is wrong. Whether the trainer has them.
  bool send_ahead(const StepRequest& request) const;
  // Step `step` of SFT, with request_of(step) as step() has it. While the trainer works on it, request_of(step + 1) is
  // made and sent ahead, unless this is the last one.
  StepResult step_of_many(int64_t step, int64_t last, const std::function<StepRequest(int64_t step)>& request_of);
  PublishedWeights publish(int64_t version) const { return publish(version, steps_); }
  PublishedWeights publish(int64_t version, int64_t steps) const;  // those after so many steps; for any thread
  void export_model(const fs::path& folder) const;                 // as a Hugging Face folder
  // A checkpoint of all steps, and every lease of theirs committed; then the model as a Hugging Face folder.
  void finish(const fs::path& folder);
  int64_t steps() const { return steps_; }  // that it has, as it said last

 private:
  Json ask(Role::Request request, int64_t counts_on) const;
  Json post(const std::string& path, Json body, int64_t counts_on, double timeout_s) const;  // {"step": counts_on} goes
  StepResult step(Role::Request message, int64_t step);
  Role role_;
  std::string weights_;
  int64_t steps_ = 0;
  int64_t ahead_ = 0;  // the step that was sent ahead
};

// All engines of the run, behind the router. Thread-safe. Nothing is sampled before the first require() or install().
class Engines {
 public:
  // `own`: the engines that the run starts; `external`: those that run already and keep their weights. `late_after_s`:
  // for which others are waited for, at least, once one has new weights.
  Engines(Role router, std::vector<Role> own, std::vector<std::string> external, double late_after_s = 2);
  const std::string& router_url() const { return router_.url(); }
  const std::vector<Role>& own() const { return own_; }
  const std::vector<std::string>& external() const { return external_; }

  // The version barrier: from here on the router forwards nothing to an engine below this version.
  void require(int64_t version);
  // Whether weights of this version must be installed: the engines have no such ones, or one of them could not take
  // them, and nobody asks for newer.
  bool wants(int64_t version) const;
  // Puts the weights on the engines, moves the barrier up to them, and remembers them for engines that come back. An
  // engine that is down is waited for, one that cannot be reached is asked again. Where one has them, no other is
  // waited for much longer than that one took, and one that is down not at all: a late one gets no request until it has
  // them, too, and is not among the returned. One that fails once nobody waits for it is wanted() again, by name in the
  // log. Throws naming the engine: kCorrupt where the file is not the publisher's, kUnavailable where it is beyond
  // restarting.
  std::vector<InstalledWeights> install(const PublishedWeights& weights);
  // A fresh engine serves what it was started with: it gets the newest weights before the router knows it. Where their
  // file is damaged or gone, `publish(version)` makes another; where that throws RolledBack, the trainer is waited
  // for, which comes to these weights again, or to newer ones.
  void bring_up(const std::string& url, const std::function<PublishedWeights(int64_t version)>& publish);
  // Tells a router that has just started of the barrier, and then of the engines.
  void bring_up_router(bool restarted) const;

 private:
  void send_barrier(double patience_s) const;
  Result<int64_t> give(const std::string& url, const PublishedWeights& weights) const;
  void publish_again(const PublishedWeights& damaged, const std::function<PublishedWeights(int64_t version)>& publish);
  PublishedWeights newest() const;
  void replace(const PublishedWeights& old, PublishedWeights fresh);
  Role router_;
  std::vector<Role> own_;
  std::vector<std::string> external_;
  const double late_after_s_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;                              // a delivery
  bool installing_ = false;                                    // somebody waits for that
  std::set<std::string> missed_;                               // engines that were down when they were asked
  PublishedWeights weights_{{}, /*version=*/-1, {}};           // installed last
  int64_t min_version_ = std::numeric_limits<int64_t>::max();  // closed
  std::vector<std::unique_ptr<Delivery>> deliveries_;          // to each of our own; end first
};

class Evaluator {
 public:
  explicit Evaluator(Role role) : role_(std::move(role)) {}
  const std::string& url() const { return role_.url(); }
  Verdict judge(const Problem& problem, const std::string& candidate, uint64_t seed,
                const EvaluationOptions& options) const;

 private:
  Role role_;
};

}  // namespace tritonforge::orchestrate
