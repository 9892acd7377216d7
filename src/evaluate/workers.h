#pragma once
// The evaluations under way: at most `workers` at once, at most `max_queue` more waiting. Thread-safe.
#include <condition_variable>
#include <mutex>

#include "evaluate/client.h"

namespace tritonforge::evaluate {

class Workers {
 public:
  Workers(int workers, int max_queue) : workers_(workers), max_queue_(max_queue) {}

  // One worker's place; given back at the end.
  class Place {
   public:
    // Waits until the client's deadline. Throws kUnavailable (queue full), kTimeout (none was free by then, or the
    // client left).
    Place(Workers& workers, const Client& client);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Workers& workers_;
  };

  struct Use {
    int busy, waiting;
    double busy_seconds;  // of all workers together, until now
  };
  Use use();

 private:
  void count();  // with the mutex held: the time until now counts for those that are busy

  const int workers_, max_queue_;
  std::mutex mutex_;
  std::condition_variable_any freed_;
  int busy_ = 0, waiting_ = 0;
  double busy_seconds_ = 0;  // until counted_
  Clock::time_point counted_ = Clock::now();
};

}  // namespace tritonforge::evaluate
