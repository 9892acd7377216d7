#include "net/lookup.h"

#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace tritonforge::net {
namespace {

error_code error_of_lookup(int error) {
  switch (error) {
    case 0: return {};
    case EAI_SYSTEM: return {errno, boost::system::system_category()};
    case EAI_AGAIN: return asio::error::host_not_found_try_again;
    case EAI_MEMORY: return asio::error::no_memory;
    case EAI_FAIL: return asio::error::no_recovery;
    default: return asio::error::host_not_found;
  }
}

}  // namespace

void Lookup::begin(const std::string& host) {
  try {
    std::thread([self = shared_from_this(), host] { self->run(host); }).detach();
  } catch (const std::system_error& error) {
    fail(ErrorKind::kUnavailable, "looking up {}: no thread for it: {}", host, error.code().message());
  }
}

void Lookup::run(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const error_code error = error_of_lookup(::getaddrinfo(host.c_str(), nullptr, &hints, &found));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  const std::lock_guard lock(mutex_);
  over_ = true;
  error_ = error;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    tcp::endpoint endpoint;
    if (one->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), one->ai_addr, one->ai_addrlen);
    addresses_.push_back(endpoint.address());
  }
  changed_.notify_all();
  // Their loops are there as long as they wait.
  for (const auto& waiter : waiters_) asio::post(waiter->executor, [waiter] { waiter->woken.notify(); });
}

bool Lookup::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

bool Lookup::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.at(), [this] { return over_; });
}

void Lookup::add(std::shared_ptr<Waiter> waiter) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back(std::move(waiter));
}

void Lookup::remove(const std::shared_ptr<Waiter>& waiter) {
  const std::lock_guard lock(mutex_);
  std::erase(waiters_, waiter);
}

std::shared_ptr<Lookup> Lookups::of(const std::string& host) {
  std::erase_if(under_way_, [](const auto& one) { return one.second->is_over(); });
  if (const auto known = under_way_.find(host); known != under_way_.end()) return known->second;
  const auto lookup = std::make_shared<Lookup>();
  lookup->begin(host);
  return under_way_.emplace(host, lookup).first->second;
}

}  // namespace tritonforge::net
