#include "evaluate/plan/opencl_launcher.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/error.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/guard.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

// Numbers of CL/cl.h, which are the standard's.
constexpr int kSuccess = 0;
constexpr uint64_t kCpuDevice = 2, kReadWrite = 1, kUseHostPointer = 8;

struct Api {
  int (*platforms)(unsigned, void**, unsigned*);
  int (*devices)(void*, uint64_t, unsigned, void**, unsigned*);
  void* (*context)(const intptr_t*, unsigned, void**, void*, void*, int*);
  void* (*queue)(void*, void*, uint64_t, int*);
  void* (*program)(void*, unsigned, void**, const size_t*, const unsigned char**, int*, int*);
  int (*build)(void*, unsigned, void**, const char*, void*, void*);
  void* (*kernel)(void*, const char*, int*);
  int (*argument)(void*, unsigned, size_t, const void*);
  void* (*buffer)(void*, uint64_t, size_t, void*, int*);
  int (*release)(void*);
  int (*launch)(void*, void*, unsigned, const size_t*, const size_t*, const size_t*, unsigned, void*, void*);
  int (*finish)(void*);
};

Api opened() {
  // One thread, this one: the sandbox has no other. What was compiled serves every size of a group, since another form
  // would take a linker. The machine is told, since /sys, where it would be looked up, is not there.
  ::setenv("POCL_DEVICES", "basic", 1);
  ::setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 1);
  ::setenv("HWLOC_SYNTHETIC", "NUMANode:1(memory=4294967296) core:1 pu:1", 1);
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(ErrorKind::kMachine, "no OpenCL here: libOpenCL.so.1 cannot be loaded");
  Api found{};
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) fail(ErrorKind::kMachine, "libOpenCL.so.1 lacks {}", name);
  };
  take(found.platforms, "clGetPlatformIDs");
  take(found.devices, "clGetDeviceIDs");
  take(found.context, "clCreateContext");
  take(found.queue, "clCreateCommandQueue");
  take(found.program, "clCreateProgramWithBinary");
  take(found.build, "clBuildProgram");
  take(found.kernel, "clCreateKernel");
  take(found.argument, "clSetKernelArg");
  take(found.buffer, "clCreateBuffer");
  take(found.release, "clReleaseMemObject");
  take(found.launch, "clEnqueueNDRangeKernel");
  take(found.finish, "clFinish");
  return found;
}

// Device, context and queue live as long as the process, which serves one plan.
struct Device {
  Api api = opened();
  void *id = nullptr, *context = nullptr, *queue = nullptr;

  Device() {
    void* platform = nullptr;
    unsigned count = 0;
    int status = api.platforms(1, &platform, &count);
    if (status == kSuccess && count > 0) status = api.devices(platform, kCpuDevice, 1, &id, &count);
    if (status == kSuccess && id != nullptr) context = api.context(nullptr, 1, &id, nullptr, nullptr, &status);
    if (status == kSuccess && context != nullptr) queue = api.queue(context, id, 0, &status);
    if (status != kSuccess || queue == nullptr)
      fail(ErrorKind::kMachine, "no OpenCL device of the CPU: error {}", status);
  }
};

struct Kernel {
  OpenClBinary binary;
  void* handle = nullptr;
};

class OpenClLauncher : public Launcher {
 public:
  OpenClLauncher(const Plan& plan, const std::vector<OpenClBinary>& binaries) : plan_(plan) {
    if (binaries.size() != plan.kernels.size())
      fail(ErrorKind::kUsage, "replay: {} programs for {} kernels", binaries.size(), plan.kernels.size());
    for (const OpenClBinary& binary : binaries) kernels_.push_back({binary, load(binary)});
  }

  at::Device device() const override { return at::kCPU; }

  void begin(const PassOptions& options) override {
    options_ = options;
    memory_ = GuardedMemory(options.order_seed);
    report_ = {};
  }

  at::Tensor place(const at::Tensor& fresh, bool empty) override {
    if (!options_.guard) return fresh;
    const at::Tensor placed = memory_.move(fresh, !empty);
    if (empty) poison(placed);
    return placed;
  }

  void written(const at::Tensor&) override {}

  void launch(const PlanStep& step, const std::vector<at::Tensor>& bound) override {
    const Kernel& kernel = kernels_[static_cast<size_t>(step.kernel)];
    std::array<size_t, 3> global;
    for (size_t d = 0; d < 3; ++d) global[d] = static_cast<size_t>(step.grid[d]) * kernel.binary.local[d];
    if (global[0] * global[1] * global[2] > 0) {
      std::vector<void*> buffers = bind(step, kernel, bound);
      check(device_.api.launch(device_.queue, kernel.handle, 3, nullptr, global.data(), kernel.binary.local.data(), 0,
                               nullptr, nullptr),
            step, "its launch");
      check(device_.api.finish(device_.queue), step, "its run");
      for (void* buffer : buffers) device_.api.release(buffer);
    }
    if (options_.guard) watch(step, bound);
  }

  LaunchReport end() override { return std::move(report_); }

