#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "router/policy.h"

namespace tritonforge::router {
namespace {

class SessionSticky final : public Policy {
 public:
  SessionSticky(std::unique_ptr<Policy> inner, size_t capacity) : inner_(std::move(inner)), capacity_(capacity) {}

  WorkerPtr pick(const std::vector<WorkerPtr>& usable, const RouteHint& hint) override {
    if (hint.session.empty()) return inner_->pick(usable, hint);
    const std::lock_guard lock(mutex_);
    const auto known = index_.find(hint.session);
    if (known != index_.end()) {
      order_.splice(order_.begin(), order_, known->second);
      const auto home = known->second->worker.lock();
      if (home && std::find(usable.begin(), usable.end(), home) != usable.end()) return home;
      const WorkerPtr next = inner_->pick(usable, hint);
      known->second->worker = next;
      return next;
    }
    const WorkerPtr first = inner_->pick(usable, hint);
    order_.push_front({hint.session, first});
    index_[hint.session] = order_.begin();
    if (order_.size() > capacity_) {
      index_.erase(order_.back().session);
      order_.pop_back();
    }
    return first;
  }

 private:
  struct Session {
    std::string session;
    std::weak_ptr<Worker> worker;
  };
  std::unique_ptr<Policy> inner_;
  const size_t capacity_;
  std::mutex mutex_;
  std::list<Session> order_;  // last used first
  std::unordered_map<std::string, std::list<Session>::iterator> index_;
};

}  // namespace

std::unique_ptr<Policy> make_session_sticky(std::unique_ptr<Policy> inner, size_t capacity) {
  return std::make_unique<SessionSticky>(std::move(inner), capacity);
}

}  // namespace tritonforge::router
