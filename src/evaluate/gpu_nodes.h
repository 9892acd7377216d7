#pragma once
// The device nodes below /dev that a process on a GPU needs, and no other GPU's.
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge::evaluate {

// Of the GPU of this UUID ("GPU-..."), as NVIDIA's driver lists it in <root>/proc/driver/nvidia/gpus, or AMD's in
// <root>/sys/class/kfd ("GPU-" and its unique_id in hex). Of every GPU where the UUID is empty, or neither knows it.
std::vector<fs::path> gpu_nodes(const std::string& uuid, const fs::path& root = "/");

}  // namespace tritonforge::evaluate