 private:
  const std::string& name(const PlanStep& step) const { return plan_.kernels[static_cast<size_t>(step.kernel)].name; }

  void check(int status, const PlanStep& step, const char* what) const {
    if (status != kSuccess) throw ir::Fault(fmt::format("kernel {}: {}: OpenCL error {}", name(step), what, status));
  }

  void* load(const OpenClBinary& binary) {
    int status = kSuccess, of_binary = kSuccess;
    const size_t size = binary.program.size();
    const auto* data = reinterpret_cast<const unsigned char*>(binary.program.data());
    void* program = device_.api.program(device_.context, 1, &device_.id, &size, &data, &of_binary, &status);
    if (status == kSuccess) status = device_.api.build(program, 1, &device_.id, "", nullptr, nullptr);
    void* kernel = status == kSuccess ? device_.api.kernel(program, binary.entry.c_str(), &status) : nullptr;
    if (status != kSuccess) fail(ErrorKind::kUsage, "kernel {}: OpenCL error {}", binary.entry, status);
    return kernel;
  }

  // Tensors as buffers over their own memory, from where they begin; to be released.
  std::vector<void*> bind(const PlanStep& step, const Kernel& kernel, const std::vector<at::Tensor>& bound) {
    std::vector<void*> buffers;
    size_t next = 0;
    for (size_t k = 0; k < step.bindings.size(); ++k) {
      const PlanBinding& binding = step.bindings[k];
      const OpenClParameter& parameter = kernel.binary.parameters[k];
      const auto set = [&](size_t bytes, const void* value) {
        check(device_.api.argument(kernel.handle, static_cast<unsigned>(k), bytes, value), step, "an argument");
      };
      if (parameter.kind == OpenClParameter::Kind::kLocal) {
        if (binding.integer <= 0)
          throw ir::Fault(fmt::format("kernel {}: {} bytes of __local memory", name(step), binding.integer));
        set(static_cast<size_t>(binding.integer), nullptr);
      } else if (parameter.kind == OpenClParameter::Kind::kGlobal) {
        void* buffer = nullptr;
        if (binding.form == PlanBinding::Form::kTensor) {
          const at::Tensor& tensor = bound[next++];
          const auto offset = static_cast<size_t>(tensor.storage_offset()) * tensor.element_size();
          if (tensor.storage().nbytes() > offset) {
            int status = kSuccess;
            buffer = device_.api.buffer(device_.context, kReadWrite | kUseHostPointer,
                                        tensor.storage().nbytes() - offset, tensor.mutable_data_ptr(), &status);
            check(status, step, "a buffer");
            buffers.push_back(buffer);
          }
        }
        set(sizeof buffer, &buffer);
      } else {
        set_scalar(binding, parameter, set);
      }
    }
    return buffers;
  }

  // Little-endian, so that a narrow integer is the first bytes of a wide one.
  template <typename Set>
  static void set_scalar(const PlanBinding& binding, const OpenClParameter& parameter, Set set) {
    const bool integer = binding.form == PlanBinding::Form::kInteger;
    const double real = integer ? static_cast<double>(binding.integer) : binding.real;
    const auto narrow = static_cast<float>(real);
    const auto whole = integer ? binding.integer : static_cast<int64_t>(binding.real);
    if (!parameter.real) set(parameter.bytes, &whole);
    else if (parameter.bytes == sizeof narrow) set(sizeof narrow, &narrow);
    else set(sizeof real, &real);
  }

  void watch(const PlanStep& step, const std::vector<at::Tensor>& bound) {
    size_t next = 0;
    for (size_t k = 0; k < step.bindings.size(); ++k) {
      if (step.bindings[k].form == PlanBinding::Form::kTensor)
        memory_.name(bound[next++], fmt::format("argument {}", k));
    }
    if (const std::string damage = memory_.damage_text(); !damage.empty())
      throw ir::Fault(fmt::format("kernel {}: {}", name(step), damage));
  }

  const Plan& plan_;
  Device device_;
  std::vector<Kernel> kernels_;
  // Of a pass.
  PassOptions options_;
  GuardedMemory memory_;
  LaunchReport report_;
};

}  // namespace

OpenClBinary opencl_binary(const Json& described, std::span<const std::byte> program) {
  OpenClBinary binary{.program = program,
                      .entry = described.at("entry"),
                      .local = described.at("block").get<std::array<size_t, 3>>(),
                      .parameters = {}};
  for (const auto& item : described.at("parameters")) {
    const auto kind = item.at(0).get<std::string>();
    binary.parameters.push_back({.kind = kind == "global"  ? OpenClParameter::Kind::kGlobal
                                         : kind == "local" ? OpenClParameter::Kind::kLocal
                                                           : OpenClParameter::Kind::kScalar,
                                 .bytes = item.at(1),
                                 .real = kind == "real"});
  }
  return binary;
}

std::unique_ptr<Launcher> make_opencl_launcher(const Plan& plan, const std::vector<OpenClBinary>& binaries) {
  return std::make_unique<OpenClLauncher>(plan, binaries);
}

}  // namespace tritonforge::evaluate
