#pragma once
// The languages there are, for language.cpp's table alone.
#include "evaluate/languages/language.h"

namespace tritonforge::evaluate {

const Language& triton_language();
const Language& cuda_language();
const Language& hip_language();
const Language& opencl_language();

// "" where one of `paths` is there, else what to do about it.
std::string missing_file(std::string_view what, const std::vector<std::string>& paths);

}  // namespace tritonforge::evaluate
