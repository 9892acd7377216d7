#include "engine/batch.h"

#include <gtest/gtest.h>

namespace tritonforge::engine {
namespace {

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

// Two sequences: one in the middle of its prompt, one that decodes; blocks of 4 tokens, not in order.
TEST(BatchBuffers, ListsSlotsOfTokensAndOfWholeContexts) {
  Sequence first, second;
  first.tokens = {10, 11, 12, 13, 14, 15, 16};
  first.blocks = {5, 2};
  second.tokens = {20, 21, 22, 23, 24, 25};
  second.blocks = {7, 1};
  Plan plan;
  plan.chunks = {{&first, 2, 4, false}, {&second, 5, 1, true}};
  plan.tokens = 5;
  plan.samples = 1;
  for (const bool pad : {false, true}) {
    BatchBuffers buffers(
        {.max_tokens = 16, .max_sequences = 4, .max_context = 16, .block_size = 4, .pad = pad, .list_context = true},
        at::kCPU);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the arena is used again
      const Batch& batch = buffers.fill(plan);
      EXPECT_EQ(numbers(batch.slots.slice(0, 0, 5)), (std::vector<int64_t>{22, 23, 8, 9, 5}));
      EXPECT_EQ(numbers(batch.context_slots), (std::vector<int64_t>{20, 21, 22, 23, 8, 9, 28, 29, 30, 31, 4, 5}));
      EXPECT_EQ(batch.total_context, 12);
      EXPECT_EQ(numbers(batch.context_starts.slice(0, 0, 3)), (std::vector<int64_t>{0, 6, 12}));
      EXPECT_EQ(numbers(batch.query_starts.slice(0, 0, 3)), (std::vector<int64_t>{0, 4, 5}));
      EXPECT_EQ(numbers(batch.sample_rows.slice(0, 0, 1)), (std::vector<int64_t>{4}));
      EXPECT_EQ(batch.ids.size(0), pad ? 8 : 5);
    }
  }
}

TEST(BatchBuffers, DrawsAfterEachDraft) {
  Sequence first, second;
  first.tokens = {10, 11, 12};
  first.drafts = {13, 14};
  first.blocks = {5, 2};
  second.tokens = {20, 21};
  second.blocks = {7};
  Plan plan;
  plan.chunks = {{&first, 2, 3, true, 2}, {&second, 1, 1, true}};
  plan.tokens = plan.samples = 4;
  BatchBuffers buffers({.max_tokens = 16, .max_sequences = 4, .max_context = 16, .block_size = 4}, at::kCPU);
  const Batch& batch = buffers.fill(plan);
  EXPECT_EQ(numbers(batch.ids), (std::vector<int64_t>{12, 13, 14, 21}));
  EXPECT_EQ(numbers(batch.positions), (std::vector<int64_t>{2, 3, 4, 1}));
  EXPECT_EQ(numbers(batch.slots), (std::vector<int64_t>{22, 23, 8, 29}));
  EXPECT_EQ(numbers(batch.sample_rows), (std::vector<int64_t>{0, 1, 2, 3}));
}

// A pure decode: attention reads one query a sequence, so both counts must be padded alike, also where max_running is
// no size class and max_step_tokens is far above.
TEST(BatchBuffers, PadsTokensAndSequencesOfADecodeAlike) {
  for (const int64_t running : {3, 12, 20, 100, 200}) {
    BatchBuffers buffers(
        {.max_tokens = 4096, .max_sequences = running, .max_context = 16, .block_size = 4, .pad = true}, at::kCPU);
    std::vector<Sequence> sequences(static_cast<size_t>(running));
    Plan plan;
    for (Sequence& sequence : sequences) {
      sequence.tokens = {1, 2};
      sequence.blocks = {1};
      plan.chunks.push_back({&sequence, 1, 1, true});
    }
    plan.tokens = plan.samples = running;
    const Batch& batch = buffers.fill(plan);
    EXPECT_EQ(batch.ids.size(0), batch.query_starts.size(0) - 1) << running;
    EXPECT_EQ(batch.ids.size(0), batch.block_tables.size(0)) << running;
    EXPECT_EQ(batch.ids.size(0), batch.sample_rows.size(0)) << running;
  }
}

// A step that draws nothing is not waited for: its inputs may still be read while the next are filled in.
TEST(BatchBuffers, LeavesTheInputsOfTheStepBeforeAlone) {
  BatchBuffers buffers({.max_tokens = 16, .max_sequences = 4, .max_context = 16, .block_size = 4}, at::kCPU);
  Sequence sequence;
  sequence.tokens = {10, 11, 12, 13, 14, 15};
  sequence.blocks = {5, 2};
  Plan first, second;
  first.chunks = {{&sequence, 0, 3, false}};
  second.chunks = {{&sequence, 3, 2, false}};
  first.tokens = 3;
  second.tokens = 2;
  const Batch& before = buffers.fill(first);
  buffers.fill(second);
  EXPECT_EQ(numbers(before.ids), (std::vector<int64_t>{10, 11, 12}));
  EXPECT_EQ(numbers(before.slots), (std::vector<int64_t>{20, 21, 22}));
}

}  // namespace
}  // namespace tritonforge::engine
