#pragma once
// What the replayer needs of the CUDA driver, opened when it is first asked for: modules, launches and events in the
// context that libtorch has made current. Neither the toolkit's headers nor its libraries are needed to build.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tritonforge::evaluate {

// The driver's text for a status that is not success, and the call that had it.
[[noreturn]] void driver_failed(int status, const char* call);

// Of the device that is in use.
struct GpuProperties {
  std::string name, uuid;
  int major = 0, minor = 0, multiprocessors = 0;
  int threads = 0;         // of a multiprocessor
  int64_t shared = 0;      // bytes that one block may have
  int64_t l2 = 0;          // bytes
  int64_t memory = 0;      // bytes of all of it
  double bytes_per_s = 0;  // of its memory, by clock and width of the bus
  double clock_hz = 0;     // the highest of the multiprocessors
};
GpuProperties gpu_properties();

// How the compiler made a kernel (lowering.h).
struct KernelShape {
  std::string entry;
  int warps = 4, ctas = 1;
  int64_t shared = 0;  // dynamic, bytes a block
  bool cooperative = false, dependent = false;
  int64_t scratch = 0;                // bytes of global memory for each block
  std::array<int, 3> block{0, 1, 1};  // threads; 0: the warps in one row
  size_t own_parameters = 2;          // of Triton's, after the launch's arguments: scratch pointers
  std::array<unsigned, 3> threads() const {
    if (block[0] == 0) return {static_cast<unsigned>(32 * warps), 1, 1};
    return {static_cast<unsigned>(block[0]), static_cast<unsigned>(block[1]), static_cast<unsigned>(block[2])};
  }
};

// What the driver says of a loaded kernel.
struct KernelResources {
  int registers = 0, spilled_bytes = 0;
  int64_t shared = 0;    // static and dynamic
  double occupancy = 0;  // resident warps over those that a multiprocessor has room for
};

// Whether a cubin (ELF) has global memory of its own: __device__ and __constant__ variables, format strings. What a
// kernel leaves there stays for as long as it is loaded.
bool keeps_memory(std::span<const std::byte> cubin);

// A loaded cubin. Unloaded with this object.
class GpuKernel {
 public:
  // `cubin` outlives this object. Throws kUsage where the driver refuses the binary.
  GpuKernel(std::span<const std::byte> cubin, KernelShape shape);
  ~GpuKernel();
  GpuKernel(const GpuKernel&) = delete;
  GpuKernel& operator=(const GpuKernel&) = delete;
  const KernelShape& shape() const { return shape_; }
  // Bytes of each parameter; the last ones are the language's own.
  const std::vector<size_t>& parameters() const { return parameters_; }
  KernelResources resources() const;
  // Its own global memory is as it was at first; where it has any, what was queued is waited for.
  void renew();
  // On libtorch's default stream; `arguments` point to parameters().size() values.
  void launch(const std::array<int64_t, 3>& grid, std::vector<void*>& arguments) const;

 private:
  void load();

  std::span<const std::byte> cubin_;
  KernelShape shape_;
  const bool keeps_memory_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  std::vector<size_t> parameters_;
};

// A mark on the default stream.
class GpuEvent {
 public:
  GpuEvent();
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record();
  bool reached() const;
  // Throws ir::Fault where it is not reached by then, as where a kernel before it fails.
  void wait(Deadline deadline) const;
  double ms_since(const GpuEvent& start) const;  // both reached

 private:
  void* event_ = nullptr;
};

// Waits for everything that was queued. Throws ir::Fault with the driver's text where a kernel failed: the context is
// lost then.
void gpu_synchronize();
// Lines of the L2 that a kernel asked to keep (eviction policy evict_last) are as others from here on: writing more
// than the L2 holds evicts them, too. Nothing where the device keeps none.
void gpu_forget_persisting();

}  // namespace tritonforge::evaluate
