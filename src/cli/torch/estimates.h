#pragma once
// What the processes of a plan take and how long a step lasts, from the model's shape and the arithmetic that trainer
// and engine use themselves.
//
// Memory of a GPU: the trainer's and the engine's own plans, with what tensor, context and pipeline parallel take off a
// rank's part (heads, intermediate and vocabulary / tp, layers / pp, a micro-batch's tokens / cp) and the optimizer's
// state divided among dp * cp ranks, which hold equal weights. What a process's CUDA context and libraries take is a
// measured constant.
//
// Time: operations over rates, nothing overlapped. Training is the model's operations (6 a weight and token, attention,
// what is computed again) at kOfPeak of the data sheet's, of SFT in sequences as long as they may be, of RL with a
// group's prompt once where train.share_prefixes says so; collectives are
// their bytes over the links between GPUs, or over the network where a group of an axis is on several hosts; a
// decode step is weights and keys read once at kOfBandwidth; an answer is half of max_new_tokens, and every turn is
// taken; verdicts are made at the rates that were measured. On a CPU the rates are those of a core with AVX-512.
#include "model/config.h"
#include "orchestrate/plan.h"

namespace tritonforge::cli {

// Fills in memory and time. Throws kUsage where a device does not hold what it is to hold, saying the nearest that
// would, and kNotFound where neither the model nor model.shape is there.
void estimate(orchestrate::Plan& plan, const orchestrate::RecipeConfig& config);

// A rank's part of the model under these degrees; of a pipeline the first stage's, which keeps the most micro-batches.
model::ModelConfig rank_shape(const model::ModelConfig& shape, const orchestrate::Degrees& degrees);
int64_t rank_parameters(const model::ModelConfig& shape, const orchestrate::Degrees& degrees);

// Of one rank on a GPU with `free` bytes; of one engine. `train` with its recipe's options.
orchestrate::Parts trainer_memory(const model::ModelConfig& shape, const train::TrainConfig& train,
                                  const orchestrate::Degrees& degrees, double free);
orchestrate::Parts engine_memory(const model::ModelConfig& shape, const engine::EngineOptions& options,
                                 const orchestrate::Degrees& degrees, double free);

}  // namespace tritonforge::cli
