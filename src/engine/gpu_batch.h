#pragma once
// One step's inputs for the GPU runner: numbers in an arena, laid out so that the places of a decode, and of a prompt
// alone, depend on its size classes alone (a CUDA graph finds them there). Sequences with one new token come first and
// are decoded, each draft of what follows it in a row of its own; the others follow, ragged, and are prefilled. Host
// side only: no device, no ATen.
//
//   tokens    | decode rows                 | pad | prompt rows, sequence after sequence | pad |
//   tables    | [decode rows, decode_width]       | [prompts, prompt_width], widened ones too  |
//   prefixes  | decode rows that begin alike, in groups (prefix_groups.h)                      |
//   draws     | one row a chunk that samples, in the plan's order                        | pad |
//
// Padding: id, position and slot 0 (the block that nobody owns), length 0, temperature 0.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "kernels/sample.h"

namespace tritonforge::engine {

struct GpuBatch {
  // Counts; the padded ones are size classes (batch.h).
  int64_t decodes = 0, prompts = 0, rows = 0;  // decode rows in use, sequences with several new tokens; draws
  int64_t tokens = 0, decode_rows = 0, draw_rows = 0, decode_width = 0, prompt_width = 0;  // padded
  int64_t longest_query = 0;  // of a prompt's chunk; padded where it is alone
  bool cuts = false;          // a row asks for top_k, top_p or min_p
  bool decode_only = false;   // no prompt, and row i of the hidden states is draw i
  int64_t groups = 0;         // of decodes that share a prefix, padded: 0 or decode_rows / 2
  // Of prompts whose pages are widened together, one run after another: the end of each. None where the cache is read
  // as it is.
  std::vector<int64_t> runs;

  // Where the sections are, in bytes from the arena's start.
  int64_t ids, positions, slots;                // [tokens] int32
  int64_t sources;                              // [decode_rows] int32: row of the draws before, or -1
  int64_t decode_lengths, decode_tables;        // [decode_rows], [decode_rows, decode_width] int32
  int64_t prefix_pages, group_starts, members;  // [decode_rows], [groups + 1], [decode_rows] int32, where groups
  int64_t query_starts, prompt_lengths, prompt_tables;  // [prompts + 1], [prompts], [prompts, prompt_width] int32
  int64_t widened_tables;                               // [prompts, prompt_width] int32, where `runs` are
  int64_t sample_rows;                                  // [draw_rows] int32, rows of the hidden states
  int64_t temperature, inverse_temperature;             // [draw_rows] float; 1 / 0 is 1
  int64_t top_p, min_p;                                 // [draw_rows] float
  int64_t top_k;                                        // [draw_rows] int32
  int64_t seed, position;                               // [draw_rows] uint64
  int64_t bytes = 0;

  // Whether it may become a graph, and whether two that may find their inputs in the same places and run the same
  // kernels.
  bool repeats() const { return decode_only || (decodes == 0 && prompts == 1); }
  struct Shape {
    int64_t tokens, decode_rows, decode_width, prompt_width, draw_rows;
    bool cuts, shared;
    auto operator<=>(const Shape&) const = default;
  };
  Shape shape() const { return {tokens, decode_rows, decode_width, prompt_width, draw_rows, cuts, groups > 0}; }
};

// What decodes may share: so many members to a group (below 2: none), where that saves at least so many blocks.
struct PrefixSharing {
  int64_t most_members = 0, least_saved = 0;
};

// Bytes of an arena that holds every step of these limits. `widened_pages`: of gpu_buffers.h, or 0.
int64_t gpu_batch_bytes(int64_t max_tokens, int64_t max_sequences, int64_t max_context, int64_t widened_pages = 0);
// The row of a token of the plan, counted in the order of its chunks.
int64_t row_of_token(const Plan& plan, const GpuBatch& batch, int64_t token);
// Writes the plan's numbers to `arena`. A chunk whose token is pending gets it from the draws before (`sources`).
GpuBatch fill_gpu_batch(const Plan& plan, std::span<const kernels::SampleRow> rows, int64_t vocab,
                        std::span<std::byte> arena, PrefixSharing sharing = {}, int64_t widened_pages = 0);

}  // namespace tritonforge::engine
