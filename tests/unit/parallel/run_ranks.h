#pragma once
// Ranks as threads of one process, for tests.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
#include "parallel/world.h"

namespace tritonforge::parallel {

// What the watches said, by rank.
class Failures {
 public:
  void add(const std::string& why) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(why);
    changed_.notify_all();
  }
  // Once there are so many.
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return texts_.size() >= count; });
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

// work(world) on a thread a rank; rethrows the first exception. The watches' words go to `failures`, where the test
// expects some.
inline void run_ranks(
    const ParallelDims& dims, const std::function<void(World&)>& work, Failures* failures = nullptr,
    WorldOptions options = {},
    const std::function<at::Device(int64_t rank)>& device = [](int64_t) { return at::kCPU; }) {
  // torch records the collectives of all of a process's Gloo groups in one place (its FlightRecorder, read once from
  // this variable), and adds a group to it before it takes the lock: ranks that are threads crash there now and then.
  [[maybe_unused]] static const int unrecorded = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  options.rendezvous = "127.0.0.1:" + std::to_string(free_port());
  std::vector<std::exception_ptr> errors(static_cast<size_t>(dims.world()));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < dims.world(); ++rank) {
    threads.emplace_back([&, rank, mine = options]() mutable {
      mine.rank = rank;
      try {
        World world(dims, mine, device(rank), [failures](const std::string& why) {
          if (failures != nullptr) failures->add(why);
          else ADD_FAILURE() << why;
        });
        work(world);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tritonforge::parallel
