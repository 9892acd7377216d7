#pragma once
// One trainer: a model, its optimizer, and steps over batches of sequences.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/step.h"
#include "model/tensor_parallel.h"
#include "parallel/world.h"
#include "train/config.h"
#include "train/flops.h"
#include "train/memory_plan.h"
#include "train/optimizer.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "train/step_clock.h"
#include "train/step_record.h"

namespace tritonforge::train {

// What a checkpoint holds beside the tensors.
struct TrainerState {
  int64_t step = 0;                      // steps taken
  std::vector<int64_t> weight_versions;  // published versions that are the current weights
  StepMetrics last;                      // of step `step`
};

// The micro-batches of a step in the host's memory, as they are where the trainer's weights are of `versions`.
struct PackedStep {
  struct Update {
    std::vector<MicroBatch> batches;
    at::Tensor embedded;  // rows of the embedding that any rank reads; undefined where nobody has the same
  };
  StepKind kind = StepKind::kSft;
  int64_t step = 0;
  std::vector<int64_t> versions;
  std::vector<Update> updates;
  int64_t stale = 0;  // sequences that were left out
};

class Trainer {
 public:
  // model, reference: this rank's part (model/tensor_parallel.h); the second is there exactly where config.loss.kl_coef
  // > 0. rate: what the step's figures are compared with. world: the ranks that train together, each with all of a
  // step's sequences; null where this process is alone.
  Trainer(TrainConfig config, model::Model model, std::optional<model::Model> reference, DeviceRate rate = {},
          parallel::World* world = nullptr);
  Trainer(const Trainer&) = delete;  // its passes refer to it

  // Forward and backward over micro-batches, clip, update. Throws kUsage before anything has changed where the
  // sequences are wrong. An error once an update was applied leaves the trainer broken(): resume from a checkpoint.
  // `leased`: what the groups of the lease hold, part of the step's metrics. An RL batch without a single target is a
  // step without an update (skipped_updates 1): the loop goes on and the record shows it. Of several ranks, all call it
  // with the same; one that fails in the midst of a step ends the job. `ahead`: what pack_ahead() made of these
  // sequences, which is made anew where the step's weights have other versions than it counts on.
  StepMetrics train_step(StepKind kind, std::span<const TrainSequence> sequences,
                         const std::optional<BatchFigures>& leased = std::nullopt,
                         std::optional<PackedStep> ahead = std::nullopt);
  // Of step `step`, whose weights will be of `versions`. From any thread, beside a step. Throws kUsage where the
  // sequences are wrong.
  PackedStep pack_ahead(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                        std::vector<int64_t> versions) const;

  const TrainConfig& config() const { return config_; }
  model::Model& model() {  // this rank's part
    optimizer_->await_weights();
    return model_;
  }
  // The whole model: itself, or a copy of what tensor-parallel ranks and stages have of it, on the device where it has
  // room, else in the host's memory. All of rank 0's call it at once, the others of them through give_model().
  const model::Model& whole_model();
  void give_model();
  // work(), which all ranks that have parts of the model do at once: one that cannot leaves the others in a collective,
  // where the next one that it begins would meet them. So its error ends the job. what: is made.
  template <typename Work>
  auto together(std::string_view what, const Work& work) {
    try {
      return work();
    } catch (const std::exception& error) {
      if (world_ != nullptr) world_->report(fmt::format("{}: {}", what, error.what()), parallel::is_of_another(error));
      throw;
    }
  }
  int64_t rank() const { return world_ != nullptr ? world_->rank() : 0; }
  const parallel::Groups& groups() const { return groups_; }
  const model::ModelConfig& shape() const { return shape_; }  // of the whole model
  Optimizer& optimizer() { return *optimizer_; }
  const TrainerState& state() const { return state_; }
  bool broken() const { return broken_; }
  // After the model's and the optimizer's tensors were filled from a checkpoint.
  void restore(TrainerState state);
  // The current weights have been handed out under this version.
  void published(int64_t version);
  StepClock& clock() { return clock_; }                                   // its standing() from any thread
  const std::optional<MemoryPlan>& memory_plan() const { return plan_; }  // with own passes on a GPU

 private:
  struct Update {
    std::vector<MicroBatch> batches;
    at::Tensor embedded;
    // Of each batch: of the weights before the step, where it has more updates than one; of the reference.
    std::vector<at::Tensor> start_log_probs, reference_log_probs;
  };
  void make_passes();  // with their memory; again after a step that had too little of it
  bool has_part() const { return groups_.tp != nullptr || groups_.onward != nullptr; }  // of the model

  void check(StepKind kind, std::span<const TrainSequence> sequences) const;  // throws kUsage
  PackedStep pack(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                  std::vector<int64_t> versions) const;  // after check()
  // On the device, with the log-probs that the passes need. Nothing has changed when it throws.
  std::vector<Update> prepare(PackedStep packed, StepRecord& record);
  // Forward pass and loss of a micro-batch; all of its update's passes. Gradients that the pass does not know yet.
  ScoreGradients forward_over(StepKind kind, const Update& update, size_t index, int64_t chunk, StepRecord& record);
  void pass_over(StepKind kind, const Update& update, StepRecord& record);
  // The parts of train_step(): its updates; one of them; what it was like; after an error, which is thrown on or, where
  // memory was full, said in another way.
  std::vector<Update> begin_step(StepKind kind, std::span<const TrainSequence> sequences, int64_t step,
                                 std::optional<PackedStep> ahead, StepRecord& record);
  void take_update(StepKind kind, const Update& update, double rate, StepRecord& record);
  StepMetrics read(StepRecord& record);
  void step_failed(int64_t step, const std::exception& error, bool agreed);
  void add_speeds(StepMetrics& metrics, double flops) const;

  TrainConfig config_;
  parallel::World* const world_;
  const parallel::Groups groups_;
  const parallel::Coordinates at_;
  const model::Stage stage_;
  model::Model model_;                 // this rank's part of it
  model::ModelConfig shape_;           // of the whole
  std::optional<model::Model> whole_;  // what whole_model() gave, of several parts
  std::optional<model::Model> reference_;
  std::optional<MemoryPlan> plan_;
  TrainConfig planned_;  // config_, with what the plan computes again
  std::optional<Gradients> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Pass> pass_, reference_pass_;  // the second where there is a reference
  std::optional<SharingCosts> sharing_;          // of passes that share prefixes
  DeviceRate rate_;
  StepClock clock_;
  TrainerState state_;
  bool broken_ = false;
};

// Loads what the config names: the model (or random weights), the reference where it is needed. `weights`: a folder to
// take the model's weights from instead. To go on from a checkpoint: resume_trainer() of train/checkpoint.h.
std::unique_ptr<Trainer> make_trainer(const TrainConfig& config, const fs::path& weights = {},
                                      parallel::World* world = nullptr);

}  // namespace tritonforge::train
