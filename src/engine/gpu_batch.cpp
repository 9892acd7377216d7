#include "engine/gpu_batch.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "engine/batch.h"
#include "engine/prefix_groups.h"
#include "engine/sizing.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kLeastWidth = 16;  // blocks of a table

int64_t blocks_for(int64_t tokens) { return (tokens + kBlockSize - 1) / kBlockSize; }

// Few widths, so that few graphs serve all contexts.
int64_t width_class(int64_t tokens) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(blocks_for(tokens), kLeastWidth))));
}

// An arena's sections as numbers.
struct Numbers {
  std::span<std::byte> arena;
  int32_t* ints(int64_t at) const { return reinterpret_cast<int32_t*>(arena.data() + at); }
  float* floats(int64_t at) const { return reinterpret_cast<float*>(arena.data() + at); }
  uint64_t* longs(int64_t at) const { return reinterpret_cast<uint64_t*>(arena.data() + at); }
};

void place_sections(GpuBatch& b) {
  int64_t at = 0;
  const auto take = [&at](int64_t count, int64_t size) {
    const int64_t start = at;
    at += (count * size + 63) / 64 * 64;
    return start;
  };
  b.ids = take(b.tokens, 4);
  b.positions = take(b.tokens, 4);
  b.slots = take(b.tokens, 4);
  b.sources = take(b.decode_rows, 4);
  b.decode_lengths = take(b.decode_rows, 4);
  b.decode_tables = take(b.decode_rows * b.decode_width, 4);
  b.prefix_pages = take(b.groups > 0 ? b.decode_rows : 0, 4);
  b.group_starts = take(b.groups > 0 ? b.groups + 1 : 0, 4);
  b.members = take(b.groups > 0 ? b.decode_rows : 0, 4);
  b.query_starts = take(b.prompts + 1, 4);
  b.prompt_lengths = take(b.prompts, 4);
  b.prompt_tables = take(b.prompts * b.prompt_width, 4);
  b.widened_tables = take(b.runs.empty() ? 0 : b.prompts * b.prompt_width, 4);
  b.sample_rows = take(b.draw_rows, 4);
  b.temperature = take(b.draw_rows, 4);
  b.inverse_temperature = take(b.draw_rows, 4);
  b.top_p = take(b.draw_rows, 4);
  b.min_p = take(b.draw_rows, 4);
  b.top_k = take(b.draw_rows, 4);
  b.seed = take(b.draw_rows, 8);
  b.position = take(b.draw_rows, 8);
  b.bytes = at;
}

GpuBatch measure(const Plan& plan, std::span<const kernels::SampleRow> rows, int64_t vocab) {
  GpuBatch b;
  int64_t prompt_tokens = 0, decode_context = 0, prompt_context = 0, drawn_decodes = 0;
  for (const Chunk& chunk : plan.chunks) {
    const int64_t end = chunk.start + chunk.count;
    if (chunk.decodes()) {
      b.decodes += chunk.count;
      drawn_decodes += chunk.draws();
      decode_context = std::max(decode_context, end);
    } else {
      ++b.prompts;
      prompt_tokens += chunk.count;
      prompt_context = std::max(prompt_context, end);
      b.longest_query = std::max(b.longest_query, chunk.count);
    }
  }
  b.rows = std::ssize(rows);
  b.decode_rows = b.decodes > 0 ? size_class(b.decodes) : 0;
  b.draw_rows = b.rows > 0 ? size_class(b.rows) : 0;
  b.tokens = b.prompts > 0 ? size_class(b.decode_rows + prompt_tokens) : b.decode_rows;
  b.decode_width = b.decodes > 0 ? width_class(decode_context) : 0;
  b.prompt_width = b.prompts > 0 ? width_class(prompt_context) : 0;
  b.decode_only = b.prompts == 0 && drawn_decodes == b.decodes;
  if (b.repeats() && b.prompts == 1) b.longest_query = b.tokens;
  for (const kernels::SampleRow& row : rows) {
    b.cuts = b.cuts ||
             (row.temperature > 0 && (row.top_p < 1 || row.min_p > 0 || (row.top_k > 0 && row.top_k < vocab)));
  }
  return b;
}

