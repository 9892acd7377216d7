#pragma once
// Ends what was asked of a server that hangs. One that is stopped, or whose computing is stuck, keeps its connections,
// so that nothing but the request's own time, often many minutes, would end it. The router does as much for its engines
// (router/health.h); this is for those who ask a server themselves.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "base/clock.h"
#include "net/async_client.h"

namespace tritonforge::rollout {

struct SilenceOptions {
  double silence_s = 60;                 // 0: nobody is asked, and nothing ends
  double interval_s = 5, timeout_s = 5;  // of the questions
};

// While requests wait at a server it is asked for its health every interval_s, once for all of them. Any answer says
// that it lives, also of one that has no such page, but 5xx (501 is of those who do not know GET). Thread-safe.
class SilenceWatch {
 public:
  // client: by which it asks; outlives it.
  SilenceWatch(net::AsyncClient& client, const SilenceOptions& options) : client_(client), options_(options) {}

  // A request that waits.
  class Wait {
   public:
    // `asked`: its URL, for the message. `health`: what the server is asked; "": this one is not watched. After nothing
    // but failed questions for silence_s `call` ends, kUnavailable and by the server's name.
    Wait(SilenceWatch& watch, std::string asked, const std::string& health, std::shared_ptr<net::AsyncCall> call);
    ~Wait();
    Wait(const Wait&) = delete;
    void answered();  // a sign of life, too

   private:
    friend class SilenceWatch;
    SilenceWatch& watch_;
    const std::string asked_, health_;
    const std::shared_ptr<net::AsyncCall> call_;
  };

 private:
  struct Server {
    std::set<Wait*> waits;
    std::optional<Clock::time_point> silent_since;  // the first question that failed since it was heard of
  };
  void loop(const std::stop_token& stop);
  void ask_all(const std::stop_token& stop);
  void hear(const std::string& health, const std::string& failure);  // "": a sign of life

  net::AsyncClient& client_;
  const SilenceOptions options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Server> servers_;  // by what is asked; those at which something waits
  std::jthread thread_;                    // from the first wait on; last, so that it ends before the rest
};

}  // namespace tritonforge::rollout
