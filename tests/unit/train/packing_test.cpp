#include "train/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<TrainSequence>& sequences, int64_t max_position = 128) {
  try {
    check_sequences(sequences, sample_train_config(), 61, max_position);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(Packing, EveryIndexOnceAndNoBinOverfull) {
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> lengths;
    for (uint64_t i = rng.below(60); i > 0; --i) lengths.push_back(1 + static_cast<int64_t>(rng.below(100)));
    std::vector<int> seen(lengths.size());
    const auto bins = pack_lengths(lengths, 100);
    for (const auto& bin : bins) {
      int64_t tokens = 0;
      for (const size_t index : bin) {
        tokens += lengths[index];
        ++seen[index];
      }
      EXPECT_LE(tokens, 100);
    }
    EXPECT_THAT(seen, testing::Each(1));
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const double least = std::ceil(static_cast<double>(total) / 100);
    EXPECT_LE(static_cast<double>(bins.size()), 2 * least + 1);
  }
}

TEST(Packing, LongestFirstIntoTheFirstThatFits) {
  EXPECT_EQ(pack_lengths({3, 9, 7, 1}, 10), (std::vector<std::vector<size_t>>{{1, 3}, {2, 0}}));
  EXPECT_TRUE(pack_lengths({}, 10).empty());
}

using Shares = std::vector<std::vector<std::vector<size_t>>>;

TEST(ShareOut, OneRankHasWhatFirstFitPacks) {
  EXPECT_EQ(share_out({3, 9, 7, 1}, {1, 1, 1, 1}, 10, 1), (Shares{pack_lengths({3, 9, 7, 1}, 10)}));
}

TEST(ShareOut, TheMostExpensiveGoIntoTheCheapestBinWithRoom) {
  // Long sequences cost more a token; four bins are the least.
  EXPECT_EQ(share_out({3, 9, 3, 3, 9, 3}, {9, 81, 9, 9, 81, 9}, 10, 2), (Shares{{{1}, {2, 5}}, {{4}, {0, 3}}}));
  // The cheapest bin has no room for the last one.
  EXPECT_EQ(share_out({9, 6, 4}, {20, 30, 5}, 10, 2), (Shares{{{1, 2}}, {{0}}}));
}

TEST(ShareOut, WhoHasTheMostExpensiveBinHasTheCheapestOfTheNextRound) {
  EXPECT_EQ(share_out({10, 9, 8, 7}, {10, 8, 3, 1}, 10, 2), (Shares{{{0}, {3}}, {{1}, {2}}}));
}

// Three bins would do for all, of which one rank would have two.
TEST(ShareOut, BinsAreAsManyForEachRank) {
  EXPECT_EQ(share_out({5, 5, 5, 5, 5, 5}, {1, 1, 1, 1, 1, 1}, 10, 2), (Shares{{{0, 4}, {3}}, {{1, 5}, {2}}}));
}

TEST(ShareOut, EveryIndexOnceNoBinOverfullAndRanksAlike) {
  Rng rng(3);
  for (const int64_t ranks : {2, 3, 8}) {
    for (int round = 0; round < 30; ++round) {
      std::vector<int64_t> lengths;
      std::vector<double> costs;
      for (uint64_t i = 1 + rng.below(80); i > 0; --i) {
        lengths.push_back(1 + static_cast<int64_t>(rng.below(100)));
        costs.push_back(static_cast<double>(lengths.back() * (200 + lengths.back())));
      }
      const Shares shares = share_out(lengths, costs, 100, ranks);
      ASSERT_EQ(std::ssize(shares), ranks);
      std::vector<int> seen(lengths.size());
      size_t least = lengths.size(), most = 0;
      for (const auto& bins : shares) {
        least = std::min(least, bins.size());
        most = std::max(most, bins.size());
      }
      std::vector<double> cost(shares.size());
      std::array<double, 2> apart{};  // of the rounds there, and of those back: what its bins' costs differ by
      for (size_t round_of_bins = 0; round_of_bins < most; ++round_of_bins) {
        std::vector<double> bin_costs(shares.size());  // who has none in the last round pays nothing
        for (size_t rank = 0; rank < shares.size(); ++rank) {
          if (round_of_bins >= shares[rank].size()) continue;
          int64_t tokens = 0;
          for (const size_t index : shares[rank][round_of_bins]) {
            tokens += lengths[index];
            bin_costs[rank] += costs[index];
            ++seen[index];
          }
          EXPECT_LE(tokens, 100);
          cost[rank] += bin_costs[rank];
        }
        const auto [cheapest, dearest] = std::ranges::minmax(bin_costs);
        apart[round_of_bins % 2] += dearest - cheapest;
      }
      EXPECT_THAT(seen, testing::Each(1));
      EXPECT_LE(most, least + 1);
      // What a round gives one rank more than another, the next one, dealt the other way, takes back: at most the
      // rounds of one direction are left. And bins are so even that this is never more than a sequence here.
      const auto [low, high] = std::ranges::minmax(cost);
      EXPECT_LE(high - low, std::ranges::max(apart) + 1e-6) << ranks << " ranks, round " << round;
      EXPECT_LE(high - low, std::ranges::max(costs)) << ranks << " ranks, round " << round;
    }
  }
}

