#include "train/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

struct Shared {
  int64_t tokens = 0, shared = 0, sequences = 0;
  double most = 0, operations = 0;  // of a rank; of all
};

Shared share_out(const std::vector<TrainSequence>& sequences, int64_t ranks, bool share, int64_t capacity) {
  TrainConfig config = sample_train_config();
  config.max_tokens_per_micro_batch = capacity;
  config.parallel.dp = ranks;
  const model::ModelConfig shape = sample_config();
  std::optional<SharingCosts> sharing;
  if (share) sharing = SharingCosts{TrainingFlops(shape), {.unit = 1, .block = 32}};
  Shared all;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    double cost = 0;
    for (const MicroBatch& batch :
         micro_batches(StepKind::kRl, sequences, config, {0}, shape, sharing, /*pinned=*/false, rank)) {
      EXPECT_LE(batch.tokens, capacity);
      all.tokens += batch.tokens;
      all.shared += batch.shared_tokens;
      all.sequences += batch.lengths.numel();
      cost += training_flops(shape, batch);
    }
    all.operations += cost;
    all.most = std::max(all.most, cost);
  }
  return all;
}

TEST(MicroBatches, HaveEverySequenceOnceWhateverIsShared) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto sequences = sample_groups(1 + seed % 3, 7, 10 + 8 * seed, seed);
    for (const int64_t ranks : {1, 2, 5}) {
      for (const int64_t capacity : {130, 4096}) {
        const Shared a = share_out(sequences, ranks, true, capacity), b = share_out(sequences, ranks, false, capacity);
        EXPECT_EQ(a.sequences, std::ssize(sequences));
        EXPECT_EQ(b.sequences, std::ssize(sequences));
        EXPECT_EQ(a.tokens + a.shared, b.tokens);
        EXPECT_EQ(b.shared, 0);
        if (ranks == 1) EXPECT_LE(a.operations, b.operations);
        else EXPECT_LE(a.most, 1.05 * b.most) << ranks << " ranks, capacity " << capacity << ", seed " << seed;
      }
    }
  }
}

// All begin alike and would fit into one micro-batch: each rank computes the prompt, for half of the answers.
TEST(MicroBatches, OfOnePromptAreForAllRanks) {
  const Shared alone = share_out(sample_groups(1, 8, 40, 1), 1, true, 4096),
               two = share_out(sample_groups(1, 8, 40, 1), 2, true, 4096);
  EXPECT_LT(two.most, 0.75 * alone.most);
  EXPECT_GT(two.shared, 0);
  EXPECT_LT(two.shared, alone.shared);
}

}  // namespace
}  // namespace tritonforge::train
