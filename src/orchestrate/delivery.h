#pragma once
// The weights on their way to one engine. An engine that is killed, hangs or is slow delays nobody: its own delivery
// goes on beside the others, and the newest weights replace those that it has not begun.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "contract/weights.h"

namespace tritonforge::orchestrate {

class Delivery {
 public:
  // Puts the weights on the engine; `given_up` says when nobody wants them there any more, and it may throw then.
  using Send = std::function<InstalledWeights(const PublishedWeights& weights, const std::function<bool()>& given_up)>;
  using Ended = std::function<void(const Result<InstalledWeights>& outcome)>;
  // `ended` is called after each one that came to an end, from the delivery's thread.
  Delivery(std::string engine, Send send, Ended ended);
  ~Delivery();  // gives up, and waits for the end of what is sent
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  const std::string& engine() const { return engine_; }
  void give(const PublishedWeights& weights);
  // How that of `version` ended; nothing while it is under way.
  std::optional<Result<InstalledWeights>> outcome(int64_t version) const;

 private:
  void run();
  const std::string engine_;
  const Send send_;
  const Ended ended_;
  mutable std::mutex mutex_;  // all below
  std::condition_variable changed_;
  std::optional<PublishedWeights> next_;  // not begun
  int64_t version_ = -1;                  // of `outcome_`
  std::optional<Result<InstalledWeights>> outcome_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tritonforge::orchestrate
