#pragma once
// One step's inputs as tensors, laid out one after another in an arena that is allocated once for the largest batch:
//
//   | ids | positions | slots | sequence_of | sample_rows | query_starts | context_starts | block_tables |
//   context_slots |
//    <---------- tokens each ------------->   <-samples->   <---- sequences + 1 each --->  sequences*width  all
//    contexts
//
// A step writes its numbers into an arena of the host and copies them to the device's with one transfer. The host has
// two, taken in turn: the one that a transfer may still read is left alone. On the CPU both sides are the same memory.
// Counts are padded to size classes where asked for.
#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <array>
#include <optional>

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

// The next size class: 1, 2, 4, 8, multiples of 8 to 128, of 64 to 1024, of 256 above. It may be beyond a limit such as
// max_running: equal counts have equal classes, whatever bounds them (in a decode, tokens and sequences).
int64_t size_class(int64_t n);

class BatchBuffers {
 public:
  BatchBuffers(BatchLimits limits, at::Device device);
  // Valid until the next call but one: the tensors of one step may still be read while the next is filled in.
  const Batch& fill(const Plan& plan);

 private:
  struct Sections;
  struct HostArena;
  Sections layout(int64_t tokens, int64_t sequences, int64_t samples, int64_t width, int64_t context) const;
  Sections layout_of(const Plan& plan) const;
  void write(const Plan& plan, const Sections& sections, HostArena& host) const;  // its counts, too
  void show(const Sections& sections, HostArena& host) const;                     // the batch's tensors
  int64_t padded(int64_t n) const { return limits_.pad ? size_class(n) : n; }
  int64_t blocks_for(int64_t tokens) const { return (tokens + limits_.block_size - 1) / limits_.block_size; }

  struct HostArena {
    at::Tensor bytes;                  // uint8, pinned where a device reads it
    std::optional<c10::Event> copied;  // after the last transfer from it; none on the CPU
    Batch batch;
  };
  BatchLimits limits_;
  std::array<HostArena, 2> hosts_;
  size_t turn_ = 0;
  at::Tensor device_;  // uint8; undefined on the CPU
};

}  // namespace tritonforge::engine
