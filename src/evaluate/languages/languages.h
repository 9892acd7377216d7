#pragma once
// The languages there are, for language.cpp's table alone.
#include "evaluate/languages/language.h"

namespace tritonforge::evaluate {

const Language& triton_language();
const Language& cuda_language();
const Language& hip_language();
const Language& opencl_language();

}  // namespace tritonforge::evaluate
