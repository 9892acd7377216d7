#include "engine/gpu_batch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "engine/sizing.h"

namespace tritonforge::engine {
namespace {

class GpuBatchTest : public testing::Test {
 protected:
  void fill(const Plan& plan, const std::vector<kernels::SampleRow>& rows) {
    std::ranges::fill(arena, std::byte{0xEE});  // what is not written must not be read
    batch = fill_gpu_batch(plan, rows, 1000, arena);
  }
  template <typename T = int32_t>
  std::vector<T> read(int64_t at, int64_t count) const {
    std::vector<T> values(static_cast<size_t>(count));
    std::memcpy(values.data(), arena.data() + at, values.size() * sizeof(T));
    return values;
  }
  Sequence sequence(int64_t tokens, std::vector<int32_t> blocks) {
    Sequence made;
    for (int64_t i = 0; i < tokens; ++i) made.tokens.push_back(100 + i);
    made.blocks = std::move(blocks);
    return made;
  }
  std::vector<std::byte> arena{static_cast<size_t>(gpu_batch_bytes(64, 8, 512))};
  GpuBatch batch;
};

using Ints = std::vector<int32_t>;

TEST_F(GpuBatchTest, DecodesComeFirstAndPromptsFollowRagged) {
  Sequence prompt = sequence(40, {3, 7, 2}), decode = sequence(18, {5, 9}), late = sequence(33, {4, 6, 8});
  late.pending = 1;  // token 33 is drawn and not read: row 2 of the step before
  late.pending_row = 2;
  Plan plan;
  plan.chunks = {{&prompt, 30, 3, false}, {&decode, 17, 1, true}, {&late, 33, 1, true}};
  plan.tokens = 5;
  plan.samples = 2;
  fill(plan, {{.temperature = 0.5f, .top_k = 7, .seed = 11, .position = 18}, {.seed = 12, .position = 34}});

  EXPECT_EQ(batch.decodes, 2);
  EXPECT_EQ(batch.prompts, 1);
  EXPECT_EQ(batch.decode_rows, 2);
  EXPECT_EQ(batch.tokens, 8);  // 2 + 3, padded
  EXPECT_FALSE(batch.decode_only);
  EXPECT_TRUE(batch.cuts);
  EXPECT_EQ(batch.longest_query, 3);
  EXPECT_EQ(read(batch.ids, 8), (Ints{117, 0, 130, 131, 132, 0, 0, 0}));
  const auto rows_of = [&](std::initializer_list<int64_t> tokens) {
    Ints rows;
    for (const int64_t token : tokens) rows.push_back(static_cast<int32_t>(row_of_token(plan, batch, token)));
    return rows;
  };
  EXPECT_EQ(rows_of({0, 1, 2, 3, 4}), (Ints{2, 3, 4, 0, 1}));
  EXPECT_EQ(read(batch.positions, 8), (Ints{17, 33, 30, 31, 32, 0, 0, 0}));
  EXPECT_EQ(read(batch.slots, 8), (Ints{9 * 16 + 1, 8 * 16 + 1, 7 * 16 + 14, 7 * 16 + 15, 2 * 16, 0, 0, 0}));
  EXPECT_EQ(read(batch.sources, 2), (Ints{-1, 2}));
  EXPECT_EQ(read(batch.decode_lengths, 2), (Ints{18, 34}));
  EXPECT_EQ(read(batch.decode_tables, 2), (Ints{5, 9}));
  EXPECT_EQ(read(batch.decode_tables + batch.decode_width * 4, 3), (Ints{4, 6, 8}));
  EXPECT_EQ(read(batch.query_starts, 2), (Ints{2, 5}));
  EXPECT_EQ(read(batch.prompt_lengths, 1), (Ints{33}));
  EXPECT_EQ(read(batch.prompt_tables, 3), (Ints{3, 7, 2}));
  EXPECT_EQ(read(batch.sample_rows, 2), (Ints{0, 1}));
  EXPECT_EQ(read<float>(batch.temperature, 2), (std::vector<float>{0.5f, 1}));
  EXPECT_EQ(read(batch.top_k, 2), (Ints{7, -1}));
  EXPECT_EQ(read<uint64_t>(batch.seed, 2), (std::vector<uint64_t>{11, 12}));
  EXPECT_EQ(read<uint64_t>(batch.position, 2), (std::vector<uint64_t>{18, 34}));
}

// Each draft is a row of its own: as long as it is far, over the blocks of its sequence.
TEST_F(GpuBatchTest, DraftsAreRowsOfTheirOwn) {
  Sequence drafting = sequence(18, {5, 9}), plain = sequence(33, {4, 6, 8});
  drafting.drafts = {700, 701};
  Plan plan;
  plan.chunks = {{&drafting, 17, 3, true, 2}, {&plain, 32, 1, true}};
  plan.tokens = plan.samples = 4;
  fill(plan, {{.seed = 11, .position = 18}, {.seed = 11, .position = 19}, {.seed = 11, .position = 20}, {.seed = 12}});
  EXPECT_EQ(batch.decodes, 4);
  EXPECT_EQ(batch.decode_rows, 4);
  EXPECT_EQ(batch.prompts, 0);
  EXPECT_TRUE(batch.decode_only);
  EXPECT_EQ(read(batch.ids, 4), (Ints{117, 700, 701, 132}));
  EXPECT_EQ(read(batch.positions, 4), (Ints{17, 18, 19, 32}));
  EXPECT_EQ(read(batch.slots, 4), (Ints{9 * 16 + 1, 9 * 16 + 2, 9 * 16 + 3, 8 * 16}));
  EXPECT_EQ(read(batch.sources, 4), Ints(4, -1));
  EXPECT_EQ(read(batch.decode_lengths, 4), (Ints{18, 19, 20, 33}));
  for (int64_t row = 0; row < 3; ++row)
    EXPECT_EQ(read(batch.decode_tables + row * batch.decode_width * 4, 2), (Ints{5, 9})) << row;
  EXPECT_EQ(read(batch.decode_tables + 3 * batch.decode_width * 4, 3), (Ints{4, 6, 8}));
  EXPECT_EQ(read(batch.sample_rows, 4), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(read<uint64_t>(batch.position, 4), (std::vector<uint64_t>{18, 19, 20, 0}));

  // The rows of one sequence read what they begin with together.
  drafting = sequence(60, {1, 2, 10, 3});
  drafting.drafts = {700, 701};
  plan.chunks[0] = {&drafting, 59, 3, true, 2};
  batch = fill_gpu_batch(plan, std::vector<kernels::SampleRow>(4), 1000, arena, {.most_members = 8, .least_saved = 1});
  EXPECT_EQ(batch.groups, 2);
  EXPECT_EQ(read(batch.prefix_pages, 4), (Ints{3, 3, 3, 0}));
}

// Prompts whose pages are widened: as many to a run as there is room for, each with the run's next pages.
TEST_F(GpuBatchTest, PromptsAreWidenedInRuns) {
  Sequence first = sequence(40, {3, 7, 2}), decode = sequence(18, {5, 9}), second = sequence(33, {4, 6, 8}),
           third = sequence(20, {11, 10});
  Plan plan;
  plan.chunks = {{&first, 30, 3, false}, {&decode, 17, 1, true}, {&second, 0, 32, true}, {&third, 0, 17, true}};
  plan.tokens = 53;
  plan.samples = 3;
  const auto fill_for = [&](int64_t pages) {
    arena.assign(static_cast<size_t>(gpu_batch_bytes(64, 8, 512, pages)), std::byte{0xEE});
    batch = fill_gpu_batch(plan, std::vector<kernels::SampleRow>(3), 1000, arena, {}, pages);
  };
  const auto table = [&](int64_t prompt, int64_t pages) {
    return read(batch.widened_tables + prompt * batch.prompt_width * 4, pages);
  };
  fill_for(32);
  EXPECT_EQ(batch.runs, (std::vector<int64_t>{3}));
  EXPECT_EQ(table(0, 3), (Ints{0, 1, 2}));
  EXPECT_EQ(table(1, 2), (Ints{3, 4}));
  EXPECT_EQ(table(2, 2), (Ints{5, 6}));
  fill_for(5);
  EXPECT_EQ(batch.runs, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(table(1, 2), (Ints{3, 4}));
  EXPECT_EQ(table(2, 2), (Ints{0, 1}));
  fill_for(3);
  EXPECT_EQ(batch.runs, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(table(1, 2), (Ints{0, 1}));
  EXPECT_EQ(read(batch.prompt_tables, 3), (Ints{3, 7, 2}));
  plan.chunks = {{&decode, 17, 1, true}};
  plan.tokens = plan.samples = 1;
  batch = fill_gpu_batch(plan, std::vector<kernels::SampleRow>(1), 1000, arena, {}, 3);
  EXPECT_TRUE(batch.runs.empty());
}

// The same holds for a prompt alone: its length counts by its size class. Beside a decode there is no graph.
TEST_F(GpuBatchTest, APromptsPlacesFollowFromItsShapeWhereItIsAlone) {
  Sequence first = sequence(40, {3, 7, 2}), second = sequence(36, {5, 9, 1}), decode = sequence(18, {4, 6});
  const auto prompt = [&](Sequence& s, int64_t count, bool draws) {
    Plan plan;
    plan.chunks = {{&s, std::ssize(s.tokens) - count, count, draws}};
    plan.tokens = count;
    plan.samples = draws ? 1 : 0;
    fill(plan, std::vector<kernels::SampleRow>(draws ? 1 : 0));
    return batch;
  };
  const GpuBatch longer = prompt(first, 40, true), shorter = prompt(second, 33, true),
                 silent = prompt(first, 40, false);
  EXPECT_TRUE(longer.repeats());
  EXPECT_EQ(longer.shape(), shorter.shape());
  EXPECT_NE(longer.shape(), silent.shape());
  EXPECT_EQ(longer.longest_query, 40);
  EXPECT_EQ(shorter.longest_query, 40);  // the launch must not depend on what the class holds
  EXPECT_EQ(longer.prompt_tables, shorter.prompt_tables);
  EXPECT_EQ(longer.sample_rows, shorter.sample_rows);
  EXPECT_EQ(longer.bytes, shorter.bytes);
  Plan both;
  both.chunks = {{&first, 10, 30, true}, {&decode, 17, 1, true}};
  both.tokens = 31;
  both.samples = 2;
  fill(both, std::vector<kernels::SampleRow>(2));
  EXPECT_FALSE(batch.repeats());
  EXPECT_EQ(batch.longest_query, 30);
}

// A graph finds the inputs of every decode of its shape in the same places.
TEST_F(GpuBatchTest, ADecodesPlacesFollowFromItsShape) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < 6; ++i) sequences.push_back(sequence(20 + i, {1, 2}));
  const auto decode = [&](size_t count) {
    Plan plan;
    std::vector<kernels::SampleRow> rows;
    for (size_t i = 0; i < count; ++i) {
      Sequence& s = sequences[i];
      plan.chunks.push_back({&s, std::ssize(s.tokens) - 1, 1, true});
      rows.push_back({.seed = i});
    }
    plan.tokens = plan.samples = static_cast<int64_t>(count);
    fill(plan, rows);
    return batch;
  };
  const GpuBatch five = decode(5), six = decode(6);
  EXPECT_TRUE(five.decode_only);
  EXPECT_EQ(five.shape(), six.shape());
  EXPECT_EQ(five.ids, six.ids);
  EXPECT_EQ(five.decode_tables, six.decode_tables);
  EXPECT_EQ(five.position, six.position);
  EXPECT_EQ(five.bytes, six.bytes);
  decode(5);
  EXPECT_EQ(read(batch.decode_lengths, 8), (Ints{20, 21, 22, 23, 24, 0, 0, 0}));
  EXPECT_EQ(read<float>(batch.temperature, 8), (std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(read(batch.sources, 8), Ints(8, -1));
}

// Rows 0 and 3 share two blocks, 1 and 4 one; row 2 and the padding are alone. The new token's block is nobody else's.
TEST_F(GpuBatchTest, DecodesThatBeginAlikeAreGroups) {
  std::vector<Sequence> sequences{sequence(40, {1, 2, 3}), sequence(20, {4, 5}), sequence(17, {6, 7}),
                                  sequence(48, {1, 2, 8}), sequence(17, {4, 9})};
  Plan plan;
  std::vector<kernels::SampleRow> rows;
  for (Sequence& s : sequences) {
    plan.chunks.push_back({&s, std::ssize(s.tokens) - 1, 1, true});
    rows.push_back({.seed = 1});
  }
  plan.tokens = plan.samples = 5;
  std::ranges::fill(arena, std::byte{0xEE});
  // A block a member is what merging costs: only the two with two blocks gain.
  EXPECT_EQ(fill_gpu_batch(plan, rows, 1000, arena, {.most_members = 8, .least_saved = 1}).groups, 0);
  sequences[0].blocks = {1, 2, 10, 3};
  sequences[3].blocks = {1, 2, 10, 8};
  for (int i : {0, 3}) {
    sequences[static_cast<size_t>(i)].tokens.resize(60);
    plan.chunks[static_cast<size_t>(i)].start = 59;
  }
  batch = fill_gpu_batch(plan, rows, 1000, arena, {.most_members = 8, .least_saved = 1});
  EXPECT_EQ(batch.groups, 4);
  EXPECT_TRUE(batch.shape().shared);
  EXPECT_EQ(read(batch.prefix_pages, 8), (Ints{3, 0, 0, 3, 0, 0, 0, 0}));
  EXPECT_EQ(read(batch.group_starts, 5), (Ints{0, 2, 2, 2, 2}));
  Ints members = read(batch.members, 8);
  std::sort(members.begin(), members.begin() + 2);
  EXPECT_EQ(members, (Ints{0, 3, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fill_gpu_batch(plan, rows, 1000, arena, {.most_members = 8, .least_saved = 2}).groups, 0);
  EXPECT_EQ(fill_gpu_batch(plan, rows, 1000, arena).groups, 0);
}

TEST_F(GpuBatchTest, TheArenaHoldsEveryPlanOfItsLimits) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Sequence> sequences(1 + rng.below(8));
    Plan plan;
    std::vector<kernels::SampleRow> rows;
    int64_t budget = 64 - std::ssize(sequences);
    for (Sequence& s : sequences) {
      const auto start = static_cast<int64_t>(rng.below(400));
      const auto extra = static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::min<int64_t>(budget, 100)) + 1));
      budget -= extra;
      s = sequence(start + 1 + extra, {});
      for (int64_t i = 0; i * kBlockSize < start + 1 + extra; ++i) s.blocks.push_back(static_cast<int32_t>(1 + i));
      plan.chunks.push_back({&s, start, 1 + extra, rng.below(2) == 0});
      plan.tokens += 1 + extra;
      if (plan.chunks.back().samples) rows.push_back({.seed = 1});
    }
    plan.samples = std::ssize(rows);
    fill(plan, rows);
    EXPECT_LE(batch.bytes, std::ssize(arena));
    EXPECT_GE(batch.tokens, plan.tokens);
  }
}

}  // namespace
}  // namespace tritonforge::engine
