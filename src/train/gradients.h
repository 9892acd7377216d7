#pragma once
// The gradients of a step in one arena, laid out as the model's.
#include "model/model.h"

namespace tritonforge::train {

struct Gradients {
  model::Model sums;
  bool empty = true;  // nothing has been added since the last update: what is in the arena is of no meaning
};

}  // namespace tritonforge::train
