#pragma once
// Several processes as one trainer: rank 0 answers HTTP and tells the others what it does; they do the same.
#include <string>
#include <string_view>

#include "contract/step.h"
#include "parallel/world.h"
#include "train/config.h"

namespace tritonforge::train {

struct RankCommand {
  enum class What { kStep, kPublished, kGiveModel, kOfferParts, kCheckpoint, kExport, kEnd };
  What what = What::kEnd;
  int64_t number = 0;              // the version; of a checkpoint or export, the folder's (train/other_ranks.h)
  StepKind kind = StepKind::kSft;  // of a step
  SequenceBatch batch;             // likewise
  bool has_figures = false;        // those of the batch count
  bool copied = true;              // of a checkpoint: it is written from a copy, behind the steps
};
std::string to_bytes(const RankCommand& command);
RankCommand rank_command(std::string_view bytes);  // throws kUsage

// The job's ranks, whose failure ends this process with its text; null where the config names one process.
std::unique_ptr<parallel::World> join_ranks(const TrainConfig& config, const parallel::WorldOptions& options);

// For each thread that calls a trainer: its device, and the CPU threads that the config gives it; by default the cores
// of the host, shared out among its ranks unless OMP_NUM_THREADS says how many. world: null where the process is alone.
void set_up_thread(const TrainConfig& config, const parallel::World* world);

// A rank above 0, until rank 0 says that it ends. weights_key: of the engines' way to its part (train/parts_offer.h).
void follow_rank_0(const TrainConfig& config, const parallel::WorldOptions& options, const std::string& weights_key);

}  // namespace tritonforge::train
