#pragma once
// NVIDIA's ncu over a process P: it starts one of its own (worker/.../plan/counted.py), which replays a plan once.
// Nothing but the replayer runs there, and no code of the candidate's but its kernels, on the GPU. It is outside of the
// sandbox, where ncu has no sockets to reach its process by: hence only where an evaluator is asked for counters.
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/filesystem.h"
#include "base/json.h"
#include "evaluate/plan/counters.h"

namespace tritonforge::evaluate {

class Profiler {
 public:
  struct Places {
    fs::path python, worker, sandbox_library;  // as of ZygoteOptions
  };
  // `ncu`: empty for that of PATH, CUDA_HOME/bin or /usr/local/cuda/bin. Throws kNotFound where there is none.
  Profiler(const std::string& ncu, Places places);

  struct Frame {
    Json header;
    std::vector<std::span<const std::byte>> payload;
  };
  // All that it takes to count the kernels of a plan, in a folder: nothing of who judged it has to be there any longer.
  struct Job {
    std::unique_ptr<TemporaryFolder> folder;
    std::string kernels, gpu;
    std::string unavailable;  // why they cannot be counted
  };
  // P will be sent `frames` (plan/process.cpp), and each must be answered. `kernels`: the functions that count, others
  // run beside them. `gpu`: a UUID; empty: what this process's environment shows.
  static Job job(const std::vector<Frame>& frames, const std::vector<std::string>& kernels, const std::string& gpu);
  // Where `left` says so, ncu and all that it began are ended at once. Throws kUnavailable, and what check_waited_for
  // throws.
  Counted count(const Job& job, Deadline deadline, const std::stop_token& left) const;
  static constexpr double kMostSeconds = 120;

 private:
  std::vector<std::string> command(const Job& job, const fs::path& log) const;

  fs::path ncu_;
  Places places_;
};

}  // namespace tritonforge::evaluate
