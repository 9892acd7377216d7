#include "train/micro_batches.h"

#include <algorithm>

namespace tritonforge::train {
namespace {

// Those whose gradient is not zero whatever the model gives: the rest count in the denominators and are not computed.
// One of them, where there are no others, so that the step has its figures.
std::vector<size_t> taught(StepKind kind, const std::vector<TrainSequence>& sequences, const LossConfig& loss) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (kind == StepKind::kSft || has_gradient(sequences[i], loss)) indices.push_back(i);
  }
  if (indices.empty() && !sequences.empty()) indices.push_back(0);
  return indices;
}

// The sequences of each micro-batch of each rank.
struct Plan {
  std::vector<std::vector<std::vector<size_t>>> ranks;
  double longest = 0;  // operations of the rank that has the most
};

class Planner {
 public:
  Planner(const std::vector<TrainSequence>& sequences, const std::vector<size_t>& indices, const TrainConfig& config,
          const model::ModelConfig& shape, const SharedPrefixes& prefixes)
      : sequences_(sequences), indices_(indices), config_(config), flops_(shape), prefixes_(prefixes) {}

  // What begins alike stays together in parts of at most so many tokens. Of several ranks smaller parts are evener, and
  // have more tokens in all: the best of some.
  Plan best() const {
    const int64_t capacity = config_.max_tokens_per_micro_batch, ranks = config_.parallel.dp,
                  tokens = tokens_of(prefixes_.segments(indices_));
    Plan best = plan(capacity);
    if (ranks == 1) return best;
    for (const int64_t parts : {1, 2, 4, 8}) {
      Plan other = plan(std::min(capacity, tokens / (parts * ranks)));
      if (other.longest < best.longest) best = std::move(other);
    }
    return best;
  }

 private:
  double cost_of(const std::vector<size_t>& together) const {
    int64_t targets = 0;
    for (const size_t index : together) targets += target_count(sequences_[index]);
    return training_flops(flops_, prefixes_.segments(together), targets);
  }

  Plan plan(int64_t limit) const {
    const auto parts = prefixes_.parts(indices_, limit);
    std::vector<int64_t> lengths;
    std::vector<double> costs;
    for (const auto& part : parts) {
      lengths.push_back(tokens_of(prefixes_.segments(part)));
      costs.push_back(cost_of(part));
    }
    Plan plan;
    for (const auto& bins : share_out(lengths, costs, config_.max_tokens_per_micro_batch, config_.parallel.dp)) {
      auto& batches = plan.ranks.emplace_back();
      double cost = 0;
      for (const auto& bin : bins) {
        auto& together = batches.emplace_back();
        for (const size_t part : bin) together.insert(together.end(), parts[part].begin(), parts[part].end());
        cost += cost_of(together);
      }
      plan.longest = std::max(plan.longest, cost);
    }
    return plan;
  }

  const std::vector<TrainSequence>& sequences_;
  const std::vector<size_t>& indices_;
  const TrainConfig& config_;
  const TrainingFlops flops_;
  const SharedPrefixes& prefixes_;
};

}  // namespace

std::vector<MicroBatch> micro_batches(StepKind kind, const std::vector<TrainSequence>& sequences,
                                      const TrainConfig& config, const std::vector<int64_t>& versions,
                                      const model::ModelConfig& shape, const std::optional<SharingCosts>& sharing,
                                      bool pinned, int64_t rank) {
  const std::vector<double> weights = loss_weights(sequences, config.loss);
  const std::vector<size_t> indices = taught(kind, sequences, config.loss);
  const SharedPrefixes prefixes(sequences, indices, sharing);
  const Plan plan = Planner(sequences, indices, config, shape, prefixes).best();
  std::vector<MicroBatch> batches;
  for (const auto& together : plan.ranks[static_cast<size_t>(rank)])
    batches.push_back(pack_micro_batch(sequences, prefixes.segments(together), weights, versions, pinned));
  return batches;
}

}  // namespace tritonforge::train
