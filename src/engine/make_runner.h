#pragma once
// Which runner computes a model, and how its device's memory is shared out.
#include <functional>
#include <memory>

#include "engine/memory_plan.h"
#include "engine/runner.h"
#include "engine/sizing.h"
#include "model/parts.h"

namespace tritonforge::engine {

struct SizedRunner {
  Sizes sizes;
  MemoryPlan plan;
  std::unique_ptr<Runner> runner;
};
using MakeRunner = std::function<SizedRunner(const EngineOptions& options, const model::Model& model)>;

using MakeTeamRunner = std::function<SizedRunner(const EngineOptions& options, const model::Parts& parts)>;

// On the CPU AtenRunner; on CUDA devices GpuRunner, or AtenRunner with a warning that says why. Throws what size_step
// and size_cache throw. Tells the memory plan in the log before it takes any.
SizedRunner make_runner(const EngineOptions& options, const model::Model& model);

// The same of options.tp ranks, each with what it has of the model: a TeamRunner (team_runner.h). The plan is the first
// rank's; all have as many blocks as the one with the least memory.
SizedRunner make_team_runner(const EngineOptions& options, const model::Parts& parts);
int64_t threads_of_rank(const EngineOptions& options);  // of the CPU; 0: libtorch's own choice, all cores

}  // namespace tritonforge::engine
