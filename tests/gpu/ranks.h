#pragma once
// The other process of ranks_test.cpp: `gpu_tests rank ADDRESS trains CONFIG KIND FOLDER` (main.cpp).
#include <string>

namespace tritonforge::train {

// config: TrainConfig as JSON; kind: of its steps; folder: for what the first rank wants to know.
int train_as_second_rank(const std::string& rendezvous, const std::string& config, const std::string& kind,
                         const std::string& folder);

}  // namespace tritonforge::train
