#pragma once
// Starts the roles of a run through a launcher, watches them, and starts again what dies or hangs.
//
// State of a role: green = healthy; yellow = starting, restarting or under load; red = failed. A role that dies, does
// not answer GET /health for hung_after_s, or calls itself red, is ended and started again with the same arguments
// (after a back-off); its on_ready runs before it counts as green. One that needs it more than max_restarts times
// within restart_window_s stays red and fails the run: check() throws.
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/filesystem.h"
#include "base/options.h"
#include "base/process.h"
#include "orchestrate/launcher.h"

namespace tritonforge::orchestrate {

struct SupervisorOptions {
  double hung_after_s = 60, start_timeout_s = 600;
  int64_t max_restarts = 5;
  double restart_window_s = 300;
  double stalled_after_s = 1800;

  template <typename V>
  void describe(V& v) {
    v("hung_after_s", hung_after_s, above(0), "seconds without an answer to /health after which a role is restarted");
    v("start_timeout_s", start_timeout_s, above(0), "longest time until a role that was started must be healthy");
    v("max_restarts", max_restarts, at_least(0), "restarts of one role within the window; one more fails the run");
    v("restart_window_s", restart_window_s, above(0), "seconds of that window");
    v("stalled_after_s", stalled_after_s, above(0),
      "seconds without one more finished trajectory after which a wait for generated groups fails the run");
  }
};

struct RoleSpec {
  static constexpr int kLastTurn = 2;
  std::string name;               // engine-0
  std::vector<std::string> argv;  // with its --port
  std::map<std::string, std::string> env;
  std::string url;                     // answers GET /health
  std::vector<Place> places{Place()};  // one a process: several are ranks, the first answers
  bool confined = false;               // to the devices of its place
  std::vector<int> reaches;            // ports of this machine that it asks
  bool publishes = false;              // weights, to engines of other hosts
  double ready_timeout_s = 120;
  double grace_s = 10;           // between SIGTERM and SIGKILL: what it may have to save
  int stop_turn = kLastTurn;     // from 0 on: it ends what it does with the help of those of later turns
  bool restart_when_red = true;  // false: its red is that of others, a restart mends nothing
  // Brings a new process up to date (weights, registration) before it is used. May throw: counts as a death.
  std::function<void(bool restarted)> on_ready;
};

enum class RoleState { kGreen, kYellow, kRed };
std::string_view name_of(RoleState state);

struct RoleStatus {
  std::string name, detail;
  RoleState state = RoleState::kYellow;
  int restarts = 0;
  std::vector<pid_t> pids;                // by rank, the one that answers first; what carries one of another host
  std::string host;                       // of the process that answers; "": this machine
  std::string url;                        // where it answers, from this machine
  std::map<std::string, double> figures;  // of its /metrics, those without labels: running_sequences, busy, ...
};

class Supervisor {
 public:
  explicit Supervisor(fs::path log_folder, SupervisorOptions options = {},
                      std::unique_ptr<Launcher> launcher = std::make_unique<Launcher>());
  ~Supervisor();  // stops everything

  // Starts roles side by side and waits until all are ready; throws naming the role, with the end of its log.
  void start(std::vector<RoleSpec> specs);
  void stop(const std::string& name);  // SIGTERM, then SIGKILL after its grace
  // For good: turn after turn, those of one at once. From the beginning on every call about a role throws.
  void stop_all();
  void kill_all();  // ends the graces of a stop that is under way: SIGKILL to all; returns at once
  double longest_grace_s() const;

  std::vector<RoleStatus> status() const;
  int restarts(const std::string& name) const;
  // Throws kUnavailable with what to do where a role is beyond restarting.
  void check() const;
  // Waits until the role is green again (it may just be restarting); throws kTimeout or as check().
  void wait_ready(const std::string& name, Deadline deadline);

 private:
  struct Role;
  void watch(Role& role);
  void bring_up(Role& role, bool restarted);
  std::string watch_healthy(Role& role);
  bool take_down(Role& role);
  bool may_start_again(Role& role, const std::string& reason, bool has_run);
  static void join(Role& role);
  static double grace_of(const Role& role);  // under mutex_
  std::shared_ptr<Role> find(const std::string& name) const;

  const fs::path log_folder_;
  const SupervisorOptions options_;
  const std::unique_ptr<Launcher> launcher_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false, killing_ = false;
  std::vector<std::shared_ptr<Role>> roles_;  // shared: a caller may wait for one that is being stopped
};

}  // namespace tritonforge::orchestrate
