#pragma once
// Launches of a plan through OpenCL on the CPU (PoCL): programs that the trusted side had compiled, as machine code of
// this process. Neither OpenCL's headers nor its library are needed to build.
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "evaluate/plan/launcher.h"

namespace tritonforge::evaluate {

struct OpenClParameter {
  enum class Kind { kGlobal, kLocal, kScalar } kind = Kind::kScalar;
  size_t bytes = 0;   // of a scalar
  bool real = false;  // a scalar that is a float
};

struct OpenClBinary {
  std::span<const std::byte> program;
  std::string entry;
  std::array<size_t, 3> local{1, 1, 1};  // work-items of a group
  std::vector<OpenClParameter> parameters;
};

// What worker/tritonforge_worker/languages/opencl.py says of a kernel.
OpenClBinary opencl_binary(const Json& described, std::span<const std::byte> program);

// One binary a kernel of the plan, in its order. Whose launches give what its kernels take (plan/arguments.h). Throws
// kUsage naming the kernel that PoCL refuses, kMachine where there is no PoCL.
std::unique_ptr<Launcher> make_opencl_launcher(const Plan& plan, const std::vector<OpenClBinary>& binaries);

}  // namespace tritonforge::evaluate
