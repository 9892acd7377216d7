#pragma once
// Which models the kernels of kernels/gpu compute.
#include <string>

#include "model/model.h"

namespace tritonforge::model {

// Why they do not compute this model where it lies, in one line; empty where they do.
std::string gpu_kernels_refusal(const Model& model);

}  // namespace tritonforge::model
