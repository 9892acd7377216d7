#include "parallel/names.h"

#include <algorithm>

namespace tritonforge::parallel {
namespace {

net::Response done() { return net::Response::json(Json::object()); }

net::Response bytes_of(std::string bytes) { return {200, std::move(bytes), "application/octet-stream", {}}; }

net::Response not_there(const std::string& name) {
  return net::Response::error(Error(ErrorKind::kNotFound, fmt::format("nobody has put '{}' here yet", name)));
}

}  // namespace

Names::Names(net::HttpServer& http) {
  http.route("PUT", "/keys/{name}", [this](const net::Request& request) {
    put(request.parameters.at("name"), request.body);
    return done();
  });
  http.route_async("GET", "/keys/{name}", [this](const net::Request& request, net::ResponderPtr responder) {
    get(request, std::move(responder));
  });
  http.route("DELETE", "/keys/{name}", [this](const net::Request& request) {
    const std::lock_guard lock(mutex_);
    keys_.erase(request.parameters.at("name"));
    counters_.erase(request.parameters.at("name"));
    return done();
  });
  http.route("POST", "/counters/{name}", [this](const net::Request& request) {
    const std::lock_guard lock(mutex_);
    int64_t& value = counters_[request.parameters.at("name")];
    value += require<int64_t>(request.json(), "add", request.path);
    return net::Response::json({{"value", value}});
  });
  clock_ = std::thread([this] { end_waits(); });
}

Names::~Names() {
  stop();
  clock_.join();
}

void Names::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Names::put(const std::string& name, std::string bytes) {
  std::list<Waiting> told;
  {
    const std::lock_guard lock(mutex_);
    keys_[name] = bytes;
    for (auto one = waiting_.begin(); one != waiting_.end();) {
      const auto next = std::next(one);
      if (one->name == name) told.splice(told.end(), waiting_, one);
      one = next;
    }
  }
  for (const Waiting& one : told) one.responder->send(bytes_of(bytes));
}

void Names::get(const net::Request& request, net::ResponderPtr responder) {
  const std::string& name = request.parameters.at("name");
  const auto wait = request.query.find("wait_s");
  double wait_s = 0;
  if (wait != request.query.end()) wait_s = std::clamp(std::strtod(wait->second.c_str(), nullptr), 0.0, kLongestWait);
  std::unique_lock lock(mutex_);
  if (const auto found = keys_.find(name); found != keys_.end()) {
    const std::string bytes = found->second;
    lock.unlock();
    return responder->send(bytes_of(bytes));
  }
  if (wait_s == 0 || stopping_) {
    lock.unlock();
    return responder->send(not_there(name));
  }
  waiting_.push_back({name, Deadline::after(wait_s).at(), std::move(responder)});
  changed_.notify_all();
}

void Names::remove_all(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  const auto begins_so = [&](const auto& entry) { return entry.first.starts_with(prefix); };
  std::erase_if(keys_, begins_so);
  std::erase_if(counters_, begins_so);
}

void Names::end_waits() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::list<Waiting> over;
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (auto one = waiting_.begin(); one != waiting_.end();) {
      const auto after = std::next(one);
      if (stopping_ || one->until <= now) over.splice(over.end(), waiting_, one);
      else next = std::min(next, one->until);
      one = after;
    }
    if (!over.empty()) {
      lock.unlock();
      for (const Waiting& one : over) one.responder->send(not_there(one.name));
      lock.lock();
      continue;
    }
    if (stopping_) return;
    if (next == Clock::time_point::max()) changed_.wait(lock);
    else changed_.wait_until(lock, next);
  }
}

}  // namespace tritonforge::parallel