TEST(Packing, AMicroBatchAlignsRowsWithTheTargetsTheyPredict) {
  TrainSequence a, b;
  a.tokens = {10, 11, 12, 13, 14};
  a.loss_mask = {0, 0, 1, 1, 0};  // 14 is no target: neither it nor 13 need be run
  a.old_log_probs = {0, 0, -1, -2, 0};
  a.advantages = {0, 0, 0.5f, 0.5f, 0};
  a.weight_versions = {-1, -1, 7, 8, -1};
  b.tokens = {20, 21};
  b.loss_mask = {0, 1};
  b.old_log_probs = {0, -3};
  b.advantages = {0, -1};
  b.weight_versions = {-1, 8};
  b.temperature = 0.5;
  const std::vector<TrainSequence> sequences{a, b};
  EXPECT_EQ(forward_length(a), 3);
  EXPECT_EQ(forward_length(b), 1);
  const MicroBatch batch = make_micro_batch(sequences, {0, 1}, {0.25, 0.5}, {8}, at::kCPU);
  const auto ints = [](const at::Tensor& t) {
    return std::vector<int64_t>(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
  };
  const auto floats = [](const at::Tensor& t) {
    return std::vector<float>(t.data_ptr<float>(), t.data_ptr<float>() + t.numel());
  };
  EXPECT_EQ(ints(batch.ids), (std::vector<int64_t>{10, 11, 12, 20}));
  EXPECT_EQ(ints(batch.positions), (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int64_t>{0, 3, 4}));
  EXPECT_EQ(ints(batch.rows), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(ints(batch.targets), (std::vector<int64_t>{12, 13, 21}));
  EXPECT_EQ(floats(batch.weights), (std::vector<float>{0.25, 0.25, 0.5}));
  EXPECT_EQ(floats(batch.inverse_temperature), (std::vector<float>{1, 1, 2}));
  EXPECT_EQ(floats(batch.sampler_log_probs), (std::vector<float>{-1, -2, -3}));
  EXPECT_EQ(floats(batch.on_policy), (std::vector<float>{0, 0, 1})) << "13 was drawn over keys of older weights";
  EXPECT_EQ(ints(batch.lengths), (std::vector<int64_t>{2, 1}));
  EXPECT_FALSE(make_micro_batch(sequences, {0}, {0.25, 0.5}, {}, at::kCPU).inverse_temperature.defined());
}

TEST(Packing, TheNextAnswerHasACacheOfItsOwn) {
  TrainSequence s;
  s.tokens = {10, 11, 12, 13, 14};
  s.loss_mask = {0, 1, 1, 0, 1};  // 13 was said to it in between
  s.old_log_probs = {0, -1, -1, 0, -1};
  s.advantages = {0, 1, 1, 0, 1};
  s.weight_versions = {-1, 7, 8, -1, 8};
  const std::vector<TrainSequence> sequences{s};
  const at::Tensor on_policy = make_micro_batch(sequences, {0}, {1.0}, {8}, at::kCPU).on_policy;
  EXPECT_TRUE(at::equal(on_policy, at::tensor({0.0f, 0.0f, 1.0f})));
}

TEST(Packing, AdvantagesThatAreAllAlikeAreNormalizedToNothing) {
  auto sequences = sample_sequences(3, 2);
  for (TrainSequence& s : sequences) std::ranges::fill(s.advantages, 0.75f);
  normalize_advantages(sequences);
  for (const TrainSequence& s : sequences) {
    for (size_t t = 0; t < s.tokens.size(); ++t) EXPECT_EQ(s.advantages[t], s.loss_mask[t] ? 0 : 0.75f);
  }
  normalize_advantages({});
}

TEST(Packing, LossWeightsFollowTheirNames) {
  auto sequences = sample_sequences(3, 2);
  sequences[1].loss_mask.assign(sequences[1].tokens.size(), 0);
  const auto targets = [&](size_t i) {
    return std::accumulate(sequences[i].loss_mask.begin(), sequences[i].loss_mask.end(), 0.0);
  };
  LossConfig loss;
  loss.constant_tokens = 10;
  const auto weights = [&](std::string_view name) {
    loss.aggregation = from_name<Aggregation>(name, "aggregation");
    return loss_weights(sequences, loss);
  };
  const double all = targets(0) + targets(2);
  EXPECT_EQ(weights("token-mean"), (std::vector<double>{1 / all, 0, 1 / all}));
  EXPECT_EQ(weights("seq-mean-token-sum"), (std::vector<double>{0.5, 0, 0.5}));
  EXPECT_EQ(weights("seq-mean-token-mean"), (std::vector<double>{1 / (2 * targets(0)), 0, 1 / (2 * targets(2))}));
  EXPECT_EQ(weights("constant"), (std::vector<double>{0.05, 0, 0.05}));
}

TEST(Packing, WrongSequencesAreNamed) {
  auto good = sample_sequences(2, 4);
  EXPECT_EQ(refusal(good), "accepted");
  const auto spoiled = [&](auto spoil) {
    auto copy = good;
    spoil(copy[1]);
    return refusal(copy);
  };
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.loss_mask.pop_back(); }), HasSubstr("sequences[1] (t1): loss_mask has"));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.tokens[3] = 61; }),
              HasSubstr("token 61 at 3 is outside the vocabulary of 61"));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.tokens[3] = -1; }), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.loss_mask[0] = 1; }), HasSubstr("loss_mask[0]"));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.advantages.back() = std::nanf(""); }), HasSubstr("not finite"));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s.old_log_probs.back() = -INFINITY; }), HasSubstr("not finite"));
  for (const double temperature : {-0.5, std::nan(""), double{INFINITY}})
    EXPECT_THAT(spoiled([&](TrainSequence& s) { s.temperature = temperature; }), HasSubstr("is not a temperature"));
  const int64_t longest = std::ssize(std::ranges::max(good, {}, [](auto& s) { return s.tokens.size(); }).tokens);
  EXPECT_EQ(refusal(good, longest), "accepted");
  EXPECT_THAT(refusal(good, longest - 1), HasSubstr(fmt::format("the model has {} positions", longest - 1)));
  EXPECT_THAT(spoiled([](TrainSequence& s) { s = TrainSequence{}; }), HasSubstr("has no tokens"));
  EXPECT_THAT(spoiled([](TrainSequence& s) {
                s.tokens.resize(129);
                s.loss_mask.resize(129);
                s.old_log_probs.resize(129);
                s.advantages.resize(129);
                s.weight_versions.resize(129);
              }),
              HasSubstr("max_tokens_per_micro_batch is 128"));
}

// The engine samples from softmax(logits * (1.0f / T)): the trainer's factor is the same float, also where rounding 1 /
// T from double gives its neighbour.
TEST(Packing, TheInverseTemperatureIsTheSamplersOwn) {
  TrainSequence s;
  s.tokens = {1, 2, 3};
  s.loss_mask = {0, 1, 1};
  s.old_log_probs = s.advantages = {0, 0, 0};
  s.weight_versions = {0, 0, 0};
  for (int hundredths = 1; hundredths <= 300; ++hundredths) {
    if (hundredths == 100) continue;  // 1: none is given
    s.temperature = hundredths / 100.0;
    const MicroBatch batch = make_micro_batch(std::vector{s}, {0}, {0.5}, {}, at::kCPU);
    EXPECT_EQ(batch.inverse_temperature[0].item<float>(), 1.0f / static_cast<float>(s.temperature)) << s.temperature;
  }
}

}  // namespace
}  // namespace tritonforge::train
