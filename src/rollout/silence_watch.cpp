#include "rollout/silence_watch.h"

#include <fmt/format.h>

#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include "net/retry.h"
#include "net/wire.h"

namespace tritonforge::rollout {
namespace {

constexpr int kNotImplemented = 501;
constexpr uint64_t kLongestReply = uint64_t{1} << 20;  // of a page that says how a server does

// "": a sign of life.
std::string failure_of(const std::string& health, const Result<net::Response>& reply) {
  if (!reply.ok()) return reply.error().what();
  if (reply->status < 500 || reply->status == kNotImplemented) return "";
  return fmt::format("GET {}: {}: {}", health, reply->status, net::said_by(*reply));
}

}  // namespace

SilenceWatch::Wait::Wait(SilenceWatch& watch, std::string asked, const std::string& health,
                         std::shared_ptr<net::AsyncCall> call)
    : watch_(watch),
      asked_(std::move(asked)),
      health_(watch.options_.silence_s > 0 ? health : ""),
      call_(std::move(call)) {
  if (health_.empty()) return;
  const std::lock_guard lock(watch_.mutex_);
  watch_.servers_[health_].waits.insert(this);
  if (!watch_.thread_.joinable())
    watch_.thread_ = std::jthread([&watch](const std::stop_token& stop) { watch.loop(stop); });
  watch_.changed_.notify_all();
}

SilenceWatch::Wait::~Wait() {
  if (health_.empty()) return;
  const std::lock_guard lock(watch_.mutex_);
  const auto server = watch_.servers_.find(health_);
  server->second.waits.erase(this);
  if (server->second.waits.empty()) watch_.servers_.erase(server);
}

void SilenceWatch::Wait::answered() {
  if (!health_.empty()) watch_.hear(health_, "");
}

void SilenceWatch::loop(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !servers_.empty(); })) return;
    }
    if (!net::pause(options_.interval_s, stop)) return;  // what is answered within one costs no question
    ask_all(stop);
  }
}

void SilenceWatch::ask_all(const std::stop_token& stop) {
  std::vector<std::string> healths;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [health, server] : servers_) healths.push_back(health);
  }
  const auto over = std::make_shared<std::latch>(std::ssize(healths));
  std::vector<std::shared_ptr<net::AsyncCall>> calls;
  for (const std::string& health : healths) {
    net::AsyncRequest request{.url = health, .longest_reply = kLongestReply};
    request.timeout_s = request.connect_timeout_s = options_.timeout_s;
    const auto heard = [this, health, over](const Result<net::Response>& reply) {
      hear(health, failure_of(health, reply));
      over->count_down();
    };
    calls.push_back(client_.send(std::move(request), net::whole_reply(heard)));
  }
  const std::stop_callback cancel(stop, [&calls] {
    for (const auto& call : calls) call->cancel();
  });
  over->wait();
}

void SilenceWatch::hear(const std::string& health, const std::string& failure) {
  const std::lock_guard lock(mutex_);
  const auto found = servers_.find(health);
  if (found == servers_.end()) return;
  Server& server = found->second;
  if (failure.empty()) return server.silent_since.reset();
  if (!server.silent_since) server.silent_since = Clock::now();
  const double silent_s = seconds_since(*server.silent_since);
  if (silent_s < options_.silence_s) return;
  for (Wait* wait : server.waits) {
    wait->call_->cancel(Error(ErrorKind::kUnavailable,
                              fmt::format("{}: it hangs: health checks have failed for {:.0f} s, and nothing came of "
                                          "what it was asked; {}",
                                          wait->asked_, silent_s, failure)));
  }
}

}  // namespace tritonforge::rollout
