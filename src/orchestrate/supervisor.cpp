#include "orchestrate/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "net/http.h"

namespace tritonforge::orchestrate {

struct Supervisor::Role {
  RoleSpec spec;
  RoleStatus status;  // guarded by mutex_
  std::unique_ptr<ChildProcess> process;
  std::deque<Clock::time_point> deaths;
  std::string startup_error;             // guarded by mutex_
  bool ready = false, stopping = false;  // guarded by mutex_
  std::thread watcher;
};

std::string_view name_of(RoleState state) {
  switch (state) {
    case RoleState::kGreen: return "green";
    case RoleState::kYellow: return "yellow";
    case RoleState::kRed: return "red";
  }
  return "red";
}

Supervisor::Supervisor(fs::path log_folder) : log_folder_(std::move(log_folder)) {
  fs::create_directories(log_folder_);
}

Supervisor::~Supervisor() { stop_all(); }

void Supervisor::start(std::vector<RoleSpec> specs) {
  std::vector<std::shared_ptr<Role>> started;
  {
    std::lock_guard lock(mutex_);
    for (auto& spec : specs) {
      auto role = std::make_shared<Role>();
      role->status.name = spec.name;
      role->status.detail = "starting";
      role->spec = std::move(spec);
      started.push_back(role);
      roles_.push_back(std::move(role));
    }
  }
  for (const auto& role : started) role->watcher = std::thread([this, role = role.get()] { watch(*role); });
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
  ProcessOptions options;
  options.argv = role.spec.argv;
  options.env = role.spec.env;
  options.stdout_file = options.stderr_file = log_folder_ / (role.spec.name + ".log");
  auto process = std::make_unique<ChildProcess>(options);
  {
    std::lock_guard lock(mutex_);
    role.process = std::move(process);
    role.status.pid = role.process->pid();
  }
  net::HttpClient client({.timeout_s = 5});
  const Deadline deadline = Deadline::after(role.spec.ready_timeout_s);
  while (true) {
    if (const auto code = role.process->wait(Deadline::after(0.05))) {
      fail(ErrorKind::kUnavailable, "exited with {}: {}", *code, log_tail(role.spec.name));
    }
    {
      std::lock_guard lock(mutex_);
      if (role.stopping) fail(ErrorKind::kUnavailable, "stopped while starting");
    }
    const auto reply = client.get(role.spec.url + "/health");
    if (reply.ok() && reply->status == 200) break;
    if (deadline.expired()) {
      fail(ErrorKind::kTimeout, "no healthy answer from {}/health within {} s: {}", role.spec.url,
           role.spec.ready_timeout_s, log_tail(role.spec.name));
    }
  }
  if (role.spec.on_ready) role.spec.on_ready(restarted);
}

namespace {

// What a role says of itself (net::health_reply); a red reply is not 200 and thus an error.
std::pair<RoleState, std::string> read_health(const Result<Json>& reply) {
  if (!reply.ok()) return {RoleState::kYellow, fmt::format("busy: {}", reply.error().what())};
  try {
    const bool green = require<std::string>(*reply, "status", "GET /health") == "green";
    return {green ? RoleState::kGreen : RoleState::kYellow, require<std::string>(*reply, "detail", "GET /health")};
  } catch (const Error& error) {
    return {RoleState::kYellow, error.what()};
  }
}

}  // namespace

void Supervisor::watch(Role& role) {
  bool has_run = false;  // one that never came up is not tried again: its fault is in the command or the machine
  while (true) {
    // Up: started, healthy, brought up to date.
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
    // Healthy: wait for its end, and let /health colour it in between.
    net::HttpClient client({.timeout_s = 3});
    while (reason.empty()) {
      const auto code = role.process->wait(Deadline::after(1.0));
      if (code) {
        reason = fmt::format("exited with {}", *code);
        break;
      }
      const auto reply = client.get_json(role.spec.url + "/health");
      std::lock_guard lock(mutex_);
      if (role.stopping) break;
      std::tie(role.status.state, role.status.detail) = read_health(reply);
    }
    // Asked to stop: the end of the watch.
    std::unique_lock lock(mutex_);
    role.ready = false;
    if (role.stopping) {
      lock.unlock();
      role.process->stop(/*grace_s=*/10);
      lock.lock();
      role.status.state = RoleState::kYellow;
      role.status.detail = "stopped";
      changed_.notify_all();
      return;
    }
    // Died, or never came up: what is left of it ends, and too many deaths in a row fail the run.
    lock.unlock();
    if (role.process) role.process->stop(/*grace_s=*/2);
    lock.lock();
    role.deaths.push_back(Clock::now());
    while (!role.deaths.empty() && seconds_since(role.deaths.front()) > kRestartWindow) role.deaths.pop_front();
    if (!has_run || static_cast<int>(role.deaths.size()) > kMaxRestarts) {
      role.status.state = RoleState::kRed;
      role.status.detail = role.startup_error = reason;
      changed_.notify_all();
      return;
    }
    // Again, after a back-off that a stop ends.
    role.status.state = RoleState::kYellow;
    role.status.detail = "restarting: " + reason;
    ++role.status.restarts;
    changed_.notify_all();
    log::warn("{} {}; starting it again ({} of {})", role.spec.name, reason, role.deaths.size(), kMaxRestarts);
    const double back_off = 0.1 * (1 << std::min<size_t>(role.deaths.size(), 6));
    if (changed_.wait_for(lock, std::chrono::duration<double>(back_off), [&] { return role.stopping; })) {
      role.status.detail = "stopped";
      changed_.notify_all();
      return;
    }
  }
}

std::shared_ptr<Supervisor::Role> Supervisor::find(const std::string& name) const {
  for (const auto& role : roles_) {
    if (role->spec.name == name) return role;
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
  if (role->watcher.joinable()) role->watcher.join();
}

void Supervisor::stop_all() {
  std::vector<std::shared_ptr<Role>> roles;
  {
    std::lock_guard lock(mutex_);
    for (auto& role : roles_) {
      role->stopping = true;
      if (role->process) role->process->signal(SIGTERM);
    }
    roles.swap(roles_);
    changed_.notify_all();
  }
  for (auto& role : roles) {
    if (role->watcher.joinable()) role->watcher.join();
  }
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
    fail(ErrorKind::kUnavailable, "{} keeps failing ({}); its log is {}; mend the cause, then run again with --resume",
         role->spec.name, role->status.detail, (log_folder_ / (role->spec.name + ".log")).string());
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

std::string Supervisor::log_tail(const std::string& name) const {
  const fs::path path = log_folder_ / (name + ".log");
  if (!fs::exists(path)) return "(no log)";
  std::string text = read_file(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

}  // namespace tritonforge::orchestrate
