#pragma once
// Pipeline parallelism: each stage has some of the layers (model/stages.h), and micro-batches go through them one
// behind the other, at most as many at a time as there are stages (1F1B: PipeDream-Flush, arXiv 2006.09503). Where a
// stage has several chunks, micro-batches go through all stages that many times, and the stages stand still for that
// much less: (p - 1) / v of m micro-batches' time (interleaved 1F1B: Megatron-LM, arXiv 2104.04473, section 2.2).
#include <ATen/ATen.h>

#include <deque>
#include <string_view>
#include <vector>

#include "model/stages.h"
#include "parallel/dims.h"
#include "parallel/group.h"
#include "train/packing.h"

namespace tritonforge::train {

model::Stage stage_at(const parallel::ParallelDims& dims, const parallel::Coordinates& at);

struct PassStep {
  bool forward;
  int64_t chunk, batch;
  bool operator==(const PassStep&) const = default;
};
// In which order a stage takes the passes of its micro-batches through its chunks: forward passes ahead until so many
// wait for their backward pass, then one of each. As many micro-batches as there are stages go through one chunk, then
// through the next one; where fewer are left over, those that are missing are left out of the order, which keeps it
// free of circles. The last stage takes the backward pass of the last chunk right behind its forward pass.
std::vector<PassStep> one_forward_one_backward(const model::Stage& at, int64_t batches);
// Forward passes, of one chunk each, that wait for their backward pass, at most.
int64_t most_waiting(const model::Stage& at);

// Which memory a stage's passes have, from the forward pass to the backward pass.
class Flights {
 public:
  struct Flight {
    const MicroBatch* batch;
    int64_t slot;  // of most_waiting()
  };
  explicit Flights(const model::Stage& at);
  // The slot of a forward pass; `train`: until its backward pass, in which batch is there still. One process may drop
  // a micro-batch: another one's forward pass follows.
  int64_t begin(const MicroBatch& batch, int64_t chunk, bool train);
  Flight end(int64_t chunk);  // the chunk's oldest, whose backward pass begins

 private:
  const int64_t slots_;
  std::deque<int64_t> free_;                 // the one that has been so for longest first
  std::vector<std::deque<Flight>> waiting_;  // of each chunk
};

// A stage's ways to its neighbours, for the activations and gradients of this rank's own tokens. Behind the last stage
// is the first one's next chunk.
class StageLink {
 public:
  StageLink(const parallel::Groups& groups, int64_t chunks);
  const model::Stage& stage() const { return stage_; }
  bool first(int64_t chunk) const { return stage_.index == 0 && chunk == 0; }
  bool last(int64_t chunk) const { return stage_.index + 1 == stage_.count && chunk + 1 == stage_.chunks; }

  // Before a forward pass: what its slot's last one sent has arrived, and its memory is free.
  void begin_forward(int64_t slot);
  // x: contiguous. What is received is there for what is queued afterwards.
  void receive_input(const at::Tensor& x) const;
  void receive_gradient(const at::Tensor& x) const;
  void send_output(const at::Tensor& x, int64_t slot);
  void send_gradient(const at::Tensor& x);  // left alone until settle()
  void settle();                            // all that was sent has arrived

 private:
  int64_t next() const { return (stage_.index + 1) % stage_.count; }
  int64_t previous() const { return (stage_.index + stage_.count - 1) % stage_.count; }
  parallel::Group *const onward_, *const back_;
  const model::Stage stage_;
  std::vector<parallel::PendingPtr> outputs_;  // of each slot
  std::deque<parallel::PendingPtr> gradients_;
};

}  // namespace tritonforge::train
