#pragma once
// Pipeline parallelism: each stage has some of the layers (model/stages.h), and micro-batches go through them one
// behind the other, at most as many at a time as there are stages (1F1B: PipeDream-Flush, arXiv 2006.09503).
#include <ATen/ATen.h>

#include <deque>
#include <string_view>
#include <vector>

#include "parallel/group.h"
#include "train/packing.h"

namespace tritonforge::train {

struct PassStep {
  bool forward;
  int64_t batch;
  bool operator==(const PassStep&) const = default;
};
// In which order a stage takes the passes of its micro-batches: forward passes ahead until so many wait for their
// backward pass, then one of each. The last stage, or one process: in_flight 1.
std::vector<PassStep> one_forward_one_backward(int64_t batches, int64_t in_flight);

// Which memory a stage's micro-batches have, from the forward pass to the backward pass.
class Flights {
 public:
  struct Flight {
    const MicroBatch* batch;
    int64_t slot;  // of in_flight
  };
  explicit Flights(int64_t in_flight) : in_flight_(in_flight) {}
  // The slot of a forward pass; `train`: until its backward pass, in which batch is there still. One process may drop
  // a micro-batch: another one's forward pass follows.
  int64_t begin(const MicroBatch& batch, bool train);
  Flight end();  // the oldest, whose backward pass begins

 private:
  const int64_t in_flight_;
  int64_t next_ = 0;
  std::deque<Flight> waiting_;
};

// A stage's ways to its neighbours, for the activations and gradients of this rank's own tokens.
class StageLink {
 public:
  explicit StageLink(const parallel::Groups& groups) : onward_(groups.onward), back_(groups.back) {}
  bool first() const { return onward_ == nullptr || onward_->rank() == 0; }
  bool last() const { return onward_ == nullptr || onward_->rank() + 1 == onward_->size(); }
  // Micro-batches whose backward pass waits, at most.
  int64_t in_flight() const { return onward_ == nullptr ? 1 : onward_->size() - onward_->rank(); }

  // Before a forward pass: what in_flight() of them ago was sent has arrived, and its memory is free.
  void begin_forward() { make_room(outputs_); }
  // x: contiguous. What is received is there for what is queued afterwards.
  void receive_input(const at::Tensor& x) const;
  void receive_gradient(const at::Tensor& x) const;
  void send_output(const at::Tensor& x);
  void send_gradient(const at::Tensor& x);  // left alone until settle()
  void settle();                            // all that was sent has arrived

 private:
  using Sends = std::deque<parallel::PendingPtr>;
  void make_room(Sends& sends) const;
  parallel::Group *const onward_, *const back_;
  Sends outputs_, gradients_;
};

}  // namespace tritonforge::train
