#include "train/prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

using testing::ElementsAre;

// The last `targets` tokens are targets.
TrainSequence sequence(std::vector<int64_t> tokens, size_t targets) {
  TrainSequence s;
  const size_t n = tokens.size();
  s.tokens = std::move(tokens);
  s.loss_mask.assign(n - targets, 0);
  s.loss_mask.resize(n, 1);
  s.old_log_probs.assign(n, 0);
  s.advantages.assign(n, 1);
  s.weight_versions.assign(n, 0);
  return s;
}

SharingCosts costs(int64_t unit = 1, int64_t block = 0) {
  return {TrainingFlops(sample_config()), {.unit = unit, .block = block}};
}

std::vector<size_t> all_of(const std::vector<TrainSequence>& sequences) {
  std::vector<size_t> indices(sequences.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  return indices;
}

// {sequence, begin, end, parent, has_targets} of each.
using Row = std::tuple<size_t, int64_t, int64_t, int64_t, bool>;
std::vector<Row> rows(const std::vector<Segment>& segments) {
  std::vector<Row> rows;
  for (const Segment& s : segments) rows.emplace_back(s.sequence, s.begin, s.end, s.parent, s.has_targets);
  return rows;
}

TEST(SharedPrefixes, OfOnePromptIsAllButItsLastToken) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 4, 10, 11}, 2), sequence({9, 9, 9}, 1),
                                             sequence({1, 2, 3, 4, 10, 12, 13}, 3)};
  const auto indices = all_of(sequences);
  // The row of the prompt's last token predicts the first target; the last target's row is not computed.
  EXPECT_THAT(
      rows(SharedPrefixes(sequences, indices, costs()).segments(indices)),
      ElementsAre(Row{0, 0, 3, -1, false}, Row{0, 3, 5, 0, true}, Row{2, 3, 6, 0, true}, Row{1, 0, 2, -1, true}));
  EXPECT_THAT(rows(SharedPrefixes(sequences, indices, std::nullopt).segments(indices)),
              ElementsAre(Row{0, 0, 5, -1, true}, Row{1, 0, 2, -1, true}, Row{2, 0, 6, -1, true}));
}

// What all prompts begin with; one prompt's samples; turns whose history was cut, the later ones with more of it.
TEST(SharedPrefixes, FormATree) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 4, 50}, 1), sequence({1, 2, 3, 4, 5, 6, 7, 60}, 1),
                                             sequence({1, 2, 8, 9, 70}, 1), sequence({1, 2, 3, 4, 5, 6, 8, 80}, 1)};
  const auto indices = all_of(sequences);
  const SharedPrefixes prefixes(sequences, indices, costs());
  EXPECT_THAT(rows(prefixes.segments(indices)),
              ElementsAre(Row{0, 0, 2, -1, false}, Row{0, 2, 3, 0, false}, Row{0, 3, 4, 1, true},
                          Row{1, 3, 6, 1, false}, Row{1, 6, 7, 3, true}, Row{3, 6, 7, 3, true}, Row{2, 2, 4, 0, true}));
  // Where some are elsewhere, what only one has is its own.
  EXPECT_THAT(rows(prefixes.segments({3, 2})),
              ElementsAre(Row{3, 0, 2, -1, false}, Row{3, 2, 7, 0, true}, Row{2, 2, 4, 0, true}));
  EXPECT_THAT(rows(prefixes.segments({1})), ElementsAre(Row{1, 0, 7, -1, true}));
}

TEST(SharedPrefixes, EndAtTheLayoutsUnits) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 4, 5, 6, 7, 8, 9}, 1),
                                             sequence({1, 2, 3, 4, 5, 6, 7, 8, 10}, 1),
                                             sequence({1, 2, 3, 4, 5, 0, 7, 8, 10}, 1)};
  const auto indices = all_of(sequences);
  EXPECT_THAT(
      rows(SharedPrefixes(sequences, indices, costs(/*unit=*/4)).segments(indices)),
      ElementsAre(Row{0, 0, 4, -1, false}, Row{0, 4, 8, 0, true}, Row{1, 4, 8, 0, true}, Row{2, 4, 8, 0, true}));
}

// A token that is shared saves its products; every token behind meets half of a block of nobody's keys.
TEST(SharedPrefixes, AreThoseThatSaveOperations) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 9}, 1), sequence({1, 2, 3, 9}, 1)};
  const auto indices = all_of(sequences);
  const TrainingFlops flops(sample_config());
  const auto shared = [&](double block) {
    return SharedPrefixes(sequences, indices, costs(1, static_cast<int64_t>(block))).segments(indices).size() > 2;
  };
  const double saved = flops.of_run(0, 2), of_a_key = 2 * flops.pair;  // a row behind for each
  EXPECT_TRUE(shared(std::floor(2 * saved / of_a_key) - 1));
  EXPECT_FALSE(shared(std::ceil(2 * saved / of_a_key) + 1));
}

TEST(SharedPrefixes, ATargetIsNeverAmongThem) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 4, 5}, 3), sequence({1, 2, 3, 4, 5}, 3),
                                             sequence({1, 2, 3, 4, 5}, 1), sequence({1, 2}, 1)};
  const auto indices = all_of(sequences);
  for (const Segment& s : SharedPrefixes(sequences, indices, costs()).segments(indices)) {
    if (s.has_targets) continue;
    EXPECT_LE(s.end, s.sequence == 2 ? 3 : 1);
  }
}

