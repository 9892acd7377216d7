#pragma once
// Where plans are replayed: the CPU, a GPU, or test equipment that dies like one. What runs a job asks it for a process
// P; whoever doubts it has it probed.
#include <cstdint>
#include <string>

#include "evaluate/child_pool.h"
#include "evaluate/lowering.h"

namespace tritonforge::evaluate {

// A process P was lost under a job: by the device, or by what the job had it run. A probe tells (device_pool.h).
struct DeviceFault {
  std::string text;
  Fault fault = Fault::kCrashed;  // what it is of a candidate's that is to blame: that, or kTimeout
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string uuid() const = 0;  // "cpu", "GPU-..."
  virtual std::string name() const = 0;  // what a verdict says
  // Of the machine code that its processes P run.
  virtual std::string target() const = 0;
  // What a job's kernels must compile for beside that and what its request names.
  virtual std::vector<Target> also_compiled_for() const { return {}; }
  // Its processes P load machine code by the driver, and have a clock; null: they run Triton IR, or the CPU's code.
  virtual class GpuReplayers* gpu() { return nullptr; }
  // A process P that gives no answer in time may be its fault, too; on a CPU it is the plan's.
  virtual bool may_hang() const = 0;
  virtual ChildPool& replayers() = 0;
  // Those in which no candidate's kernel ever ran: what they make of a problem's own plans is believed.
  virtual ChildPool& references() = 0;
};

// A process P's answer. Throws DeviceFault where there is none; `who` begins what that says.
Frame ask_replayer(Child& replayer, const std::string& who, const Json& request,
                   const std::vector<std::span<const std::byte>>& payload, Deadline deadline, size_t most_bytes);

// Has a kernel whose result is known replayed by a process P of the device. Empty where every element is right, else
// what came instead. Throws kUnavailable where the kernel could not be compiled or no process made: that is not
// the device's fault.
std::string probe_kernel();  // its Triton IR
std::string probe(Device& device, LoweringPool& lowering, Deadline deadline);

// The CPU; with `faults` as test equipment.
struct EmulatedFaults {
  double part = 0;    // of the plans that its processes P are handed: they die under them, or hang
  uint64_t seed = 0;  // of which ones
};
inline constexpr int kPlansPerReplayer = 32;  // so that what one leaves behind stays bounded
class CpuDevice : public Device {
 public:
  CpuDevice(Children& children, const ChildLimits& limits);
  // An AMD GPU as far as one can be shown without: kernels must compile for gfx942, processes P are ended by memory
  // faults (SIGSEGV), by the runtime (SIGABRT), or hang. What a P that lives replays is right: it is the CPU's.
  CpuDevice(Children& children, const ChildLimits& limits, int index, const EmulatedFaults& faults);
  std::string uuid() const override { return uuid_; }
  std::string name() const override { return emulated_ ? "emulated gfx942" : "cpu"; }
  std::string target() const override { return std::string(kThisCpu); }
  std::vector<Target> also_compiled_for() const override;
  bool may_hang() const override { return emulated_; }
  ChildPool& replayers() override { return pool_; }
  ChildPool& references() override { return references_; }

 private:
  std::string uuid_;
  bool emulated_ = false;
  ChildPool pool_, references_;
};

}  // namespace tritonforge::evaluate
