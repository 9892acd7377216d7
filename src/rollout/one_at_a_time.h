#pragma once
// Work that is asked for from many threads and done by one of them at a time. Who asks while it is done does not wait:
// it is done once more, since what it looked at may have changed behind its look.
#include <atomic>
#include <cstdint>
#include <functional>

namespace tritonforge::rollout {

class OneAtATime {
 public:
  void run(const std::function<void()>& work) {  // which throws nothing
    if (asked_.fetch_add(1) > 0) return;         // who is at it goes on
    int64_t seen = 1;
    do {
      seen = asked_;
      work();
    } while (!asked_.compare_exchange_strong(seen, 0));
  }

 private:
  std::atomic<int64_t> asked_{0};  // since the last time that nobody was at it
};

}  // namespace tritonforge::rollout