// The tokens of every sequence are those of the segments on its way, once each.
void expect_whole(const std::vector<TrainSequence>& sequences, const std::vector<Segment>& segments,
                  std::vector<int>& seen) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    EXPECT_LT(s.parent, static_cast<int64_t>(i));
    EXPECT_LT(s.begin, s.end);
    int64_t end = s.begin;
    for (int64_t p = s.parent; p >= 0; p = segments[static_cast<size_t>(p)].parent) {
      const Segment& of = segments[static_cast<size_t>(p)];
      EXPECT_FALSE(of.has_targets);
      EXPECT_EQ(of.end, end);
      const auto &a = sequences[s.sequence].tokens, &b = sequences[of.sequence].tokens;
      EXPECT_TRUE(std::equal(a.begin() + of.begin, a.begin() + of.end, b.begin() + of.begin));
      end = of.begin;
    }
    EXPECT_EQ(end, 0);
    if (i > 0) {  // all that goes on from a segment is behind it
      bool inside = s.parent < 0;
      for (int64_t p = static_cast<int64_t>(i) - 1; p >= 0; p = segments[static_cast<size_t>(p)].parent)
        inside |= p == s.parent;
      EXPECT_TRUE(inside);
    }
    if (!s.has_targets) continue;
    EXPECT_EQ(s.end, forward_length(sequences[s.sequence]));
    ++seen[s.sequence];
  }
}

TEST(SharedPrefixes, PartsAndWhatIsPutTogetherOfThemHaveEverySequenceOnceAndNoMoreTokensThanTheyMay) {
  Rng rng(1);
  for (uint64_t round = 0; round < 40; ++round) {
    const size_t groups = 1 + rng.below(5), samples = 1 + rng.below(7);
    auto sequences = sample_groups(groups, samples, 2 + rng.below(60), round);
    const auto indices = all_of(sequences);
    const int64_t unit = round % 2 == 0 ? 1 : 16, limit = 60 + static_cast<int64_t>(rng.below(300));
    const SharedPrefixes prefixes(sequences, indices, costs(unit));
    const auto parts = prefixes.parts(indices, limit);
    std::vector<int> seen(sequences.size());
    std::vector<size_t> some;
    int64_t tokens = 0;
    for (const auto& part : parts) {
      const auto segments = prefixes.segments(part);
      expect_whole(sequences, segments, seen);
      EXPECT_TRUE(part.size() == 1 || tokens_of(segments) <= limit) << part.size();
      if (rng.below(2) == 0) continue;
      some.insert(some.end(), part.begin(), part.end());
      tokens += tokens_of(segments);
    }
    EXPECT_THAT(seen, testing::Each(1));
    const auto together = prefixes.segments(some);
    std::vector<int> again(sequences.size());
    expect_whole(sequences, together, again);
    EXPECT_EQ(std::accumulate(again.begin(), again.end(), size_t{0}), some.size());
    EXPECT_LE(tokens_of(together), tokens);
  }
}

TEST(SharedPrefixes, WithoutCostsEachSequenceIsAPart) {
  const auto sequences = sample_groups(2, 3, 20, 1);
  const auto indices = all_of(sequences);
  const auto parts = SharedPrefixes(sequences, indices, std::nullopt).parts(indices, 1000);
  ASSERT_EQ(parts.size(), sequences.size());
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_THAT(parts[i], ElementsAre(i));
}

TEST(SharedPrefixes, ArePackedOnce) {
  const std::vector<TrainSequence> sequences{sequence({1, 2, 3, 10, 11}, 2), sequence({1, 2, 3, 20}, 1)};
  const auto indices = all_of(sequences);
  const MicroBatch batch = pack_micro_batch(sequences, SharedPrefixes(sequences, indices, costs()).segments(indices),
                                            {0.25, 0.5}, {0}, false);
  const auto ints = [](const at::Tensor& t) {
    return std::vector<int64_t>(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
  };
  EXPECT_THAT(ints(batch.ids), ElementsAre(1, 2, 3, 10, 3));
  EXPECT_THAT(ints(batch.positions), ElementsAre(0, 1, 2, 3, 2));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(batch.parents, ElementsAre(-1, 0, 0));
  EXPECT_THAT(batch.before, ElementsAre(0, 2, 2));
  EXPECT_THAT(ints(batch.rows), ElementsAre(2, 3, 4));
  EXPECT_THAT(ints(batch.targets), ElementsAre(10, 11, 20));
  EXPECT_THAT(ints(batch.lengths), ElementsAre(2, 1));
  EXPECT_EQ(batch.tokens, 5);
  EXPECT_EQ(batch.shared_tokens, 2);
  // What is computed: two tokens of products less, their attention to each other too.
  const model::ModelConfig shape = sample_config();
  const TrainingFlops flops(shape);
  EXPECT_DOUBLE_EQ(training_flops(shape, std::vector<int64_t>{4, 3}, 3) - training_flops(shape, batch),
                   flops.of_run(0, 2));
}

}  // namespace
}  // namespace tritonforge::train
