#pragma once
// What the trainer's endpoints do, without HTTP: one call at a time, from one thread; only status() and health() may be
// called from others.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/device_lock.h"
#include "contract/step.h"
#include "contract/weights.h"
#include "net/http.h"
#include "train/checkpoint.h"
#include "train/parts_offer.h"
#include "train/publish.h"
#include "train/ranks.h"
#include "train/trainer.h"
#include "weights/sglang.h"

namespace tritonforge::train {

class TrainerService {
 public:
  // Loads, or resumes from a checkpoint, and sets the calling thread up.
  explicit TrainerService(ServiceOptions options);
  // For the thread that makes the calls, where that is not the constructor's: its device and CPU threads.
  void set_up_thread() const;

  // Trains step `step()` + 1; a repeat of the last one gives its stored metrics. Throws kConflict for any other,
  // and for a lease that was trained on; kNotFound where a step of SFT has no sequences and none came ahead. A sequence
  // that no step can hold is set aside, with its reason in the result. `read`: makes the request, in the step's time.
  StepResult step(const std::function<StepRequest()>& read);
  StepResult step(StepRequest request) {
    return step([&] { return std::move(request); });
  }
  // From any thread, beside a step: the sequences of that one or of the next are fetched, checked and packed now, so
  // that step() finds them. They are no promise: a trainer that is started again does not have them. Throws kConflict
  // for any other step, kUsage where the sequences are wrong.
  void prepare(StepRequest request);
  // What the calls below are about: the caller counts on the weights after `step` steps; throws kConflict where these
  // are others.
  void expect(int64_t step) const;
  // "" = into the checkpoint folder, where it is not there already. Leases trained until then are committed to the
  // buffer.
  fs::path save(const std::string& path);
  // to: "shm", "group" (train/parts_offer.h), or a folder.
  PublishedWeights publish(int64_t version, const std::string& to);
  // To SGLang's own servers, in its way (weights/sglang.h).
  void push(int64_t version, const std::vector<std::string>& engines, weights::SglangOptions options);  // key: its own
  fs::path export_to(const std::string& folder);
  // A checkpoint where there is a folder for it, steps since the last one, and the config's stop_interval has one here.
  void shut_down();
  // A checkpoint that was written behind the steps is in place or has failed: leases are committed, or health says so.
  // Without `wait`: where it is done. `told`, from any thread: that one is.
  void settle(bool wait);
  void on_written(std::function<void()> told) { written_ = std::move(told); }

  void idle() { note("idle"); }
  int64_t steps_done() const { return trainer_->state().step; }
  int64_t uncommitted_leases() const;

  Json status() const;
  struct Health {
    net::Colour colour;
    std::string detail;
  };
  Health health() const;
  const net::Metrics& metrics() const { return metrics_; }
  const TrainConfig& config() const { return options_.config; }

 private:
  // What a step trains on.
  struct Material {
    StepRequest request;
    std::optional<BatchFigures> batch;  // of its lease
    std::vector<std::string> aside;
    std::optional<PackedStep> packed;  // where it came ahead
  };
  void start();
  StepResult train(Material material);
  // Of a step that is the next: what came ahead for it, or what the request says.
  Material to_train_on(StepRequest request);
  std::optional<Material> take_prepared(const StepRequest& request);
  Material fetched(StepRequest request);  // of an RL step, from the buffer
  SequenceBatch fetch_lease(const StepRequest& request);
  std::optional<DeviceLock::Hold> share_device();  // for the length of a step, where somebody measures on it, too
  // Rank 0's words to the others; nothing where there are none.
  void tell(RankCommand command);
  const model::Model& whole_model();  // with what the other ranks have of it
  // Tells the others that a folder comes, a checkpoint's or an export's, for their parts of what is there now; null
  // where there are none.
  std::shared_ptr<OtherRanks> others_for(RankCommand::What what, bool copied = false);
  TensorChecksums write_model(const fs::path& folder);
  void commit_leases();
  std::vector<TrainedLease> kept_leases();
  void begin_checkpoint();
  void checkpoint_is_at(const fs::path& path, int64_t step);
  void checkpoint_failed(const std::string& why);
  PublishedWeights hand_out(int64_t version, const std::string& to);
  void note_published(int64_t version);
  void note(const std::string& activity);  // makes the state visible to status()
  void report(const StepMetrics& metrics);

  ServiceOptions options_;
  std::unique_ptr<parallel::World> world_;  // null where the trainer is one process
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<PartsOffer> offer_;
  std::unique_ptr<weights::SglangEngines> sglang_;  // those of the last push
  std::unique_ptr<DeviceLock> device_lock_;
  net::HttpClient buffer_client_;
  net::Metrics metrics_{"trainer",
                        {{"step", "steps that the model has"},
                         {"last_step", "figures of the last step, by name"},
                         {"steps_total", "steps trained since the start"},
                         {"tokens_total", "tokens trained on since the start"},
                         {"checkpoint_step", "steps that the newest checkpoint holds"},
                         {"checkpoint_stall_seconds", "that the last checkpoint kept the trainer from going on"},
                         {"checkpoint_failures_total", "checkpoints that could not be written"},
                         {"published_version", "version of the weights published last"}}};
  std::vector<TrainedLease> leases_;
  std::string buffer_;  // where the run's buffer is now; "": nobody said so yet
  int64_t checkpoint_step_ = -1;
  std::string checkpoint_path_, checkpoint_error_;
  int64_t folders_ = 0;        // that the other ranks were told of
  int64_t writing_step_ = -1;  // of the checkpoint that is being written
  std::function<void()> written_ = [] {};
  // For the reply of the next step, and of the last one, which may be asked for again.
  struct News {
    std::string checkpoint, error;
    std::vector<std::string> aside;
  } news_, last_news_;

  std::mutex prepared_mutex_;
  std::map<int64_t, Material> prepared_;  // by step; two at most

  mutable std::mutex mutex_;  // guards what follows, which other threads read
  struct Visible {
    int64_t step = 0, checkpoint_step = -1, uncommitted_leases = 0;
    std::string activity = "idle", checkpoint, checkpoint_error;
    std::vector<int64_t> weight_versions;
    bool broken = false;
    double since = 0;  // unix time at which the activity began
    StepMetrics last;
  } visible_;
};

}  // namespace tritonforge::train
