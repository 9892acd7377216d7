#pragma once
// A model, whole, from the parts that tensor-parallel ranks have of it.
#include "model/tensor_parallel.h"
#include "parallel/group.h"

namespace tritonforge::train {

// All ranks of the group call it at once, rank 0 with the model to fill, of the parts' dtype on any device, the others
// with null.
void gather_model(const model::Model& part, parallel::Group& tp, model::Model* whole);

}  // namespace tritonforge::train
