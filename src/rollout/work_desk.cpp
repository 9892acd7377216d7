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
  Totals totals{workers_.size(), 0, past_};
  for (const auto& [name, worker] : workers_) {
    totals.claimed += worker.holds.size();
    totals.activity += worker.activity;
  }
  return totals;
}

// With the mutex held, as all that follows.
void WorkDesk::hear(const WorkRequest& request) {
  Worker& worker = workers_[request.worker];
  worker.heard = Clock::now();
  worker.activity = request.activity;
  std::set<std::string> holding;
  if (!request.leaving) holding.insert(request.holding.begin(), request.holding.end());
  std::vector<std::string> lost;
  for (const auto& [trajectory, job] : worker.holds) {
    if (holding.erase(trajectory) == 0) lost.push_back(trajectory);
  }
  drop(worker, lost);
  worker.holds.merge(pool_.take(holding));  // what is left: of a buffer that was started again
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
    auto& [name, worker] = *at;
    const bool waits = std::ranges::any_of(
        waiting_, [&](const Waiting& w) { return w.request.worker == name && w.responder->connected(); });
    if (waits) worker.heard = now;
    const auto until = worker.heard + std::chrono::duration_cast<Clock::duration>(silence_);
    if (until > now) {
      next = std::min(next, until);
      ++at;
      continue;
    }
    log::warn("generator {} was not heard of for {:.0f} s; the {} samples that it held are for others", name,
              silence_.count(), worker.holds.size());
    std::vector<std::string> all;
    for (const auto& [trajectory, job] : worker.holds) all.push_back(trajectory);
    drop(worker, all);
    past_ += {.turns = worker.activity.turns,
              .failed_turns = worker.activity.failed_turns,
              .sampled_tokens = worker.activity.sampled_tokens};
    at = workers_.erase(at);
  }
  return next;
}

bool WorkDesk::try_answer(const Waiting& waiting) {
  if (!waiting.responder->connected()) return true;  // what it is given would be lost; it asks again
  const WorkRequest& request = waiting.request;
  Json list = Json::array();
  if (request.count > 0 && !request.leaving) {
    Worker& worker = workers_[request.worker];
    for (RolloutPool::Job& job : pool_.take(request.count)) {
      const std::string id = trajectory_id(job.group->id, job.sample);
      auto kept = job.group->options.keep_turns ? turns_.kept_turns(job.group->id, job.sample)
                                                : std::vector<KeptTurn>();
      list.push_back(to_json(WorkItem{*job.group, job.sample, std::move(kept)}));
      worker.holds.insert_or_assign(id, std::move(job));
    }
    if (list.empty() && !waiting.deadline.expired()) return false;
  }
  waiting.responder->send(net::Response::json({{"work", std::move(list)}, {"heard_within_s", silence_.count()}}));
  return true;
}

void WorkDesk::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    look_ = false;
    auto wake = lose_silent();
    waiting_.remove_if([&](const Waiting& waiting) { return try_answer(waiting); });
    for (const Waiting& waiting : waiting_) wake = std::min(wake, waiting.deadline.at());
    changed_.wait_until(lock, wake, [&] { return stop_ || look_; });
  }
  for (const Waiting& waiting : waiting_)
    waiting.responder->send(net::Response::error(Error(ErrorKind::kUnavailable, "the buffer is stopping")));
}

}  // namespace tritonforge::rollout
