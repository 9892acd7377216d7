#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/launcher.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

class CpuLauncher : public Launcher {
 public:
  CpuLauncher(const Plan& plan, const std::string& target) {
    for (const PlanKernel& kernel : plan.kernels) {
      const auto text = kernel.ir.find(target);
      if (text == kernel.ir.end()) {
        programs_.push_back(nullptr);
        continue;
      }
      try {
        programs_.push_back(
            std::make_unique<ir::Program>(ir::compile(ir::parse(plan.texts[static_cast<size_t>(text->second)]))));
      } catch (const Error& error) {
        fail(error.kind(), "kernel {}: {}", kernel.name, error.what());
      }
    }
    for (const PlanStep& step : plan.steps) {
      if (step.kernel >= 0 && !programs_[static_cast<size_t>(step.kernel)]) {
        fail(ErrorKind::kUsage, "kernel {}: no Triton IR for {}", plan.kernels[static_cast<size_t>(step.kernel)].name,
             target);
      }
    }
  }

  at::Device device() const override { return at::kCPU; }

  void begin(const PassOptions& options) override {
    options_ = options;
    seed_ = options.order_seed;
    memory_ = {};
    buffers_.clear();
    unwritten_.clear();
    keep_.clear();
    report_ = {};
  }

  at::Tensor place(const at::Tensor& fresh, bool empty) override {
    if (empty) {
      poison(fresh);
      unwritten_.insert(storage_of(fresh));
    }
    keep_.push_back(fresh);
    return fresh;
  }

  void written(const at::Tensor& tensor) override {
    unwritten_.erase(storage_of(tensor));
    if (const auto known = buffers_.find(storage_of(tensor)); known != buffers_.end()) {
      auto& marks = memory_.buffer(static_cast<size_t>(known->second)).written;
      std::fill(marks.begin(), marks.end(), 1);
    }
  }

  void launch(const PlanStep& step, const std::vector<at::Tensor>& bound) override {
    const ir::Program& program = *programs_[static_cast<size_t>(step.kernel)];
    std::vector<ir::Argument> arguments;
    size_t next = 0;
    for (size_t k = 0; k < step.bindings.size(); ++k) {
      const PlanBinding& binding = step.bindings[k];
      switch (binding.form) {
        case PlanBinding::Form::kTensor: {
          const at::Tensor& tensor = bound[next++];
          const int buffer = buffer_of(tensor);
          memory_.buffer(static_cast<size_t>(buffer)).name = k < program.parameters.size() ? program.parameters[k].name
                                                                                           : "?";
          arguments.push_back({.form = ir::Argument::Form::kBuffer,
                               .buffer = buffer,
                               .integer = tensor.storage_offset() * static_cast<int64_t>(tensor.element_size())});
          break;
        }
        case PlanBinding::Form::kInteger: arguments.push_back({.integer = binding.integer}); break;
        case PlanBinding::Form::kReal:
          arguments.push_back({.form = ir::Argument::Form::kFloat, .real = binding.real});
          break;
        case PlanBinding::Form::kNull: arguments.push_back({.form = ir::Argument::Form::kBuffer}); break;
      }
    }
    const ir::LaunchOptions options{.grid = step.grid,
                                    .schedule = options_.schedule,
                                    .seed = seed_ += 0x9E3779B97F4A7C15ull,
                                    .own_sizes = options_.own_sizes,
                                    .deadline = options_.deadline};
    report_.work.push_back(ir::launch(program, memory_, arguments, options));
  }

  LaunchReport end() override {
    report_.findings = std::move(memory_.findings);
    return std::move(report_);
  }

 private:
  int buffer_of(const at::Tensor& tensor) {
    const auto& storage = tensor.storage();
    const auto [place, fresh] = buffers_.try_emplace(storage_of(tensor), 0);
    if (fresh) {
      place->second = memory_.add("", static_cast<std::byte*>(storage.mutable_data()),
                                  static_cast<int64_t>(storage.nbytes()), static_cast<int>(tensor.element_size()),
                                  !unwritten_.contains(storage_of(tensor)));
      keep_.push_back(tensor);
    }
    return place->second;
  }

  std::vector<std::unique_ptr<ir::Program>> programs_;
  // Of a pass.
  PassOptions options_;
  uint64_t seed_ = 0;
  ir::Memory memory_;
  std::unordered_map<const void*, int> buffers_;  // storage -> buffer of the memory
  std::unordered_set<const void*> unwritten_;     // storages that came without contents
  std::vector<at::Tensor> keep_;                  // storages stay where the memory knows them
  LaunchReport report_;
};

}  // namespace

std::unique_ptr<Launcher> make_cpu_launcher(const Plan& plan, const std::string& target) {
  return std::make_unique<CpuLauncher>(plan, target);
}

Work LaunchReport::own() const {
  Work own;
  const size_t weighed = std::min(work.size(), only_copied.size());
  for (size_t k = 0; k < weighed; ++k) own += launch_work(work[k].flops, work[k].bytes, only_copied[k]);
  return own;
}

}  // namespace tritonforge::evaluate
