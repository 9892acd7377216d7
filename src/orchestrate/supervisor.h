#pragma once
// Starts the roles of a run as child processes, watches them, and starts again what dies.
//
// State of a role: green = healthy; yellow = starting, restarting or under load; red = failed. A role that dies is
// started again with the same arguments (after a back-off); its on_ready runs before it counts as green. One that
// dies more than kMaxRestarts times within kRestartWindow seconds stays red and fails the run: check() throws.
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/filesystem.h"
#include "base/process.h"

namespace tritonforge::orchestrate {

struct RoleSpec {
  std::string name;               // engine-0
  std::vector<std::string> argv;  // with its --port
  std::map<std::string, std::string> env;
  std::string url;  // answers GET /health
  double ready_timeout_s = 120;
  // Brings a new process up to date (weights, registration) before it is used. May throw: counts as a death.
  std::function<void(bool restarted)> on_ready;
};

enum class RoleState { kGreen, kYellow, kRed };
std::string_view name_of(RoleState state);

struct RoleStatus {
  std::string name, detail;
  RoleState state = RoleState::kYellow;
  int restarts = 0;
  pid_t pid = -1;
};

class Supervisor {
 public:
  static constexpr int kMaxRestarts = 5;
  static constexpr double kRestartWindow = 300;

  explicit Supervisor(fs::path log_folder);
  ~Supervisor();  // stops everything

  // Starts roles side by side and waits until all are ready; throws naming the role, with the end of its log.
  void start(std::vector<RoleSpec> specs);
  void stop(const std::string& name);  // SIGTERM, then SIGKILL after a grace
  void stop_all();

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
  std::shared_ptr<Role> find(const std::string& name) const;
  std::string log_tail(const std::string& name) const;

  fs::path log_folder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Role>> roles_;  // shared: a caller may wait for one that is being stopped
};

}  // namespace tritonforge::orchestrate
