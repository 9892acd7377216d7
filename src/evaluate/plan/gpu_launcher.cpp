#include "evaluate/plan/gpu_launcher.h"

#include <ATen/Context.h>

#include "base/error.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/guard.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

// For messages alone: what the CPU does not evaluate may still be compiled.
std::vector<std::string> argument_names(const std::string& text) {
  try {
    return ir::parse(text).entry().argument_names;
  } catch (const Error&) {
    return {};
  }
}

// A scalar as a kernel's parameter of `bytes` bytes holds it: little-endian, so that a narrow integer is the first
// bytes of a wide one.
uint64_t scalar_bits(const PlanBinding& binding, size_t bytes, const std::string& kernel) {
  if (binding.form == PlanBinding::Form::kInteger) return static_cast<uint64_t>(binding.integer);
  if (bytes == 8) return std::bit_cast<uint64_t>(binding.real);
  if (bytes == 4) return std::bit_cast<uint32_t>(static_cast<float>(binding.real));
  fail(ErrorKind::kUnsupported, "kernel {}: a floating-point argument of {} bytes", kernel, bytes);
}

}  // namespace

struct GpuLauncher::Pass {
  PassOptions options;
  GuardedMemory memory;
  std::vector<at::Tensor> scratch;
  LaunchReport report;
};

GpuLauncher::GpuLauncher(const Plan& plan, const std::vector<GpuBinary>& binaries, const std::string& target)
    : plan_(plan) {
  if (binaries.size() != plan.kernels.size())
    fail(ErrorKind::kUsage, "replay: {} binaries for {} kernels", binaries.size(), plan.kernels.size());
  for (size_t k = 0; k < binaries.size(); ++k) {
    kernels_.push_back(binaries[k].cubin.empty() ? nullptr
                                                 : std::make_unique<GpuKernel>(binaries[k].cubin, binaries[k].shape));
    const auto text = plan.kernels[k].ir.find(target);
    names_.push_back(text == plan.kernels[k].ir.end() ? std::vector<std::string>()
                                                      : argument_names(plan.texts[static_cast<size_t>(text->second)]));
  }
  for (const PlanStep& step : plan.steps) {
    if (step.kernel < 0 || !kernels_[static_cast<size_t>(step.kernel)]) continue;
    const GpuKernel& kernel = *kernels_[static_cast<size_t>(step.kernel)];
    const size_t own = kernel.shape().own_parameters;
    if (kernel.parameters().size() != step.bindings.size() + own)
      fail(ErrorKind::kUsage, "kernel {}: {} arguments for {} parameters", kernel.shape().entry, step.bindings.size(),
           static_cast<int64_t>(kernel.parameters().size()) - static_cast<int64_t>(own));
    for (size_t k = 0; k < step.bindings.size(); ++k) {
      const auto form = step.bindings[k].form;
      if ((form == PlanBinding::Form::kTensor || form == PlanBinding::Form::kNull) && kernel.parameters()[k] != 8)
        fail(ErrorKind::kUsage, "kernel {}: argument {} is a tensor, its parameter is no pointer", kernel.shape().entry,
             k);
    }
  }
}

GpuLauncher::~GpuLauncher() = default;

void GpuLauncher::begin(const PassOptions& options) {
  pass_ = std::make_unique<Pass>();
  pass_->options = options;
  pass_->memory = GuardedMemory(options.order_seed);
  // What a kernel wrote down for itself is no answer of a later pass.
  for (const auto& kernel : kernels_) {
    if (kernel) kernel->renew();
  }
}

at::Tensor GpuLauncher::place(const at::Tensor& fresh, bool empty) {
  if (!pass_->options.guard) return fresh;
  const at::Tensor placed = pass_->memory.move(fresh, !empty);
  if (empty) poison(placed);
  return placed;
}

void GpuLauncher::launch(const PlanStep& step, const std::vector<at::Tensor>& bound) {
  const std::string& name = plan_.kernels[static_cast<size_t>(step.kernel)].name;
  if (!kernels_[static_cast<size_t>(step.kernel)]) fail(ErrorKind::kUsage, "kernel {}: no machine code", name);
  const GpuKernel& kernel = *kernels_[static_cast<size_t>(step.kernel)];
  std::vector<uint64_t> values(kernel.parameters().size(), 0);
  size_t next = 0;
  for (size_t k = 0; k < step.bindings.size(); ++k) {
    const PlanBinding& binding = step.bindings[k];
    if (binding.form == PlanBinding::Form::kTensor) {
      const at::Tensor& tensor = bound[next++];
      values[k] = reinterpret_cast<uint64_t>(tensor.numel() > 0 ? tensor.mutable_data_ptr() : nullptr);
    } else if (binding.form != PlanBinding::Form::kNull) {
      values[k] = scalar_bits(binding, kernel.parameters()[k], name);
    }
  }
  if (const int64_t scratch = kernel.shape().scratch; scratch > 0) {
    const int64_t programs = step.grid[0] * step.grid[1] * step.grid[2] * kernel.shape().ctas;
    pass_->scratch.push_back(at::empty({programs * scratch}, at::TensorOptions(device()).dtype(at::kByte)));
    values[step.bindings.size()] = reinterpret_cast<uint64_t>(pass_->scratch.back().data_ptr());
  }
  std::vector<void*> arguments;
  for (uint64_t& value : values) arguments.push_back(&value);
  try {
    kernel.launch(step.grid, arguments);
    if (pass_->options.guard) watch(step, bound);
  } catch (const ir::Fault& fault) {
    throw ir::Fault(fmt::format("kernel {}: {}", name, fault.what()));
  }
}

void GpuLauncher::watch(const PlanStep& step, const std::vector<at::Tensor>& bound) {
  GpuEvent done;
  done.record();
  done.wait(pass_->options.deadline);
  const auto& names = names_[static_cast<size_t>(step.kernel)];
  size_t next = 0;
  for (size_t k = 0; k < step.bindings.size(); ++k) {
    if (step.bindings[k].form != PlanBinding::Form::kTensor) continue;
    pass_->memory.name(bound[next++], k < names.size() ? "'" + names[k] + "'" : fmt::format("argument {}", k));
  }
  if (const std::string damage = pass_->memory.damage_text(); !damage.empty()) throw ir::Fault(damage);
}

LaunchReport GpuLauncher::end() {
  gpu_synchronize();
  return std::move(pass_->report);
}

void open_gpu() {
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
    at::zeros({1}, at::TensorOptions(at::kCUDA));
  } catch (const c10::Error& error) {
    fail(ErrorKind::kMachine, "no usable GPU: {}", error.what_without_backtrace());
  }
}

}  // namespace tritonforge::evaluate
