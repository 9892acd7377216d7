#include "orchestrate/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/line_tail.h"
#include "base/log.h"
#include "net/instance.h"

namespace tritonforge::orchestrate {

struct Supervisor::Role {
  RoleSpec spec;
  RoleStatus status;  // guarded by mutex_
  std::unique_ptr<Launched> process;
  std::deque<Clock::time_point> deaths;
  std::string startup_error;             // guarded by mutex_
  bool ready = false, stopping = false;  // guarded by mutex_
  std::thread watcher;
  std::mutex joining;
};

std::string_view name_of(RoleState state) {
  switch (state) {
    case RoleState::kGreen: return "green";
    case RoleState::kYellow: return "yellow";
    case RoleState::kRed: return "red";
  }
  return "red";
}

Supervisor::Supervisor(fs::path log_folder, SupervisorOptions options, std::unique_ptr<Launcher> launcher)
    : log_folder_(std::move(log_folder)), options_(options), launcher_(std::move(launcher)) {
  fs::create_directories(log_folder_);
}

Supervisor::~Supervisor() { stop_all(); }

void Supervisor::start(std::vector<RoleSpec> specs) {
  std::vector<std::shared_ptr<Role>> started;
  {
    std::lock_guard lock(mutex_);
    if (closing_) fail(ErrorKind::kUnavailable, "the run is being stopped");
    for (auto& spec : specs) {
      auto role = std::make_shared<Role>();
      role->status.name = spec.name;
      role->status.url = spec.url;
      role->status.detail = "starting";
      role->spec = std::move(spec);
      role->watcher = std::thread([this, role = role.get()] { watch(*role); });
      started.push_back(role);
      roles_.push_back(std::move(role));
    }
  }
  std::unique_lock lock(mutex_);
  for (const auto& role : started) {
    changed_.wait(lock, [&] { return role->ready || role->stopping || role->status.state == RoleState::kRed; });
    if (!role->ready) {
      const std::string message = role->stopping ? "stopped while starting" : role->startup_error;
      lock.unlock();
      fail(ErrorKind::kUnavailable, "{} did not start: {}", role->spec.name, message);
    }
  }
}

// Starts the process and waits for its health and on_ready. Throws where either fails.
void Supervisor::bring_up(Role& role, bool restarted) {
  Job job{.role = role.spec.name,
          .argv = role.spec.argv,
          .env = role.spec.env,
          .places = role.spec.places,
          .confined = role.spec.confined,
          .port = std::stoi(role.spec.url.substr(role.spec.url.rfind(':') + 1)),
          .reaches = role.spec.reaches,
          .publishes = role.spec.publishes,
          .log = log_folder_ / (role.spec.name + ".log")};
  const std::string instance = net::fresh_instance(role.spec.name);
  job.env[net::kInstanceVariable] = instance;
  auto process = launcher_->start(job);
  {
    std::lock_guard lock(mutex_);
    role.process.swap(process);
    role.status.pids = role.process->pids();
    const std::string& host = role.process->members().front().place.host;
    role.status.host = host == kHead ? "" : host;
  }
  process.reset();  // the one before: its end may take as long as a driver holds it, and the others need the lock
  net::HttpClient client({.timeout_s = 5});
  const double timeout_s = std::min(role.spec.ready_timeout_s, options_.start_timeout_s);
  const Deadline deadline = Deadline::after(timeout_s);
  while (true) {
    if (const auto code = role.process->wait(Deadline::after(0.05))) {
      fail(ErrorKind::kUnavailable, "exited with {}: {}", *code, last_line(job.log));
    }
    {
      std::lock_guard lock(mutex_);
      if (role.stopping) fail(ErrorKind::kUnavailable, "stopped while starting");
    }
    if (net::is_healthy(client.get(role.spec.url + "/health"), instance)) break;
    if (deadline.expired()) {
      fail(ErrorKind::kTimeout, "no healthy answer from {}/health within {} s: {}", role.spec.url, timeout_s,
           last_line(job.log));
    }
  }
  if (role.spec.on_ready) role.spec.on_ready(restarted);
}

namespace {

// What a role says of itself (net::health_reply).
struct Health {
  bool answered = false;
  RoleState state = RoleState::kYellow;
  std::string detail;
};

Health read_health(const Result<net::Response>& reply) {
  if (!reply.ok()) return {false, RoleState::kYellow, fmt::format("busy: {}", reply.error().what())};
  const Json body = parse_json_or_discard(reply->body);
  if (!body.is_object()) return {true, RoleState::kYellow, fmt::format("GET /health: {}", reply->status)};
  // Whoever else has the port may say anything under these names.
  const auto text = [&](const char* field) {
    const auto found = body.find(field);
    return found != body.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string status = text("status");
  const RoleState state = status == "green" ? RoleState::kGreen
                          : status == "red" ? RoleState::kRed
                                            : RoleState::kYellow;
  return {true, state, text("detail")};
}

}  // namespace

namespace {

// The lines "tritonforge_ROLE_NAME VALUE" of Prometheus' text: counters and gauges without labels.
std::map<std::string, double> read_figures(const Result<net::Response>& reply) {
  std::map<std::string, double> figures;
  if (!reply.ok() || reply->status != 200) return figures;
  constexpr std::string_view kPrefix = "tritonforge_";
  std::istringstream lines(reply->body);
  for (std::string line; std::getline(lines, line);) {
    const size_t role = line.find('_', kPrefix.size()), space = line.find(' ');
    if (!line.starts_with(kPrefix) || role > space || space == std::string::npos) continue;
    const std::string name = line.substr(role + 1, space - role - 1);
    if (name.find('{') != std::string::npos || name.ends_with("_sum") || name.ends_with("_count")) continue;
    const double value = std::strtod(line.c_str() + space, nullptr);
    if (std::isfinite(value)) figures[name] = value;
  }
  return figures;
}

}  // namespace

// Until it needs a restart; returns why. "": it is to be stopped.
std::string Supervisor::watch_healthy(Role& role) {
  constexpr int kSilentProbes = 3;  // at least: this process may have been stopped itself
  net::HttpClient client({.timeout_s = std::min(3.0, options_.hung_after_s / kSilentProbes)});
  auto heard = Clock::now();
  int silent = 0;
  while (true) {
    if (const auto code = role.process->wait(Deadline::after(std::min(1.0, options_.hung_after_s / 4))))
      return fmt::format("exited with {}", *code);
    const Health health = read_health(client.get(role.spec.url + "/health"));
    // For people alone: what does not answer here is judged by its health.
    auto figures = health.answered ? read_figures(client.get(role.spec.url + "/metrics"))
                                   : std::map<std::string, double>();
    silent = health.answered ? 0 : silent + 1;
    if (health.answered) heard = Clock::now();
    std::lock_guard lock(mutex_);
    if (role.stopping) return "";
    if (health.state == RoleState::kRed && role.spec.restart_when_red) return "is red: " + health.detail;
    if (silent >= kSilentProbes && seconds_since(heard) > options_.hung_after_s)
      return fmt::format("hangs: no answer to /health for {:.0f} s", seconds_since(heard));
    // Red is what nobody restarts; a router without an engine waits for one.
    role.status.state = health.state == RoleState::kRed ? RoleState::kYellow : health.state;
    role.status.detail = health.detail;
    if (health.answered) role.status.figures = std::move(figures);
  }
}

// What is still coming up has nothing to save, and an evaluator hears no signal before its Python is there.
double Supervisor::grace_of(const Role& role) {
  constexpr double kStartingGrace = 1;
  return role.ready ? role.spec.grace_s : std::min(kStartingGrace, role.spec.grace_s);
}

void Supervisor::watch(Role& role) {
  bool has_run = false;  // one that never came up is not tried again: its fault is in the command or the machine
  while (true) {
    std::string reason;
    try {
      bring_up(role, /*restarted=*/has_run);
      has_run = true;
      std::unique_lock lock(mutex_);
      role.ready = true;
      role.status.state = RoleState::kGreen;
      role.status.detail = "";
      changed_.notify_all();
    } catch (const std::exception& error) {
      reason = error.what();
    }
    if (reason.empty()) reason = watch_healthy(role);
    if (take_down(role) || !may_start_again(role, reason, has_run)) return;
  }
}

// What is left of its process ends. Whether it was asked to stop.
bool Supervisor::take_down(Role& role) {
  constexpr double kDeadGrace = 2;
  std::unique_lock lock(mutex_);
  const bool stopping = role.stopping;
  const double grace_s = stopping ? grace_of(role) : kDeadGrace;
  role.ready = false;
  role.status.figures.clear();
  lock.unlock();
  if (role.process) role.process->stop(grace_s);
  if (!stopping) {
    if (role.process) launcher_->ended(role.spec.name, *role.process);
    return false;
  }
  lock.lock();
  role.status.state = RoleState::kYellow;
  role.status.detail = "stopped";
  changed_.notify_all();
  return true;
}

// After a back-off, which a stop ends. Not where it never came up, or died too often: that fails the run.
bool Supervisor::may_start_again(Role& role, const std::string& reason, bool has_run) {
  std::unique_lock lock(mutex_);
  role.deaths.push_back(Clock::now());
  while (!role.deaths.empty() && seconds_since(role.deaths.front()) > options_.restart_window_s)
    role.deaths.pop_front();
  if (!has_run || static_cast<int64_t>(role.deaths.size()) > options_.max_restarts) {
    role.status.state = RoleState::kRed;
    role.status.detail = role.startup_error = reason;
    changed_.notify_all();
    return false;
  }
  role.status.state = RoleState::kYellow;
  role.status.detail = "restarting: " + reason;
  ++role.status.restarts;
  changed_.notify_all();
  log::warn("{} {}; starting it again ({} of {})", role.spec.name, reason, role.deaths.size(), options_.max_restarts);
  const double back_off = 0.1 * (1 << std::min<size_t>(role.deaths.size(), 6));
  if (!changed_.wait_for(lock, std::chrono::duration<double>(back_off), [&] { return role.stopping; })) return true;
  role.status.detail = "stopped";
  changed_.notify_all();
  return false;
}

std::shared_ptr<Supervisor::Role> Supervisor::find(const std::string& name) const {
  for (const auto& role : roles_) {
    if (!closing_ && role->spec.name == name) return role;
  }
  fail(ErrorKind::kUnavailable, "the role '{}' is not running", name);
}

void Supervisor::stop(const std::string& name) {
  std::shared_ptr<Role> role;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(roles_.begin(), roles_.end(), [&](const auto& r) { return r->spec.name == name; });
    if (found == roles_.end()) return;
    (*found)->stopping = true;
    if ((*found)->process) (*found)->process->signal(SIGTERM);
    role = std::move(*found);
    roles_.erase(found);
    changed_.notify_all();
  }
  join(*role);
}

void Supervisor::stop_all() {
  for (int turn = 0; turn <= RoleSpec::kLastTurn; ++turn) {
    std::vector<std::shared_ptr<Role>> roles;
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      for (const auto& role : roles_) {
        if (role->spec.stop_turn > turn) continue;
        role->stopping = true;
        role->status.detail = "stopping";
        if (role->process) role->process->signal(killing_ ? SIGKILL : SIGTERM);
        roles.push_back(role);
      }
      changed_.notify_all();
    }
    for (const auto& role : roles) join(*role);
  }
  std::vector<std::shared_ptr<Role>> gone;  // beyond the lock, as the end of their processes is waited for
  std::lock_guard lock(mutex_);
  gone.swap(roles_);
}

