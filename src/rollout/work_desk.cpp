#include "rollout/work_desk.h"

#include <algorithm>
#include <set>

#include "base/log.h"

namespace tritonforge::rollout {

WorkDesk::WorkDesk(RolloutPool& pool, TurnKeeper& turns, double silence_s)
    : pool_(pool), turns_(turns), silence_(silence_s), thread_([this] { loop(); }) {}

WorkDesk::~WorkDesk() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkDesk::ask(WorkRequest request, Deadline deadline, net::ResponderPtr responder) {
  {
    std::lock_guard lock(mutex_);
    hear(request);
    waiting_.push_back({std::move(request), deadline, std::move(responder)});
    look_ = true;
  }
  changed_.notify_all();
}

void WorkDesk::work_came() {
  {
    std::lock_guard lock(mutex_);
    look_ = true;
  }
  changed_.notify_all();
}

void WorkDesk::finished(const std::string& worker, const std::string& trajectory) {
  std::lock_guard lock(mutex_);
  if (const auto found = workers_.find(worker); found != workers_.end()) found->second.holds.erase(trajectory);
}

WorkDesk::Totals WorkDesk::totals() const {
  std::lock_guard lock(mutex_);
  Totals totals{.workers = workers_.size(), .activity = past_};
  for (const auto& [name, worker] : workers_) {
    totals.claimed += worker.holds.size();
    totals.activity += worker.activity;
    if (totals.refused_key.empty()) totals.refused_key = worker.refused_key;
  }
  return totals;
}

void WorkDesk::hear(const WorkRequest& request) {
  Worker& worker = workers_[request.worker];
  worker.heard = Clock::now();
  worker.activity = request.activity;
  worker.refused_key = request.refused_key;
  std::set<std::string> holding;
  if (!request.leaving) holding.insert(request.holding.begin(), request.holding.end());
  std::vector<std::string> lost;
  for (const auto& [trajectory, job] : worker.holds) {
    if (holding.erase(trajectory) == 0) lost.push_back(trajectory);
  }
  drop(worker, lost);
  worker.holds.merge(pool_.take(holding));  // what is left: of a buffer that was started again
  if (request.leaving) forget(request.worker);
}

void WorkDesk::forget(const std::string& name) {
  Worker worker = std::move(workers_.extract(name).mapped());
  std::vector<std::string> all;
  for (const auto& [trajectory, job] : worker.holds) all.push_back(trajectory);
  drop(worker, all);
  past_ += {.turns = worker.activity.turns,
            .failed_turns = worker.activity.failed_turns,
            .sampled_tokens = worker.activity.sampled_tokens};
}

void WorkDesk::drop(Worker& worker, const std::vector<std::string>& trajectories) {
  std::vector<RolloutPool::Job> back;
  for (const std::string& trajectory : trajectories)
    back.push_back(std::move(worker.holds.extract(trajectory).mapped()));
  if (!back.empty()) pool_.put_back(std::move(back));
}

Clock::time_point WorkDesk::lose_silent() {
  const auto now = Clock::now();
  auto next = now + std::chrono::hours(1);
  for (auto at = workers_.begin(); at != workers_.end();) {
    auto& [name, worker] = *at++;
    const bool waits = std::ranges::any_of(
        waiting_, [&](const Waiting& w) { return w.request.worker == name && w.responder->connected(); });
    if (waits) worker.heard = now;
    const auto until = worker.heard + std::chrono::duration_cast<Clock::duration>(silence_);
    if (until > now) {
      next = std::min(next, until);
      continue;
    }
    log::warn("generator {} was not heard of for {:.0f} s; the {} samples that it held are for others", name,
              silence_.count(), worker.holds.size());
    forget(std::string(name));
  }
  return next;
}

std::optional<WorkDesk::Jobs> WorkDesk::jobs_for(const Waiting& waiting) {
  const WorkRequest& request = waiting.request;
  // What one that hung up is given would be lost; it asks again.
  if (!waiting.responder->connected() || request.count == 0 || request.leaving) return Jobs();
  Jobs jobs = pool_.take(request.count);
  if (jobs.empty() && !waiting.deadline.expired()) return std::nullopt;
  Worker& worker = workers_[request.worker];
  for (const RolloutPool::Job& job : jobs) worker.holds.insert_or_assign(trajectory_id(job.group->id, job.sample), job);
  return jobs;
}

std::vector<WorkDesk::Claim> WorkDesk::claims() {
  std::vector<Claim> claims;
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (auto jobs = jobs_for(*one)) {
      claims.push_back({std::move(*one), *std::move(jobs)});
      one = waiting_.erase(one);
    } else {
      ++one;
    }
  }
  return claims;
}

net::Response WorkDesk::reply_to(const Claim& claim) {
  Json list = Json::array();
  for (const auto& [group, sample] : claim.jobs) {
    auto kept = group->options.keep_turns ? turns_.kept_turns(group->id, sample) : std::vector<KeptTurn>();
    list.push_back(to_json(WorkItem{*group, sample, std::move(kept)}));
  }
  return net::Response::json({{"work", std::move(list)}, {"heard_within_s", silence_.count()}});
}

// Without the mutex, which threads of the server take: what is kept is read from the disk.
void WorkDesk::answer(const Claim& claim) {
  const std::string& name = claim.by.request.worker;
  try {
    return claim.by.responder->send(reply_to(claim));
  } catch (const std::exception& error) {
    log::warn("generator {} is given nothing: {}", name, error.what());
    claim.by.responder->send(net::Response::error(error));
  }
  std::lock_guard lock(mutex_);
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) return;
  std::vector<std::string> held;  // it may have asked again meanwhile
  for (const auto& [group, sample] : claim.jobs) {
    std::string id = trajectory_id(group->id, sample);
    if (worker->second.holds.contains(id)) held.push_back(std::move(id));
  }
  drop(worker->second, held);
}

void WorkDesk::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    look_ = false;
    auto wake = lose_silent();
    if (const std::vector<Claim> ready = claims(); !ready.empty()) {
      lock.unlock();
      for (const Claim& claim : ready) answer(claim);
      lock.lock();
      continue;
    }
    for (const Waiting& waiting : waiting_) wake = std::min(wake, waiting.deadline.at());
    changed_.wait_until(lock, wake, [&] { return stop_ || look_; });
  }
  for (const Waiting& waiting : waiting_)
    waiting.responder->send(net::Response::error(Error(ErrorKind::kUnavailable, "the buffer is stopping")));
}

}  // namespace tritonforge::rollout
