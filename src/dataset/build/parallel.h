#pragma once
// Work on many things at once by threads that last as long as it does.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tritonforge::dataset {

// Calls work(0) ... work(count - 1), on `threads` threads (0: one a core), and throws the first exception that any of
// them threw, after all have ended.
template <typename Work>
void for_each(size_t count, int threads, Work&& work) {
  const size_t wanted = threads > 0 ? static_cast<size_t>(threads) : std::max(1u, std::thread::hardware_concurrency());
  std::atomic<size_t> next{0};
  std::exception_ptr first;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(wanted, count); ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tritonforge::dataset
