#pragma once
// The texts of a composition in each style (compose.h chooses). Every solution is one fused kernel.
#include <string>

#include "dataset/compose.h"

namespace tritonforge::dataset {

std::string compact_problem(const Composition& composition);
std::string compact_solution(const Composition& composition);
std::string full_problem(const Composition& composition);
std::string full_solution(const Composition& composition);

// The chain as torch / kernel statements "x = torch.relu(x)"; `mask` and `row_length` are what the kernel calls them.
std::vector<std::string> torch_statements(const Composition& composition);
std::vector<std::string> kernel_statements(const Composition& composition, const std::string& mask,
                                           const std::string& row_length);

}  // namespace tritonforge::dataset
