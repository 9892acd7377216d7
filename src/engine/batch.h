#pragma once
// One step's inputs as tensors. Host and device each hold one arena, allocated once for the largest batch; a step
// writes its numbers into the host's and copies them with one transfer. Counts are padded to size classes where asked
// for, and a section's address depends on the classes alone: the places where CUDA graphs will find their inputs.
#include <ATen/ATen.h>

#include <vector>

#include "engine/scheduler.h"

namespace tritonforge::engine {

struct BatchLimits {
  int64_t max_tokens, max_sequences, max_context, block_size;
  bool pad = false;
  bool list_context = false;  // fill context_slots too: for attention that gathers its keys
};

struct Batch {
  int64_t tokens = 0, sequences = 0, samples = 0;  // without padding
  int64_t longest_query = 0, longest_context = 0, total_context = 0, block_size = 0;
  // [tokens, padded] int64. Padded tokens: id 0, position 0, slot 0 (the block that nobody owns), sequence -1.
  at::Tensor ids, positions, slots, sequence_of;
  at::Tensor sample_rows;                   // [samples, padded] int64, rows of the hidden states
  at::Tensor block_tables;                  // [sequences, padded; width] int32
  at::Tensor query_starts, context_starts;  // [sequences, padded; + 1] int32, cumulative
  at::Tensor context_slots;                 // [total_context] int32: the slots of every sequence's context
};

// The next size class: 1, 2, 4, 8, multiples of 8 to 128, of 64 to 1024, of 256 above; at most `limit`.
int64_t size_class(int64_t n, int64_t limit);

class BatchBuffers {
 public:
  BatchBuffers(BatchLimits limits, at::Device device);
  // Valid until the next call. The caller has waited for the step before to be done with the arena.
  const Batch& fill(const Plan& plan);

 private:
  struct Sections;
  Sections layout(int64_t tokens, int64_t sequences, int64_t samples, int64_t width, int64_t context) const;
  BatchLimits limits_;
  at::Tensor host_, device_;  // uint8; the same on the CPU
  Batch batch_;
};

}  // namespace tritonforge::engine
