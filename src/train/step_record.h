#pragma once
// Collects a step's per-token figures on the device and reads them once at the end: no host synchronisation before.
#include <ATen/ATen.h>

#include <vector>

#include "contract/step.h"
#include "parallel/group.h"
#include "train/lm_head_loss.h"
#include "train/losses.h"
#include "train/optimizer.h"
#include "train/packing.h"

namespace tritonforge::train {

class StepRecord {
 public:
  void add_sft(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& loss);
  // start_log_probs: the trainer's own at the weights before the step.
  void add_rl(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& start_log_probs,
              const PolicyLoss& loss);
  void add_update(const AdamW::Applied& applied);
  void add_stale(int64_t sequences) { stale_ += sequences; }
  void add_flops(double flops) { flops_ += flops; }
  // Synchronises. The figures of the passes and updates, of all ranks' where there is a group of them, those apart that
  // do not `speak`: another one has the same. The rest of StepMetrics is the caller's.
  StepMetrics read(parallel::Group* ranks = nullptr, bool speaks = true);
  double flops() const { return flops_; }  // after read(): of all ranks

 private:
  void add_common(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& loss);
  int64_t tokens_ = 0, targets_ = 0, shared_ = 0, micro_batches_ = 0, stale_ = 0;
  double flops_ = 0;
  std::vector<at::Tensor> losses_, norms_, skipped_;  // scalars
  std::vector<at::Tensor> entropy_;                   // [n] each
  std::vector<at::Tensor> difference_, on_policy_, clipped_, kl_, importance_, masked_, advantage_;
};

}  // namespace tritonforge::train
