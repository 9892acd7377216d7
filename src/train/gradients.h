#pragma once
// The gradients of a step in one arena, laid out as the model's.
#include <functional>

#include "model/model.h"

namespace tritonforge::train {

struct Gradients {
  model::Model sums;
  bool empty = true;  // nothing has been added since the last update: what is in the arena is of no meaning
  // Called by the backward pass in which it is set, once it has added its last to a segment (train/sharding.h): from the
  // last one to the first.
  std::function<void(size_t segment)> ready;
};

}  // namespace tritonforge::train
