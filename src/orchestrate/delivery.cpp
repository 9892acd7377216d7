#include "orchestrate/delivery.h"

#include "base/log.h"

namespace tritonforge::orchestrate {

Delivery::Delivery(std::string engine, Send send, Ended ended)
    : engine_(std::move(engine)), send_(std::move(send)), ended_(std::move(ended)), thread_([this] { run(); }) {}

Delivery::~Delivery() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Delivery::give(const PublishedWeights& weights) {
  {
    const std::lock_guard lock(mutex_);
    next_ = weights;
    outcome_.reset();
  }
  changed_.notify_all();
}

std::optional<Result<InstalledWeights>> Delivery::outcome(int64_t version) const {
  const std::lock_guard lock(mutex_);
  return version == version_ ? outcome_ : std::nullopt;
}

void Delivery::run() {
  const auto given_up = [this] {
    const std::lock_guard lock(mutex_);
    return over_ || next_.has_value();
  };
  while (true) {
    PublishedWeights weights;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || next_; });
      if (over_) return;
      weights = *std::exchange(next_, std::nullopt);
    }
    const auto outcome = [&]() -> Result<InstalledWeights> {
      try {
        InstalledWeights installed = send_(weights, given_up);
        check_installed(installed, weights);
        return installed;
      } catch (const Error& error) {
        return error;
      } catch (const std::exception& error) {
        return Error(ErrorKind::kInternal, fmt::format("{}: {}", engine_, error.what()));
      }
    }();
    {
      const std::lock_guard lock(mutex_);
      if (over_ || next_) continue;  // of weights that nobody asks for any more
      version_ = weights.version;
      outcome_ = outcome;
    }
    ended_(outcome);
  }
}

}  // namespace tritonforge::orchestrate
