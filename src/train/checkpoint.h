#pragma once
// Checkpoints, written while the trainer goes on: FOLDER/step-00000012/ is a Hugging Face folder (model and tokenizer)
// with the optimizer's state (train/optimizer_files.h), trainer.json and config.yaml beside. Every rank writes its part
// (train/rank_part.h) into step-00000012.tmp-*, which is then synced and renamed; FOLDER/latest then names it. A kill
// at any moment leaves the one before; a full disk leaves it too and says so (kUnavailable).
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/filesystem.h"
#include "contract/weights.h"
#include "train/other_ranks.h"

namespace tritonforge::train {

// A lease that this trainer has trained on (docs/protocols.md, rollout buffer). It belongs to the trainer's run: the
// run's buffer has another address after each start.
struct TrainedLease {
  std::string lease_id;
  int64_t step = 0;
  bool committed = false;  // the buffer knows
};

// A model on its way into a folder: what this process writes of it, and who else does.
struct ModelContents {
  model::ModelConfig shape;
  at::ScalarType dtype;
  RankPart part;
  std::shared_ptr<OtherRanks> others = nullptr;  // null where it is alone
};
struct CheckpointContents {
  ModelContents model;
  TrainConfig config;
  TrainerState state;
  std::vector<TrainedLease> leases;
};

// Writes model and tokenizer as a Hugging Face folder, replacing `folder` where it is there. `source`: the folder or
// GGUF file whose tokenizer it is. Returns name -> checksum, which are beside it, too (kChecksumsFile).
TensorChecksums export_model(const ModelContents& model, const fs::path& source, const fs::path& folder);
// Of the trainer as it is.
ModelContents model_of(Trainer& trainer, std::shared_ptr<OtherRanks> others = nullptr);

class CheckpointStore {
 public:
  // Creates the folder, takes it for this process (kUnavailable naming the holder where another has it), removes what
  // a killed trainer left unfinished, and names the newest checkpoint in `latest` where that file is gone.
  CheckpointStore(fs::path folder, int64_t keep);
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // The newest checkpoint's folder, or empty. kCorrupt where `latest` names one that is not there.
  fs::path latest() const;
  // Returns the new checkpoint's folder. Older ones beyond `keep` are removed after it is in place.
  fs::path save(Trainer& trainer, const std::vector<TrainedLease>& leases,
                std::shared_ptr<OtherRanks> others = nullptr);
  // Whether half of the host's free memory holds a copy of weights and optimizer of each of its `ranks`, or this one
  // has its copy already.
  bool has_room_for_copies(Trainer& trainer, int64_t ranks) const;
  // The same as save() from a copy and a thread of its own; `written` is called there at the end. None may be under
  // way.
  void save_behind(Trainer& trainer, const std::vector<TrainedLease>& leases, std::function<void()> written,
                   std::shared_ptr<OtherRanks> others = nullptr);
  // What save_behind() began, once it is done: the folder, or throws what went wrong. nullopt where nothing is there,
  // or, unless `wait`, is done yet.
  std::optional<fs::path> collect(bool wait);

 private:
  fs::path write(const CheckpointContents& contents) const;
  void name_latest_again() const;
  void prune(const fs::path& newest) const;
  fs::path folder_;
  int64_t keep_;
  Descriptor lock_;  // while it is open no other process has the folder
  Snapshot snapshot_;
  std::future<fs::path> writing_;  // after what it reads: its end is waited for first
};

// Of the trainer as it is, for save() and for /save with a path of its own (which must not exist).
CheckpointContents contents_of(Trainer& trainer, const std::vector<TrainedLease>& leases,
                               std::shared_ptr<OtherRanks> others = nullptr);
void write_checkpoint(const fs::path& path, const CheckpointContents& contents);
// A trainer that goes on where the checkpoint stands: weights, optimizer, state. kCorrupt names file and tensor.
// However many ranks wrote it and read it.
std::unique_ptr<Trainer> resume_trainer(const TrainConfig& config, const fs::path& path,
                                        parallel::World* world = nullptr);
std::vector<TrainedLease> checkpoint_leases(const fs::path& path);

}  // namespace tritonforge::train
