#pragma once
// What this machine is, for reports and for what says how a run was made.
#include "base/json.h"

namespace tritonforge {

Json machine_memory();  // {"total_gib", "available_gib"}
// A text a GPU, as the driver's own tool names it: "nvidia 0, NVIDIA H100, ..."; no tool, no GPU.
Json machine_gpus();
Json machine_description();  // {"host", "kernel", "processor", "cores", "memory_gib", "gpus"}

}  // namespace tritonforge
