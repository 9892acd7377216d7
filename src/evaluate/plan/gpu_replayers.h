#pragma once
// The GPU's replayers: processes P with a context of their own, made before they are needed and used for many plans,
// since a context costs more than a plan. Only they and the problem's own process have the GPU; the candidate's has
// none.
#include <optional>
#include <string>

#include "base/device_lock.h"
#include "evaluate/device.h"
#include "evaluate/measuring_turns.h"
#include "evaluate/options.h"
#include "evaluate/plan/device_memory.h"

namespace tritonforge::evaluate {

struct GpuDevice {
  std::string name, uuid, target;  // "sm_90"
  int multiprocessors = 0;
  double l2 = 0, memory = 0, bytes_per_s = 0, clock_hz = 0;
};

class GpuReplayers : public Device {
 public:
  // Starts the first one. `granted`: the UUID of the GPU, empty where the environment shows one alone. Throws kMachine
  // where it gets no context.
  GpuReplayers(Children& children, const EvaluatorOptions& options, const std::string& granted);
  std::string uuid() const override { return device_.uuid; }
  std::string name() const override { return device_.name; }
  std::string target() const override { return device_.target; }
  GpuReplayers* gpu() override { return this; }
  bool may_hang() const override { return true; }
  // Its take throws DeviceFault where a further one gets no context.
  ChildPool& replayers() override { return pool_; }
  ChildPool& references() override { return references_; }
  const std::string& granted() const { return granted_; }
  const GpuDevice& device() const { return device_; }
  // Held while something is run that is not timed.
  DeviceLock lock() const { return DeviceLock(device_.uuid); }
  // What large problems take of it.
  DeviceMemory& memory() { return *memory_; }
  // The device alone, to time something on it.
  MeasuringTurns& measuring() { return *measuring_; }

 private:
  void open(Child& child, Deadline deadline);
  ChildPool pool(Children& children, const EvaluatorOptions& options);

  const std::string granted_;
  GpuDevice device_;  // of the first one
  ChildPool pool_, references_;
  std::optional<MeasuringTurns> measuring_;
  std::optional<DeviceMemory> memory_;
};

}  // namespace tritonforge::evaluate
