#pragma once
// The other process of ranks_test.cpp: `gpu_tests rank ADDRESS trains WAY STATES` (main.cpp).
#include <string>

namespace tritonforge::train {

// states: OptimizerState's number.
int train_as_second_rank(const std::string& rendezvous, bool copies, int states);

}  // namespace tritonforge::train