// Groups of at least two rows: half as many as rows, whatever the class of the rows is.
int64_t most_groups(int64_t decode_rows) { return decode_rows / 2; }

// The groups of the plan's decodes, by their rows. The block of the new token is nobody else's.
PrefixGroups group_decodes(const Plan& plan, PrefixSharing sharing) {
  if (sharing.most_members < 2) return {};
  std::vector<std::span<const int32_t>> rows;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.decodes())
      rows.insert(rows.end(), static_cast<size_t>(chunk.count),
                  std::span(chunk.sequence->blocks).first(static_cast<size_t>(chunk.start / kBlockSize)));
  }
  return group_prefixes(rows, sharing.most_members, sharing.least_saved);
}

void write_groups(const PrefixGroups& groups, const GpuBatch& b, const Numbers& to) {
  int32_t *pages = to.ints(b.prefix_pages), *starts = to.ints(b.group_starts), *members = to.ints(b.members);
  std::fill_n(pages, b.decode_rows, 0);
  std::fill_n(starts, b.groups + 1, groups.starts.back());
  std::ranges::copy(groups.starts, starts);
  std::fill_n(members, b.decode_rows, 0);
  std::ranges::copy(groups.members, members);
  for (size_t g = 0; g < groups.pages.size(); ++g) {
    for (int32_t m = groups.starts[g]; m < groups.starts[g + 1]; ++m) {
      pages[groups.members[m]] = static_cast<int32_t>(groups.pages[g]);
    }
  }
}

// As many prompts to a run as `widened_pages` hold, and where their pages lie in them.
std::vector<int64_t> runs_of(const Plan& plan, int64_t widened_pages) {
  std::vector<int64_t> runs;
  int64_t pages = 0, prompts = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.decodes()) continue;
    const int64_t own = blocks_for(chunk.start + chunk.count);
    if (pages == 0 || pages + own > widened_pages) {
      runs.push_back(prompts);
      pages = 0;
    }
    pages += own;
    runs.back() = ++prompts;
  }
  return runs;
}

void write_widened_tables(const GpuBatch& b, const Numbers& to) {
  int64_t prompt = 0;
  for (const int64_t end : b.runs) {
    for (int32_t page = 0; prompt < end; ++prompt) {
      const int64_t pages = blocks_for(to.ints(b.prompt_lengths)[prompt]);
      int32_t* table = to.ints(b.widened_tables) + prompt * b.prompt_width;
      std::iota(table, table + pages, page);
      page += static_cast<int32_t>(pages);
    }
  }
}

// Each chunk: its tokens, its row of the block table, and the rows that it draws from.
void write_chunks(const Plan& plan, const GpuBatch& b, const Numbers& to) {
  int32_t *ids = to.ints(b.ids), *positions = to.ints(b.positions), *slots = to.ints(b.slots);
  for (int32_t* section : {ids, positions, slots}) std::fill_n(section, b.tokens, 0);
  std::fill_n(to.ints(b.sources), b.decode_rows, -1);
  std::fill_n(to.ints(b.decode_lengths), b.decode_rows, 0);
  std::fill_n(to.ints(b.sample_rows), b.draw_rows, 0);  // padded draws are of row 0
  const auto write_table = [](const Sequence& sequence, int64_t end, int32_t* row) {
    std::copy_n(sequence.blocks.begin(), blocks_for(end), row);
  };
  int64_t decode = 0, prompt = 0, prompt_token = b.decode_rows, draw = 0;
  for (const Chunk& chunk : plan.chunks) {
    const Sequence& sequence = *chunk.sequence;
    const int64_t end = chunk.start + chunk.count;
    int64_t at = chunk.decodes() ? decode : prompt_token;
    if (chunk.decodes()) {
      if (sequence.pending > 0) to.ints(b.sources)[decode] = static_cast<int32_t>(sequence.pending_row);
      for (int64_t length = chunk.start + 1; length <= end; ++length, ++decode) {  // each draft as a row of its own
        to.ints(b.decode_lengths)[decode] = static_cast<int32_t>(length);
        write_table(sequence, length, to.ints(b.decode_tables) + decode * b.decode_width);
      }
    } else {
      to.ints(b.query_starts)[prompt] = static_cast<int32_t>(prompt_token);
      to.ints(b.prompt_lengths)[prompt] = static_cast<int32_t>(end);
      write_table(sequence, end, to.ints(b.prompt_tables) + prompt * b.prompt_width);
      ++prompt;
      prompt_token += chunk.count;
    }
    for (int64_t token = chunk.start; token < end; ++token, ++at) {
      ids[at] = static_cast<int32_t>(sequence.token_at(token));
      positions[at] = static_cast<int32_t>(token);
      slots[at] = static_cast<int32_t>(sequence.blocks[token / kBlockSize] * kBlockSize + token % kBlockSize);
    }
    for (int64_t left = chunk.draws(); left > 0; --left)
      to.ints(b.sample_rows)[draw++] = static_cast<int32_t>(at - left);
  }
  to.ints(b.query_starts)[prompt] = static_cast<int32_t>(prompt_token);
}

