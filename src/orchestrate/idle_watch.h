#pragma once
// How much of a step each group of a run stood idle: what it costs that they are apart, and what overlap gains.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/http.h"

namespace tritonforge::orchestrate {

struct IdleShares {  // 0 to 1; nothing: there is no such group, or it was not reached at both ends of the step
  std::optional<double> actor, rollout, eval;
};

class IdleWatch {
 public:
  // `evaluator` "": none.
  IdleWatch(std::vector<std::string> engines, std::string evaluator);
  // Of the time since the call before. The actor's is what its step's request did not take; an engine is busy within
  // its forward passes ("step_seconds" of GET /server_info), the evaluator as far as its workers are ("busy_seconds"
  // and "workers" of GET /health); a group's share is its processes' mean. A process that was started again in between
  // counts from its start.
  IdleShares step(double train_s);

 private:
  std::optional<double> busy_since(const std::string& url, const std::string& path, const char* seconds,
                                   const char* parts);
  std::vector<std::string> engines_;
  std::string evaluator_;
  net::HttpClient client_;
  std::map<std::string, double> counted_;  // by URL: its busy seconds at the call before
  Clock::time_point since_ = Clock::now();
};

}  // namespace tritonforge::orchestrate
