#include "evaluate/preparing.h"

#include <utility>

#include "base/log.h"

namespace tritonforge::evaluate {

Preparing::Preparing(int threads, size_t most, Prepare prepare) : most_(most), prepare_(std::move(prepare)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this](std::stop_token stop) { serve(std::move(stop)); });
}

bool Preparing::ask(EvaluationRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_) return false;
    waiting_.push_back(std::move(request));
  }
  asked_.notify_one();
  return true;
}

void Preparing::serve(std::stop_token stop) {
  for (;;) {
    EvaluationRequest request;
    {
      std::unique_lock lock(mutex_);
      if (!asked_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
      request = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (stop.stop_requested()) return;
    try {
      prepare_(request, Client(Deadline::after(request.timeout_s), stop));
    } catch (const Error& error) {
      log::debug("problem {} is not prepared: {}", request.problem_id, error.what());
    }
  }
}

}  // namespace tritonforge::evaluate
