#pragma once
// The gradients of a step in one arena, laid out as the model's.
#include <functional>

#include "model/model.h"

namespace tritonforge::train {

// Is told of a segment of an arena (train/sharding.h): 0 the embedding, i + 1 layer i, then what follows the layers.
using SegmentHook = std::function<void(size_t segment)>;

struct Gradients {
  model::Model sums;
  bool empty = true;  // nothing has been added since the last update: what is in the arena is of no meaning
  // Called by the backward pass in which it is set, once it has added its last to a segment: from the last one to the
  // first, of all such passes of a step.
  SegmentHook ready;
  // Called by a forward pass before it queues what reads a segment of the weights, which may still be on their way from
  // the ranks that updated them.
  SegmentHook weights_needed;
};

}  // namespace tritonforge::train
