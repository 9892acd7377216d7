#pragma once
// Which runner computes a model, and how its device's memory is shared out.
#include <functional>
#include <memory>

#include "engine/memory_plan.h"
#include "engine/runner.h"
#include "engine/sizing.h"
#include "model/model.h"

namespace tritonforge::engine {

struct SizedRunner {
  Sizes sizes;
  MemoryPlan plan;
  std::unique_ptr<Runner> runner;
};
using MakeRunner = std::function<SizedRunner(const EngineOptions& options, const model::Model& model)>;

// On the CPU AtenRunner; on CUDA devices GpuRunner, or AtenRunner with a warning that says why. Throws what size_step
// and size_cache throw. Tells the memory plan in the log before it takes any.
SizedRunner make_runner(const EngineOptions& options, const model::Model& model);

}  // namespace tritonforge::engine
