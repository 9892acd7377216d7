#pragma once
// The servers of a run as its stages see them: typed calls that survive the restart of their server. JSON and URLs end
// here.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "contract/lease.h"
#include "contract/problem.h"
#include "contract/rollout.h"
#include "contract/step.h"
#include "contract/weights.h"
#include "net/http.h"
#include "orchestrate/supervisor.h"

namespace tritonforge::orchestrate {

// A server of the run: its name to the supervisor, which brings it back where it dies, and its address. Thread-safe.
class Role {
 public:
  Role(Supervisor& supervisor, std::string name, std::string url);
  const std::string& url() const { return url_; }

  struct Request {
    std::string method = "POST", path, body;
    std::string content_type = "application/json";
    double timeout_s = 60;  // of one exchange
    // Only the process that was restarted so often may answer: one started since does not know what the caller counts
    // on, and the exchange fails with kUnavailable instead.
    std::optional<int> restarts;
  };
  // The one rule of repeating: where the server cannot be reached, or has no room (429, 503), waits until the
  // supervisor has the role ready and sends again, for timeout_s and at least five minutes. So only for requests that
  // may be repeated. Any other reply is the answer. Throws kTimeout, and kUnavailable where the role is beyond
  // restarting or stopped.
  net::Response exchange(const Request& request) const;
  // The same; a reply that is not 2xx is thrown as its Error, the role's name in front, and the body is parsed.
  Json ask(const Request& request) const;
  Json post(const std::string& path, const Json& body, double timeout_s) const;

  int restarts() const { return supervisor_->restarts(name_); }
  void wait_ready(Deadline deadline) const { supervisor_->wait_ready(name_, deadline); }
  // Throws where any role of the run is beyond restarting: for waits that are not waits for this one.
  void check_all() const { supervisor_->check(); }

 private:
  Supervisor* supervisor_;
  std::string name_, url_;
  std::shared_ptr<net::HttpClient> client_;  // shared: a Role is copied into those who call it
};

class Buffer {
 public:
  explicit Buffer(Role role) : role_(std::move(role)) {}
  const std::string& url() const { return role_.url(); }  // for the trainer, which fetches leases itself

  // All with the same options. Groups that the buffer has already are left as they are.
  void submit(const std::vector<GroupSpec>& groups) const;
  // Waits for the groups as long as the slowest generation may take (half an hour); request.timeout_s is of one round.
  Lease lease(LeaseRequest request) const;
  void commit(const std::string& lease_id, int64_t step) const;
  void release(const std::string& lease_id) const;  // its groups may be leased again

 private:
  Role role_;
};

// The trainer went back to its last checkpoint, or to the start: what it was asked for counts for nothing.
struct RolledBack {
  int64_t next_step = 1;  // what it expects now
  std::string cause;
};
using StepOutcome = std::variant<StepResult, RolledBack>;

// Not for several threads.
class Trainer {
 public:
  explicit Trainer(Role role) : role_(std::move(role)) {}
  const std::string& url() const { return role_.url(); }

  // What follows counts on the process that answered.
  TrainerStatus status();
  // RolledBack where the trainer died since status(): its leases since the checkpoint are trained again, in order.
  StepOutcome step(const StepRequest& request);
  // These throw kUnavailable where the trainer died since status().
  PublishedWeights publish(int64_t version) const;  // into shared memory
  int64_t save() const;                             // a checkpoint; the step that it holds
  void export_model(const fs::path& folder) const;  // a Hugging Face folder

 private:
  Json ask(const std::string& path, const Json& body, double timeout_s) const;
  Role role_;
  int restarts_ = 0;  // of the process that status() spoke to
};

// All engines of the run, behind the router. Thread-safe.
class Engines {
 public:
  Engines(Role router, std::vector<std::string> urls) : router_(std::move(router)), urls_(std::move(urls)) {}
  const std::string& router_url() const { return router_.url(); }
  const std::vector<std::string>& urls() const { return urls_; }

  // Puts the weights on every engine and remembers them for those that come back. Waits for engines that are down;
  // throws kUnavailable where one refuses them, kCorrupt where one serves others than the publisher's.
  std::vector<InstalledWeights> install(const PublishedWeights& weights);
  // A fresh engine serves what it was started with: it gets the newest weights before the router may use it.
  void bring_up(const std::string& url);
  // Tells a router that has just started of all engines.
  void register_all() const;

 private:
  Role router_;
  std::vector<std::string> urls_;
  std::mutex mutex_;
  PublishedWeights weights_;
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
