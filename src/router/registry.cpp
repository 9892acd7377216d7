#include "router/registry.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/url.h"

namespace tritonforge::router {
namespace {

bool contains(const std::vector<WorkerPtr>& workers, const WorkerPtr& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

}  // namespace

WorkerPtr Registry::add(const std::string& url) {
  const std::string name = server_url(url);
  const std::unique_lock lock(mutex_);
  for (const auto& worker : workers_) {
    if (worker->url() != name) continue;
    worker->put_in_service();
    return worker;
  }
  workers_.push_back(std::make_shared<Worker>(name, breaker_));
  return workers_.back();
}

WorkerPtr Registry::find(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& worker : workers_) {
    if (worker->url() == name) return worker;
    known.push_back(worker->url());
  }
  fail(ErrorKind::kNotFound, "no worker {}{}", name, nearest_hint(name, known));
}

void Registry::remove(const std::string& url) {
  const std::string name = server_url(url);
  const std::unique_lock lock(mutex_);
  std::erase(workers_, find(name));
}

WorkerPtr Registry::drain(const std::string& url) {
  const std::string name = server_url(url);
  const std::shared_lock lock(mutex_);
  WorkerPtr worker = find(name);
  worker->drain();
  return worker;
}

std::vector<WorkerPtr> Registry::all() const {
  const std::shared_lock lock(mutex_);
  return workers_;
}

WorkerPtr Registry::take_probe(const std::vector<WorkerPtr>& except) const {
  const std::shared_lock lock(mutex_);
  for (const auto& worker : workers_) {
    if (worker->state() == WorkerState::kRed && !contains(except, worker) && worker->take_probe()) return worker;
  }
  return nullptr;
}

std::vector<WorkerPtr> Registry::usable(const std::vector<WorkerPtr>& except) const {
  std::vector<WorkerPtr> green, yellow;
  const std::shared_lock lock(mutex_);
  green.reserve(workers_.size());
  for (const auto& worker : workers_) {
    if (contains(except, worker) || worker->draining()) continue;
    const WorkerState state = worker->state();
    if (state == WorkerState::kGreen) green.push_back(worker);
    if (state == WorkerState::kYellow) yellow.push_back(worker);
  }
  return green.empty() ? yellow : green;
}

}  // namespace tritonforge::router
