#pragma once
// Checkpoints: FOLDER/step-00000012/ is a Hugging Face folder (model and tokenizer) with optimizer.safetensors,
// trainer.json and config.yaml beside. It is written as step-00000012.tmp-*, synced and renamed; FOLDER/latest then
// names it. A kill at any moment leaves the one before; a full disk leaves it too and says so (kUnavailable).
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "train/trainer.h"

namespace tritonforge::train {

// A lease that this trainer has trained on (docs/protocols.md, rollout buffer). It belongs to the trainer's run: the
// run's buffer has another address after each start.
struct TrainedLease {
  std::string lease_id;
  int64_t step = 0;
  bool committed = false;  // the buffer knows
};

// Writes model and tokenizer as a Hugging Face folder, replacing `folder` where it is there. `source`: the folder or
// GGUF file whose tokenizer it is.
void export_model(const model::Model& model, const fs::path& source, const fs::path& folder);

class CheckpointStore {
 public:
  // Creates the folder, takes it for this process (kUnavailable naming the holder where another has it), and removes
  // what a killed trainer left unfinished.
  CheckpointStore(fs::path folder, int64_t keep);
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // The newest checkpoint's folder, or empty. kCorrupt where `latest` names one that is not there.
  fs::path latest() const;
  // Returns the new checkpoint's folder. Older ones beyond `keep` are removed after it is in place.
  fs::path save(Trainer& trainer, const std::vector<TrainedLease>& leases);

 private:
  void prune(const fs::path& newest) const;
  fs::path folder_;
  int64_t keep_;
  int lock_fd_ = -1;
};

// Writes one checkpoint as the folder `path` (which must not exist); also for /save with a path of its own.
void write_checkpoint(const fs::path& path, Trainer& trainer, const std::vector<TrainedLease>& leases);
// A trainer that goes on where the checkpoint stands: weights, optimizer, state. kCorrupt names file and tensor.
std::unique_ptr<Trainer> resume_trainer(const TrainConfig& config, const fs::path& path);
std::vector<TrainedLease> checkpoint_leases(const fs::path& path);

}  // namespace tritonforge::train