// Two threads may stop at the same time: one of them joins, the other waits for it.
void Supervisor::join(Role& role) {
  std::lock_guard lock(role.joining);
  if (role.watcher.joinable()) role.watcher.join();
}

void Supervisor::kill_all() {
  std::lock_guard lock(mutex_);
  killing_ = true;
  for (const auto& role : roles_) {
    role->stopping = true;  // nobody starts it again
    if (role->process) role->process->signal(SIGKILL);
  }
  changed_.notify_all();
}

double Supervisor::longest_grace_s() const {
  std::lock_guard lock(mutex_);
  std::array<double, RoleSpec::kLastTurn + 1> longest{};
  for (const auto& role : roles_) {
    double& of_turn = longest.at(static_cast<size_t>(role->spec.stop_turn));
    of_turn = std::max(of_turn, grace_of(*role));
  }
  return std::accumulate(longest.begin(), longest.end(), 0.0);
}

std::vector<RoleStatus> Supervisor::status() const {
  std::lock_guard lock(mutex_);
  std::vector<RoleStatus> result;
  for (const auto& role : roles_) result.push_back(role->status);
  return result;
}

int Supervisor::restarts(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return find(name)->status.restarts;
}

void Supervisor::check() const {
  std::lock_guard lock(mutex_);
  for (const auto& role : roles_) {
    if (role->status.state != RoleState::kRed) continue;
    fail(ErrorKind::kUnavailable, "{} keeps failing ({}); its log is {}", role->spec.name, role->status.detail,
         (log_folder_ / (role->spec.name + ".log")).string());
  }
}

void Supervisor::wait_ready(const std::string& name, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Role> role = find(name);
  const bool done = changed_.wait_until(
      lock, deadline.at(), [&] { return role->ready || role->stopping || role->status.state == RoleState::kRed; });
  if (role->ready) return;
  if (role->stopping) fail(ErrorKind::kUnavailable, "{} is being stopped", name);
  lock.unlock();
  check();
  if (!done) fail(ErrorKind::kTimeout, "{} did not become healthy again in time", name);
}

}  // namespace tritonforge::orchestrate
