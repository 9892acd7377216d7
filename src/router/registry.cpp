#include "router/registry.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "net/wire.h"

namespace tritonforge::router {
namespace {

std::string normal(const std::string& url) {
  const net::Url parsed = net::parse_url(url.find("://") == std::string::npos ? "http://" + url : url);
  if (parsed.target != "/") fail(ErrorKind::kUsage, "'{}': a worker's URL has no path", url);
  return "http://" + parsed.authority;
}

bool contains(const std::vector<WorkerPtr>& workers, const WorkerPtr& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

}  // namespace

WorkerPtr Registry::add(const std::string& url) {
  const std::string name = normal(url);
  const std::unique_lock lock(mutex_);
  for (const auto& worker : workers_) {
    if (worker->url() == name) return worker;
  }
  workers_.push_back(std::make_shared<Worker>(name, failures_until_red_));
  return workers_.back();
}

void Registry::remove(const std::string& url) {
  const std::string name = normal(url);
  const std::unique_lock lock(mutex_);
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& worker) { return worker->url() == name; });
  if (found == workers_.end()) {
    std::vector<std::string> known;
    for (const auto& worker : workers_) known.push_back(worker->url());
    fail(ErrorKind::kNotFound, "no worker {}{}", name, nearest_hint(name, known));
  }
  workers_.erase(found);
}

std::vector<WorkerPtr> Registry::all() const {
  const std::shared_lock lock(mutex_);
  return workers_;
}

std::vector<WorkerPtr> Registry::usable(const std::vector<WorkerPtr>& except) const {
  std::vector<WorkerPtr> green, yellow;
  for (const auto& worker : all()) {
    if (contains(except, worker)) continue;
    const WorkerState state = worker->state();
    if (state == WorkerState::kGreen) green.push_back(worker);
    if (state == WorkerState::kYellow) yellow.push_back(worker);
  }
  return green.empty() ? yellow : green;
}

}  // namespace tritonforge::router
