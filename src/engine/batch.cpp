#include "engine/batch.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"

namespace tritonforge::engine {

int64_t size_class(int64_t n, int64_t limit) {
  const auto up_to = [n](int64_t step) { return (n + step - 1) / step * step; };
  int64_t padded = n <= 8      ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))))
                   : n <= 128  ? up_to(8)
                   : n <= 1024 ? up_to(64)
                               : up_to(256);
  return std::max(n, std::min(padded, limit));
}

struct BatchBuffers::Sections {
  int64_t tokens, sequences, samples, width;  // padded
  int64_t ids, positions, slots, sequence_of, sample_rows, query_starts, context_starts, block_tables, context_slots,
      end;  // bytes
};

BatchBuffers::Sections BatchBuffers::layout(int64_t tokens, int64_t sequences, int64_t samples, int64_t width,
                                            int64_t context) const {
  Sections s{tokens, sequences, samples, width};
  int64_t at = 0;
  const auto take = [&at](int64_t bytes) {
    const int64_t start = at;
    at += (bytes + 63) / 64 * 64;
    return start;
  };
  s.ids = take(tokens * 8);
  s.positions = take(tokens * 8);
  s.slots = take(tokens * 8);
  s.sequence_of = take(tokens * 8);
  s.sample_rows = take(samples * 8);
  s.query_starts = take((sequences + 1) * 4);
  s.context_starts = take((sequences + 1) * 4);
  s.block_tables = take(sequences * width * 4);
  s.context_slots = take(context * 4);
  s.end = at;
  return s;
}

BatchBuffers::BatchBuffers(BatchLimits limits, at::Device device) : limits_(limits) {
  const int64_t width = (limits.max_context + limits.block_size - 1) / limits.block_size;
  const int64_t context = limits.list_context ? limits.max_sequences * limits.max_context : 0;
  const int64_t bytes = layout(limits.max_tokens, limits.max_sequences, limits.max_sequences, width, context).end;
  auto options = at::TensorOptions().dtype(at::kByte);
  if (device.is_cpu()) {
    host_ = device_ = at::zeros({bytes}, options);
  } else {
    host_ = at::zeros({bytes}, options.pinned_memory(true));
    device_ = at::zeros({bytes}, options.device(device));
  }
}

const Batch& BatchBuffers::fill(const Plan& plan) {
  const int64_t size = limits_.block_size, sequences = static_cast<int64_t>(plan.chunks.size());
  int64_t longest = 0, listed = 0;
  for (const Chunk& chunk : plan.chunks) {
    longest = std::max(longest, chunk.start + chunk.count);
    if (limits_.list_context) listed += chunk.start + chunk.count;
  }
  const auto padded = [&](int64_t n, int64_t limit) { return limits_.pad ? size_class(n, limit) : n; };
  const int64_t max_width = (limits_.max_context + size - 1) / size;
  const Sections s = layout(padded(plan.tokens, limits_.max_tokens), padded(sequences, limits_.max_sequences),
                            padded(plan.samples, limits_.max_sequences), padded((longest + size - 1) / size, max_width),
                            listed);
  TF_CHECK(s.end <= host_.numel(), "a batch of {} tokens in {} sequences exceeds its buffers", plan.tokens, sequences);

  auto* base = static_cast<uint8_t*>(host_.data_ptr());
  const auto longs = [base](int64_t at) { return reinterpret_cast<int64_t*>(base + at); };
  const auto ints = [base](int64_t at) { return reinterpret_cast<int32_t*>(base + at); };
  int64_t *ids = longs(s.ids), *positions = longs(s.positions), *slots = longs(s.slots), *owner = longs(s.sequence_of);
  int64_t* rows = longs(s.sample_rows);
  int32_t *queries = ints(s.query_starts), *contexts = ints(s.context_starts), *tables = ints(s.block_tables);
  int32_t* listing = ints(s.context_slots);

  batch_ = Batch{.tokens = plan.tokens,
                 .sequences = sequences,
                 .samples = plan.samples,
                 .longest_context = longest,
                 .block_size = size};
  int64_t t = 0, context = 0, sampled = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const Chunk& chunk = plan.chunks[i];
    const auto& blocks = chunk.sequence->blocks;
    queries[i] = static_cast<int32_t>(t);
    contexts[i] = static_cast<int32_t>(context);
    for (int64_t position = chunk.start; position < chunk.start + chunk.count; ++position, ++t) {
      ids[t] = chunk.sequence->tokens[position];
      positions[t] = position;
      slots[t] = blocks[position / size] * size + position % size;
      owner[t] = i;
    }
    std::copy_n(blocks.begin(), std::min<int64_t>(s.width, blocks.size()), tables + i * s.width);
    std::fill(tables + i * s.width + std::min<int64_t>(s.width, blocks.size()), tables + (i + 1) * s.width, 0);
    for (int64_t position = 0; limits_.list_context && position < chunk.start + chunk.count; position += size) {
      const int64_t first = blocks[position / size] * size,
                    count = std::min(size, chunk.start + chunk.count - position);
      std::iota(listing, listing + count, static_cast<int32_t>(first));
      listing += count;
    }
    context += chunk.start + chunk.count;
    batch_.longest_query = std::max(batch_.longest_query, chunk.count);
    if (chunk.samples) rows[sampled++] = t - 1;
  }
  batch_.total_context = context;
  for (int64_t i = sequences; i <= s.sequences; ++i) {
    queries[i] = static_cast<int32_t>(t);
    contexts[i] = static_cast<int32_t>(context);
  }
  for (int64_t* section : {ids, positions, slots}) std::fill(section + t, section + s.tokens, 0);
  std::fill(owner + t, owner + s.tokens, -1);
  std::fill(rows + sampled, rows + s.samples, 0);
  std::fill(tables + sequences * s.width, tables + s.sequences * s.width, 0);

  if (!device_.is_same(host_)) device_.narrow(0, 0, s.end).copy_(host_.narrow(0, 0, s.end), /*non_blocking=*/true);
  const auto view = [&](int64_t at, int64_t n, at::ScalarType type) {
    return device_.narrow(0, at, n * static_cast<int64_t>(c10::elementSize(type))).view(type);
  };
  batch_.ids = view(s.ids, s.tokens, at::kLong);
  batch_.positions = view(s.positions, s.tokens, at::kLong);
  batch_.slots = view(s.slots, s.tokens, at::kLong);
  batch_.sequence_of = view(s.sequence_of, s.tokens, at::kLong);
  batch_.sample_rows = view(s.sample_rows, s.samples, at::kLong);
  batch_.query_starts = view(s.query_starts, s.sequences + 1, at::kInt);
  batch_.context_starts = view(s.context_starts, s.sequences + 1, at::kInt);
  batch_.context_slots = view(s.context_slots, listed, at::kInt);
  batch_.block_tables = view(s.block_tables, s.sequences * s.width, at::kInt).view({s.sequences, s.width});
  return batch_;
}

}  // namespace tritonforge::engine
