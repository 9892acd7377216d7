#pragma once
// AdamW over the flat arenas of a model and its gradients, in the parts of them that are this rank's: by
// kernels/adamw.h where the states are in the host's memory, by kernels/gpu/adamw.cu where they are on a GPU.
#include "kernels/gpu/train_args.h"
#include "train/gpu/host_exchange.h"
#include "train/optimizer.h"
#include "train/sharding.h"

namespace tritonforge::train {

// fp32 states: moments in fp32, and masters where the weights are bfloat16. bf16_sr (GPU): no masters, moments in
// bfloat16, everything rounded at random by (seed, step, place), so that what is too small for a step of bfloat16 moves
// it so often as its size says. cpu: the bits of fp32, with masters and moments in the host's memory; of a GPU's step
// the host waits for the gradients.
class FlatAdamW : public Optimizer {
 public:
  FlatAdamW(const model::Model& model, Gradients& gradients, const parallel::Groups& groups, const TrainConfig& config);

  void accumulate_gradients() override { gradients_.ready = nullptr; }  // the pass adds them up itself
  void clear_gradients() override;
  Applied step(double learning_rate) override;
  StatePieces state() const override;
  void masters_changed() override;
  void before_last_pass() override {
    gradients_.ready = [this](size_t segment) { sharding_.gradients_are_ready(segment); };
  }
  void before_passes(at::Tensor embedded) override { sharding_.embed(std::move(embedded)); }
  void await_weights() override { sharding_.await_weights(); }

 private:
  // Of a tensor, in a part of the arena: what of the model's tensor it is, where it begins in the arena and in the
  // states.
  struct Piece {
    std::string name;
    std::vector<int64_t> shape;  // of the model's tensor
    ElementRange elements;
    int64_t place, at, count;
    bool replica;
  };
  // What is updated at once: a part of own(), or as much of it as goes over the bus at once.
  struct Stretch {
    int64_t place, at, count;  // in the arena, in the states
    size_t part;
    bool last;  // of the part
  };
  void find_pieces();
  void find_stretches(int64_t longest);
  void find_decays();
  void make_states();
  tritonforge::gpu::AdamwArgs arguments(double learning_rate) const;
  // The state of `args`: from all gradients.
  void decide_on_cpu(const tritonforge::gpu::AdamwArgs& args);
  void decide_on_gpu(const tritonforge::gpu::AdamwArgs& args);
  void update(tritonforge::gpu::AdamwArgs args);

  const model::Model& model_;
  Gradients& gradients_;
  TrainConfig config_;
  Sharding sharding_;
  const at::Device states_on_;
  std::vector<Piece> pieces_;  // in the order of the arena
  std::vector<Stretch> stretches_;
  at::Tensor first_, second_, master_;  // [elements of own()]; the last where the weights are not fp32
  at::Tensor begins_, decays_;          // [tensors], beside the states
  at::Tensor decision_;                 // AdamwState, as floats, beside the gradients
  at::Tensor partials_;                 // on a GPU: scratch
  std::optional<gpu::HostExchange> exchange_;
};

}  // namespace tritonforge::train
