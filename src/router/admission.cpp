#include "router/admission.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tritonforge::router {

double TokenBucket::take(Clock::time_point now) {
  if (rate_ <= 0) return 0;
  const double passed = seen_ == Clock::time_point{} ? 0 : std::chrono::duration<double>(now - seen_).count();
  level_ = std::min(burst_, level_ + rate_ * std::max(0.0, passed));
  seen_ = now;
  if (level_ < 1) return (1 - level_) / rate_;
  level_ -= 1;
  return 0;
}

void TokenBucket::give_back() { level_ = std::min(burst_, level_ + 1); }

Admission::Admission(AdmissionOptions options)
    : options_(options),
      buckets_{TokenBucket{options.training_rate, options.burst}, TokenBucket{options.evaluation_rate, options.burst}} {
  if (options_.max_running > 0) expiry_ = std::jthread([this](std::stop_token stop) { expire(stop); });
}

Admission::~Admission() { close(); }

Admission::Ticket Admission::ticket() {
  return Ticket(this, [](void* self) { static_cast<Admission*>(self)->release(); });
}

uint64_t Admission::ask(Priority priority, Deadline deadline, Start start) {
  const auto kind = static_cast<size_t>(priority);
  std::unique_lock lock(mutex_);
  const uint64_t id = next_id_++;
  if (closed_) {
    lock.unlock();
    start(Error(ErrorKind::kUnavailable, "the router stops"));
    return id;
  }
  if (const double wait_s = buckets_[kind].take(Clock::now()); wait_s > 0) {
    lock.unlock();
    start(Error(ErrorKind::kBusy, fmt::format("more {} requests than {:g} a second", name_of(priority),
                                              kind == 0 ? options_.training_rate : options_.evaluation_rate))
              .with_retry_after(wait_s));
    return id;
  }
  if (options_.max_running == 0) {
    lock.unlock();
    start(Ticket());
    return id;
  }
  if (running_ < options_.max_running && count() == 0) {
    ++running_;
    lock.unlock();
    start(ticket());
    return id;
  }
  // It waits, in the place of another if need be.
  Start refused;
  if (count() >= static_cast<size_t>(options_.max_waiting)) {
    constexpr auto kEvaluation = static_cast<size_t>(Priority::kEvaluation);
    auto& evaluations = waiting_[kEvaluation];
    if (priority == Priority::kTraining && !evaluations.empty()) {
      const auto youngest = std::prev(evaluations.end());
      refused = std::move(youngest->second.start);
      evaluations.erase(youngest);
      buckets_[kEvaluation].give_back();
    } else {
      refused = std::exchange(start, nullptr);
      buckets_[kind].give_back();
    }
  }
  if (start) {
    waiting_[kind].emplace(id, Waiter{deadline.at(), std::move(start)});
    if (deadline.at() < alarm_) changed_.notify_all();
  }
  start_waiting(lock);
  lock.unlock();
  if (refused) {
    refused(Error(ErrorKind::kBusy,
                  fmt::format("{} requests are under way and {} wait", options_.max_running, options_.max_waiting)));
  }
  return id;
}

void Admission::cancel(uint64_t id) {
  Start dropped;  // outlives the lock: its end may end a ticket
  const std::lock_guard lock(mutex_);
  for (auto& queue : waiting_) {
    if (auto node = queue.extract(id)) dropped = std::move(node.mapped().start);
  }
}

void Admission::release() {
  std::unique_lock lock(mutex_);
  --running_;
  start_waiting(lock);
}

// One thread at a time: a request that ends within its own start() makes room in this loop, not in a deeper call.
void Admission::start_waiting(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(starting_, true)) return;
  while (running_ < options_.max_running && count() > 0) {
    auto& queue = waiting_[waiting_[0].empty() ? 1 : 0];
    Start start = std::move(queue.begin()->second.start);
    queue.erase(queue.begin());
    ++running_;
    lock.unlock();
    start(ticket());
    start = nullptr;
    lock.lock();
  }
  starting_ = false;
}

void Admission::expire(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    std::vector<Start> late;
    alarm_ = Clock::time_point::max();
    for (auto& queue : waiting_) {
      for (auto one = queue.begin(); one != queue.end();) {
        if (one->second.deadline > now) {
          alarm_ = std::min(alarm_, (one++)->second.deadline);
        } else {
          late.push_back(std::move(one->second.start));
          one = queue.erase(one);
        }
      }
    }
    if (!late.empty()) {
      lock.unlock();
      for (const auto& start : late)
        start(Error(ErrorKind::kTimeout, "the deadline passed while the request waited for its turn"));
      late.clear();
      lock.lock();
      continue;
    }
    const auto sooner = [this, known = alarm_] {
      for (const auto& queue : waiting_) {
        for (const auto& [id, one] : queue) {
          if (one.deadline < known) return true;
        }
      }
      return false;
    };
    if (alarm_ == Clock::time_point::max()) changed_.wait(lock, stop, sooner);
    else changed_.wait_until(lock, stop, alarm_, sooner);
  }
}

void Admission::close() {
  std::vector<Start> refused;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& queue : waiting_) {
      for (auto& [id, one] : queue) refused.push_back(std::move(one.start));
      queue.clear();
    }
  }
  for (const auto& start : refused) start(Error(ErrorKind::kUnavailable, "the router stops"));
}

size_t Admission::waiting() const {
  const std::lock_guard lock(mutex_);
  return count();
}

int64_t Admission::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

}  // namespace tritonforge::router
