#pragma once
// The runner of an engine of several tensor-parallel ranks: a runner each, on the rank's thread and with its part of
// the model. All are given the same plan and draw the same tokens, for each has the logits of the whole vocabulary.
#include <memory>
#include <vector>

#include "engine/gpu_ranks.h"
#include "engine/rank_team.h"
#include "engine/runner.h"
#include "model/parts.h"

namespace tritonforge::engine {

class TeamRunner : public Runner {
 public:
  using Make = std::function<std::unique_ptr<Runner>(int64_t rank)>;
  // Makes each runner on its rank's thread. gpus: what they share where they are GpuRunners.
  TeamRunner(std::unique_ptr<RankTeam> team, std::unique_ptr<GpuRanks> gpus, const model::Parts& parts,
             const Make& make);
  ~TeamRunner() override;
  void move_blocks(std::span<const BlockMove> moves) override;
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override;
  void ask(const Plan& plan, const LogitWork& work) override;
  const LogitAnswers& answers() const override { return ranks_.front()->answers(); }
  void forward() override;
  std::span<const kernels::Sampled> draw() override;
  void discard() override;
  void check_device(at::Device device) const override;  // of every rank
  bool runs_ahead() const override { return ranks_.front()->runs_ahead(); }
  GraphLaunches graph_launches() const override { return ranks_.front()->graph_launches(); }  // a rank's
  void take_memory() override;
  void release_memory() override;
  bool has_memory() const override { return ranks_.front()->has_memory(); }
  void weights_move() override;

 private:
  template <typename F>
  void each(const F& f) {
    team_->each([&](int64_t rank) { f(*ranks_[static_cast<size_t>(rank)]); });
  }
  const model::Parts parts_;
  const std::unique_ptr<GpuRanks> gpus_;  // the runners use both
  const std::unique_ptr<RankTeam> team_;
  std::vector<std::unique_ptr<Runner>> ranks_;
};

}  // namespace tritonforge::engine
