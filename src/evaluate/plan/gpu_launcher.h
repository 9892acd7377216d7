#pragma once
// Launches of a plan on a GPU: the cubins that the trusted side had compiled, on libtorch's default stream.
#include <map>
#include <memory>
#include <span>

#include "evaluate/plan/gpu_driver.h"
#include "evaluate/plan/launcher.h"

namespace tritonforge::evaluate {

struct GpuBinary {
  std::span<const std::byte> cubin;
  KernelShape shape;
};

class GpuLauncher : public Launcher {
 public:
  // One binary a kernel of the plan, in its order; empty: it is not launched. `target`: whose IR names the arguments.
  // Throws kUsage naming kernel and what does not fit.
  GpuLauncher(const Plan& plan, const std::vector<GpuBinary>& binaries, const std::string& target);
  ~GpuLauncher() override;
  at::Device device() const override { return {at::kCUDA, 0}; }
  void begin(const PassOptions& options) override;
  at::Tensor place(const at::Tensor& fresh, bool empty) override;
  void written(const at::Tensor&) override {}
  // In a guarded pass it waits for the kernel, and throws ir::Fault naming it where it fails, does not end, or wrote
  // beyond a buffer.
  void launch(const PlanStep& step, const std::vector<at::Tensor>& bound) override;
  LaunchReport end() override;
  const std::vector<std::unique_ptr<GpuKernel>>& kernels() const { return kernels_; }  // null without a binary

 private:
  void watch(const PlanStep& step, const std::vector<at::Tensor>& bound);

  struct Pass;
  const Plan& plan_;
  std::vector<std::unique_ptr<GpuKernel>> kernels_;
  std::vector<std::vector<std::string>> names_;  // of each kernel's arguments
  std::unique_ptr<Pass> pass_;
};

// Makes libtorch's context; the first call takes a quarter of a second. Throws kMachine.
void open_gpu();

}  // namespace tritonforge::evaluate
