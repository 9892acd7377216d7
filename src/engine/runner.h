#pragma once
// What computes a step: the forward pass over a plan's tokens and one draw for each chunk that reaches its sequence's
// end. The core plans and delivers; a runner owns the KV cache's memory, the step's tensors and the device's queue.
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/logit_work.h"
#include "engine/scheduler.h"
#include "kernels/device.h"
#include "kernels/sample.h"

namespace tritonforge::engine {

// Steps that reached the device as one launch, and the kernels and copies in their graphs.
struct GraphLaunches {
  int64_t graphs = 0, nodes = 0;
};

class Runner {
 public:
  virtual ~Runner() = default;

  // Copies between the cache and the host's places, in their order, each after the steps that were queued before.
  virtual void move_blocks(std::span<const BlockMove> moves) = 0;

  // One step is fill(), forward(), draw(), in this order; a runner that runs ahead may be given the next fill() and
  // forward() before the draw(). Each may throw; the cache's content is then unknown.
  // The inputs of the plan's chunks; `rows`: one for each chunk that samples, in their order. Nothing of either is kept
  // by reference.
  virtual void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) = 0;
  // Between fill() and forward(), where something is asked of this plan's step; the work is valid until its draw(),
  // before which no further step is filled in: edits depend on the tokens before.
  virtual void ask(const Plan& plan, const LogitWork& work) = 0;
  // What was asked of the step that was drawn last.
  virtual const LogitAnswers& answers() const = 0;

  // Computes (the CPU) or queues (a device) what was filled in.
  virtual void forward() = 0;
  // Waits for the oldest step without its draws: one token a row. Valid until the next call of anything here.
  virtual std::span<const kernels::Sampled> draw() = 0;
  // After a failure: forgets what was filled in or queued and not drawn.
  virtual void discard() = 0;
  // Throws where the device can compute nothing any more: a CUDA context that failed stays failed.
  virtual void check_device(at::Device device) const { kernels::synchronize(device); }
  // Whether one step may be queued before the tokens of the one before are read: chunks of sequences with a pending
  // token are then filled in on the device.
  virtual bool runs_ahead() const { return false; }
  virtual GraphLaunches graph_launches() const { return {}; }  // since the start

  // All the memory that it takes beside the weights: the KV cache, buffers, graphs. Contents are lost, not what it
  // knows of the device. take_memory() throws where it cannot be had; then none is taken.
  virtual void take_memory() = 0;
  virtual void release_memory() = 0;
  virtual bool has_memory() const = 0;
  // The model's weights are about to lie elsewhere.
  virtual void weights_move() {}
};

}  // namespace tritonforge::engine
