#include <ATen/Parallel.h>

#include <algorithm>

#include "train/cpu/head.h"
#include "train/cpu/layers.h"
#include "train/pass.h"

namespace tritonforge::train {
namespace {

// For the length of a pass: parts go to the next free thread, and nobody waits for one that another process has taken
// the core from. Between passes libtorch's own are there for the optimizer.
class Threads {
 public:
  Threads() {
    if (kernels::ThreadPool::of_this_thread() == nullptr) pool_.emplace(at::get_num_threads());
  }

 private:
  std::optional<kernels::ThreadPool> pool_;
};

class CpuPass : public Pass {
 public:
  CpuPass(const model::Model& model, const TrainConfig& config, Gradients* gradients, const parallel::Groups& groups)
      : gradients_(gradients),
        layers_count_(model.config().num_layers),
        hidden_(model.config().hidden_size),
        shards_(groups, model.config(), /*unit=*/1),
        link_(groups, model.config().chunk_count()),
        flights_(link_.stage()),
        layers_(model, std::max<int64_t>(0, config.recompute_layers), shards_, link_),
        head_(model, config.lm_head_chunk, shards_) {}

  std::optional<SegmentLayout> segments() const override {
    if (shards_.ring() != nullptr) return std::nullopt;
    return SegmentLayout{.unit = 1, .block = 32};
  }

  TargetScores forward(const MicroBatch& batch, bool train, const KnownGradients& known, int64_t chunk) override {
    const Threads threads;
    if (gradients_ != nullptr && gradients_->weights_needed) {  // panels are made of all of them
      for (int64_t i = 0; i <= layers_count_ + 1; ++i) gradients_->weights_needed(static_cast<size_t>(i));
    }
    shards_.begin(batch);
    const int64_t slot = flights_.begin(batch, chunk, train);
    link_.begin_forward(slot);
    const at::Tensor& x = layers_.forward(batch, train, chunk, slot);
    if (link_.last(chunk))
      return train && known ? head_.forward_backward(batch, x, known, begun()) : head_.forward(batch, x);
    link_.send_output(x.narrow(0, 0, shards_.rows().own), slot);
    return {};
  }

  void backward(const ScoreGradients& of, int64_t chunk) override {
    const Threads threads;
    const model::Model& sums = begun();
    const auto [batch, slot] = flights_.end(chunk);
    shards_.begin(*batch);
    at::Tensor grad;
    if (link_.last(chunk)) {
      grad = head_.backward(of, sums);
    } else {
      grad = at::zeros({shards_.rows().shard, hidden_}, at::kFloat);
      link_.receive_gradient(shards_.own(grad));
    }
    layers_.backward(*batch, chunk, slot, grad, *gradients_);
  }

  void settle() override { link_.settle(); }

  void weights_changed() override {
    layers_.weights_changed();
    head_.weights_changed();
  }

 private:
  // The sums, of zeros where nothing was added yet.
  const model::Model& begun() {
    TF_CHECK(gradients_ != nullptr, "a backward pass of a model without gradients");
    if (gradients_->empty) gradients_->sums.arena().zero_();
    gradients_->empty = false;
    return gradients_->sums;
  }

  Gradients* gradients_;
  const int64_t layers_count_, hidden_;
  TokenShards shards_;
  StageLink link_;
  Flights flights_;
  cpu::Layers layers_;
  cpu::Head head_;
};

}  // namespace

std::unique_ptr<Pass> make_cpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups) {
  return std::make_unique<CpuPass>(model, config, gradients, groups);
}

}  // namespace tritonforge::train
