#pragma once
// The problems under evaluation: what their references gave, shared by all candidates of a problem, and in live mode
// the process that gave it, kept for timing (a CUDA context of its own for each candidate would cost more than the
// timing).
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <semaphore>

#include "evaluate/cache.h"
#include "evaluate/reference.h"
#include "evaluate/timing.h"

namespace tritonforge::evaluate {

// torch.compile's version of a problem on a device, timed in turns with eager: what both take no candidate changes.
struct CompiledBaseline {
  std::string unavailable;  // why there is none
  Timing timing;            // of its calls
  Interval eager_over_it;   // of the median of pairs: above 1 where it is faster than eager
  size_t pairs = 0;
  // Why there is none may pass: the device was full, or its process did not end in time.
  bool may_pass = false;
};

class ReferenceCache {
 public:
  // data_bytes: of inputs and expected outputs. processes: kept beyond the call that started them, the latest ones.
  // compiling: problems whose torch.compile's versions are made and timed at once; each takes a core for seconds.
  ReferenceCache(Children& children, size_t data_bytes, size_t processes, size_t compiling = 1)
      : children_(children),
        data_(data_bytes),
        processes_(processes),
        compiled_(kMostBaselines),
        compiling_(static_cast<ptrdiff_t>(compiling)) {}

  // Made by the first that asks; the others wait for it. Throws ProblemFault, kTimeout (another one's took too long),
  // kUnavailable.
  std::shared_ptr<const ReferenceData> data(const std::string& key, const ReferenceSpec& spec,
                                            const ChildLimits& limits, Deadline deadline);

  // Calls `use` with the problem's process, one caller at a time; where none is kept, or it died, a fresh one that has
  // built the module. `use` says whether the process is fit to be used again. Throws as data.
  void with_process(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits, Deadline deadline,
                    const std::function<bool(Child&)>& use);

  // What is known of the problem, else what `measure` finds with its process, which then ends; the others wait for it.
  // What may pass, as a TimingFault of `measure` does, is asked again after 1 minute, then 2, 4, ... Throws as
  // with_process.
  CompiledBaseline compiled(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits,
                            Deadline deadline, const std::function<CompiledBaseline(Child&)>& measure);

  // Ahead of compiled(), whose process it leaves behind: calls `compile` where that has not been asked yet. Throws as
  // with_process.
  void compile_ahead(const std::string& key, const ReferenceSpec& spec, const ChildLimits& limits, Deadline deadline,
                     const std::function<void(Child&)>& compile);

  size_t hits() const { return data_.hits(); }
  size_t asked() const { return asked_; }  // problems' own processes, for what their references gave
  size_t processes() const;                // kept at this moment

 private:
  struct Problem {
    std::timed_mutex turn;
    std::unique_ptr<Child> process;  // guarded by turn
  };
  static constexpr size_t kMostBaselines = 65536;
  struct KnownBaseline {
    CompiledBaseline baseline;
    int tries = 0;
    Clock::time_point again = Clock::time_point::max();
  };
  struct Place {
    explicit Place(std::counting_semaphore<>& places) : of(places) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { of.release(); }
    std::counting_semaphore<>& of;
  };
  // Among those that compile. Throws kTimeout.
  Place place_to_compile(Deadline deadline);
  std::shared_ptr<Problem> problem_of(const std::string& key);
  std::unique_ptr<Child> process_of(Problem& problem, const ReferenceSpec& spec, const ChildLimits& limits,
                                    Deadline deadline);
  void keep(const std::shared_ptr<Problem>& problem);

  Children& children_;
  std::atomic<size_t> asked_ = 0;
  LruCache<std::shared_ptr<const ReferenceData>> data_;
  const size_t processes_;
  LruCache<KnownBaseline> compiled_;
  std::counting_semaphore<> compiling_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Problem>> problems_;  // in use or kept
  std::list<std::shared_ptr<Problem>> kept_;                // latest use first
};

}  // namespace tritonforge::evaluate