// What each draw asks for. Padded draws are greedy ones.
void write_draws(std::span<const kernels::SampleRow> rows, int64_t vocab, const GpuBatch& b, const Numbers& to) {
  for (int64_t i = 0; i < b.draw_rows; ++i) {
    const kernels::SampleRow row = i < b.rows ? rows[i] : kernels::SampleRow{.temperature = 0};
    to.floats(b.temperature)[i] = row.temperature;
    to.floats(b.inverse_temperature)[i] = kernels::inverse_temperature(row.temperature);
    to.floats(b.top_p)[i] = row.top_p;
    to.floats(b.min_p)[i] = row.min_p;
    to.ints(b.top_k)[i] = static_cast<int32_t>(std::clamp<int64_t>(row.top_k, -1, vocab));
    to.longs(b.seed)[i] = row.seed;
    to.longs(b.position)[i] = row.position;
  }
}

}  // namespace

int64_t gpu_batch_bytes(int64_t max_tokens, int64_t max_sequences, int64_t max_context, int64_t widened_pages) {
  // Sequences may be all decodes, all prompts or a mix: both halves are given room for all of them.
  GpuBatch b;
  b.decode_rows = b.draw_rows = size_class(max_sequences);
  b.prompts = max_sequences;
  b.tokens = size_class(max_tokens + b.decode_rows);
  b.decode_width = b.prompt_width = width_class(max_context);
  b.groups = most_groups(b.decode_rows);
  if (widened_pages > 0) b.runs = {b.prompts};
  place_sections(b);
  return b.bytes;
}

int64_t row_of_token(const Plan& plan, const GpuBatch& batch, int64_t token) {
  int64_t decode = 0, prompt = batch.decode_rows;
  for (const Chunk& chunk : plan.chunks) {
    int64_t& row = chunk.decodes() ? decode : prompt;
    if (token < chunk.count) return row + token;
    token -= chunk.count;
    row += chunk.count;
  }
  TF_CHECK(false, "a token beyond the plan's {}", plan.tokens);
}

GpuBatch fill_gpu_batch(const Plan& plan, std::span<const kernels::SampleRow> rows, int64_t vocab,
                        std::span<std::byte> arena, PrefixSharing sharing, int64_t widened_pages) {
  GpuBatch b = measure(plan, rows, vocab);
  const PrefixGroups groups = group_decodes(plan, sharing);
  if (!groups.members.empty()) b.groups = most_groups(b.decode_rows);
  if (widened_pages > 0) b.runs = runs_of(plan, widened_pages);
  place_sections(b);
  TF_CHECK(b.bytes <= std::ssize(arena), "a step of {} tokens in {} sequences exceeds its arena", plan.tokens,
           plan.chunks.size());
  const Numbers to{arena};
  write_chunks(plan, b, to);
  if (b.groups > 0) write_groups(groups, b, to);
  write_widened_tables(b, to);
  write_draws(rows, vocab, b, to);
  return b;
}

}  // namespace tritonforge::engine
