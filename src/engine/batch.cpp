#include "engine/batch.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"

namespace tritonforge::engine {

int64_t size_class(int64_t n) {
  const auto up_to = [n](int64_t step) { return (n + step - 1) / step * step; };
  if (n <= 8) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  return n <= 128 ? up_to(8) : n <= 1024 ? up_to(64) : up_to(256);
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
  const int64_t sequences = padded(limits.max_sequences);
  const int64_t context = limits.list_context ? limits.max_sequences * limits.max_context : 0;
  const int64_t bytes =
      layout(padded(limits.max_tokens), sequences, sequences, padded(blocks_for(limits.max_context)), context).end;
  const auto options = at::TensorOptions().dtype(at::kByte);
  for (HostArena& host : hosts_) {
    host.bytes = at::zeros({bytes}, options.pinned_memory(!device.is_cpu()));
    if (!device.is_cpu()) host.copied.emplace(device.type());
  }
  if (!device.is_cpu()) device_ = at::zeros({bytes}, options.device(device));
}

BatchBuffers::Sections BatchBuffers::layout_of(const Plan& plan) const {
  int64_t longest = 0, listed = 0;
  for (const Chunk& chunk : plan.chunks) {
    longest = std::max(longest, chunk.start + chunk.count);
    if (limits_.list_context) listed += chunk.start + chunk.count;
  }
  return layout(padded(plan.tokens), padded(std::ssize(plan.chunks)), padded(plan.samples), padded(blocks_for(longest)),
                listed);
}

// Sequence after sequence: its chunk's tokens, its row of the block table, the slots of its whole context. Then the
// padding: sequences without tokens, tokens of nobody that write to block 0.
void BatchBuffers::write(const Plan& plan, const Sections& s, HostArena& host) const {
  auto* base = static_cast<uint8_t*>(host.bytes.mutable_data_ptr());
  const auto longs = [base](int64_t at) { return reinterpret_cast<int64_t*>(base + at); };
  const auto ints = [base](int64_t at) { return reinterpret_cast<int32_t*>(base + at); };
  int64_t *ids = longs(s.ids), *positions = longs(s.positions), *slots = longs(s.slots), *owner = longs(s.sequence_of),
          *rows = longs(s.sample_rows);
  int32_t *queries = ints(s.query_starts), *contexts = ints(s.context_starts), *tables = ints(s.block_tables),
          *listing = ints(s.context_slots);
  const int64_t size = limits_.block_size, sequences = std::ssize(plan.chunks);
  Batch& batch = host.batch;
  batch = Batch{.tokens = plan.tokens, .sequences = sequences, .samples = plan.samples, .block_size = size};
  int64_t t = 0, context = 0, sampled = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const Chunk& chunk = plan.chunks[i];
    const auto& blocks = chunk.sequence->blocks;
    const int64_t end = chunk.start + chunk.count;
    queries[i] = static_cast<int32_t>(t);
    contexts[i] = static_cast<int32_t>(context);
    for (int64_t position = chunk.start; position < end; ++position, ++t) {
      ids[t] = chunk.sequence->token_at(position);
      positions[t] = position;
      slots[t] = blocks[position / size] * size + position % size;
      owner[t] = i;
    }
    const int64_t listed_blocks = std::min<int64_t>(s.width, std::ssize(blocks));
    std::copy_n(blocks.begin(), listed_blocks, tables + i * s.width);
    std::fill(tables + i * s.width + listed_blocks, tables + (i + 1) * s.width, 0);
    for (int64_t position = 0; limits_.list_context && position < end; position += size) {
      const int64_t count = std::min(size, end - position);
      std::iota(listing, listing + count, static_cast<int32_t>(blocks[position / size] * size));
      listing += count;
    }
    for (int64_t left = chunk.draws(); left > 0; --left) rows[sampled++] = t - left;
    context += end;
    batch.longest_query = std::max(batch.longest_query, chunk.count);
    batch.longest_context = std::max(batch.longest_context, end);
  }
  batch.total_context = context;

  for (int64_t i = sequences; i <= s.sequences; ++i) {
    queries[i] = static_cast<int32_t>(t);
    contexts[i] = static_cast<int32_t>(context);
  }
  for (int64_t* section : {ids, positions, slots}) std::fill(section + t, section + s.tokens, 0);
  std::fill(owner + t, owner + s.tokens, -1);
  std::fill(rows + sampled, rows + s.samples, 0);
  std::fill(tables + sequences * s.width, tables + s.sequences * s.width, 0);
}

void BatchBuffers::show(const Sections& s, HostArena& host) const {
  const at::Tensor& arena = device_.defined() ? device_ : host.bytes;
  const auto view = [&](int64_t at, int64_t n, at::ScalarType type) {
    return arena.narrow(0, at, n * static_cast<int64_t>(c10::elementSize(type))).view(type);
  };
  Batch& batch = host.batch;
  batch.ids = view(s.ids, s.tokens, at::kLong);
  batch.positions = view(s.positions, s.tokens, at::kLong);
  batch.slots = view(s.slots, s.tokens, at::kLong);
  batch.sequence_of = view(s.sequence_of, s.tokens, at::kLong);
  batch.sample_rows = view(s.sample_rows, s.samples, at::kLong);
  batch.query_starts = view(s.query_starts, s.sequences + 1, at::kInt);
  batch.context_starts = view(s.context_starts, s.sequences + 1, at::kInt);
  batch.context_slots = view(s.context_slots, limits_.list_context ? batch.total_context : 0, at::kInt);
  batch.block_tables = view(s.block_tables, s.sequences * s.width, at::kInt).view({s.sequences, s.width});
}

const Batch& BatchBuffers::fill(const Plan& plan) {
  const Sections sections = layout_of(plan);
  HostArena& host = hosts_[turn_++ % hosts_.size()];
  TF_CHECK(sections.end <= host.bytes.numel(), "a batch of {} tokens in {} sequences exceeds its buffers", plan.tokens,
           plan.chunks.size());
  if (host.copied) host.copied->synchronize();  // its last transfer is over
  write(plan, sections, host);
  if (device_.defined()) {
    device_.narrow(0, 0, sections.end).copy_(host.bytes.narrow(0, 0, sections.end), /*non_blocking=*/true);
    host.copied->record(c10::impl::VirtualGuardImpl(device_.device().type()).getStream(device_.device()));
  }
  show(sections, host);
  return host.batch;
}

}  // namespace tritonforge::engine
