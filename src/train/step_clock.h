#pragma once
// Where a step is and how long its parts take, on the device, without waiting for it: a GPU is marked by events, and
// profilers show the host's side as ranges.
#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contract/step.h"
#include "kernels/gpu/handles.h"

namespace tritonforge::train {

using PartSeconds = std::array<double, kPartFigures.size()>;

class StepClock {
 public:
  explicit StepClock(at::Device device) : device_(device) {}

  // The device begins `part` when it is done with what was queued until now. `detail`: of what, for standing().
  void begin(StepPart part, std::string detail = "");
  // Ends the step, after the device did. Seconds of each part.
  PartSeconds end();
  void abandon();  // the step failed

  // From any thread: the part that the device is at, and for how long calls of this have seen nothing move on. nullopt
  // where no step is under way.
  struct Standing {
    std::string part;  // "backward of micro-batch 2 of 3"
    double seconds = 0;
  };
  std::optional<Standing> standing();

 private:
  struct Mark {
    StepPart part;
    std::string detail;
    Clock::time_point host;             // when the host came here
    std::unique_ptr<c10::Event> event;  // when a GPU does
  };
  void mark(StepPart part, std::string detail);
  size_t current() const;  // of marks_: where the device is

  const at::Device device_;
  std::optional<tritonforge::gpu::GpuRange> range_;

  std::mutex mutex_;  // guards what follows
  std::vector<Mark> marks_;
  uint64_t ended_ = 0;  // steps
  struct Seen {
    uint64_t ended;
    size_t mark;
    Clock::time_point at;
  };
  std::optional<Seen> seen_;
};

}  // namespace tritonforge::train
