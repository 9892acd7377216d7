#pragma once
// Problems whose reference is made before a candidate asks for it: while the first answer is still being generated.
// Thread-safe.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "evaluate/client.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

class Preparing {
 public:
  using Prepare = std::function<void(const EvaluationRequest& request, const Client& client)>;
  // At most `threads` at once, at most `most` more waiting. What `prepare` throws is told in the log alone: the first
  // evaluation meets the same and says it.
  Preparing(int threads, size_t most, Prepare prepare);
  // False: as many wait, and it is left to the first evaluation. The request has no candidate.
  bool ask(EvaluationRequest request);

 private:
  void serve(std::stop_token stop);

  const size_t most_;
  const Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::deque<EvaluationRequest> waiting_;
  std::vector<std::jthread> threads_;  // last: they end first
};

}  // namespace tritonforge::evaluate
