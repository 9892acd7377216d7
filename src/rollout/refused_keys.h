#pragma once
// Servers that refuse their key (401). That is the operator's to mend and no sample's fault, so that nothing fails and
// no patience is taken: of the calls to such a server one asks again now and then, and the others wait until it is
// answered. Thread-safe.
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>

#include "base/clock.h"

namespace tritonforge::rollout {

class RefusedKeys {
 public:
  explicit RefusedKeys(double pause_s) : pause_(pause_s) {}
  // Before a request to `url`: comes back at once or, where its key is refused, when it is this call's turn to ask
  // again. False: stopped while waiting.
  bool enter(const std::string& url, std::stop_token stop);
  void refused(const std::string& url, const std::string& line);  // `line` says so, in the log too
  void taken(const std::string& url);
  std::string line() const;  // of one of them; "" where none refuses

 private:
  struct Refusal {
    std::string line;
    Clock::time_point again;
  };
  const std::chrono::duration<double> pause_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Refusal> refusals_;  // by URL
};

}  // namespace tritonforge::rollout
