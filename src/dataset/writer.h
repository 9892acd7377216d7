#pragma once
// The texts of a composition in each style (compose.h chooses). Every solution is one fused kernel.
#include <string>

#include "dataset/compose.h"

namespace tritonforge {

std::string compact_problem(const Composition& composition);
std::string compact_solution(const Composition& composition);
std::string full_problem(const Composition& composition);
std::string full_solution(const Composition& composition);

}  // namespace tritonforge
