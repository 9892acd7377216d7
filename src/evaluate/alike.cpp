#include "evaluate/alike.h"

#include "base/checksum.h"
#include "evaluate/runner.h"

namespace tritonforge::evaluate {

std::string key_of(const EvaluationRequest& request, EvaluationMode mode) {
  return checksum(fmt::format("{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}", name_of(request.backend),
                              name_of(mode), fmt::join(names_of(request.targets), ","), request.problem_source,
                              request.candidate, request.seed, request.fresh_seeds, request.num_correct_trials,
                              request.measure_performance ? request.num_perf_trials : -1, request.timeout_s));
}

Alike::Place::Place(Alike& all, const std::string& key, const Client& client) : all_(all), key_(key) {
  std::unique_lock lock(all_.mutex_);
  while (true) {
    auto& first = all_.under_way_[key_];
    if (!first) {
      own_ = first = std::make_shared<UnderWay>();
      return;
    }
    const auto other = first;
    ++all_.waiting_;
    const bool ended = all_.ended_.wait_until(lock, client.left, client.deadline.at(), [&] { return other->ended; });
    --all_.waiting_;
    check_waited_for(client.left);
    if (!ended) fail(ErrorKind::kTimeout, "evaluator: an equal evaluation has not ended in time");
    if (other->verdict) {
      known_ = other->verdict;
      return;
    }
  }
}

Alike::Place::~Place() {
  if (!own_) return;
  {
    const std::lock_guard lock(all_.mutex_);
    own_->ended = true;
    all_.under_way_.erase(key_);
  }
  all_.ended_.notify_all();
}

void Alike::Place::tell(const Verdict& verdict) {
  const std::lock_guard lock(all_.mutex_);
  own_->verdict = verdict;
}

int Alike::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

}  // namespace tritonforge::evaluate
