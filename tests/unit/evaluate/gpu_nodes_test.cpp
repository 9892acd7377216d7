#include "evaluate/gpu_nodes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

std::vector<std::string> names(const std::string& uuid, const fs::path& root) {
  std::vector<std::string> out;
  for (const fs::path& node : gpu_nodes(uuid, root)) out.push_back(fs::relative(node, root / "dev").string());
  return out;
}

TEST(GpuNodes, OfOneNvidiaGpuNoOtherIsShown) {
  const TemporaryFolder root("tritonforge-nodes-");
  const fs::path gpus = root.path() / "proc/driver/nvidia/gpus";
  for (const auto& [bus, minor] : std::map<std::string, int>{{"0000:18:00.0", 0}, {"0000:2a:00.0", 11}}) {
    fs::create_directories(gpus / bus);
    write_file_atomic(gpus / bus / "information",
                      fmt::format("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-{}\nDevice Minor: \t {}\n", minor, minor));
  }
  fs::create_directories(root.path() / "dev");
  for (const char* node : {"nvidia0", "nvidia1", "nvidia11", "nvidiactl", "nvidia-uvm", "null"})
    write_file_atomic(root.path() / "dev" / node, "");
  EXPECT_EQ(names("GPU-11", root.path()), (std::vector<std::string>{"nvidia-uvm", "nvidia11", "nvidiactl"}));
  const std::vector<std::string> all{"nvidia-uvm", "nvidia0", "nvidia1", "nvidia11", "nvidiactl"};
  EXPECT_EQ(names("", root.path()), all);
  EXPECT_EQ(names("GPU-of-a-part", root.path()), all);
}

TEST(GpuNodes, OfOneAmdGpuNoOtherIsShown) {
  const TemporaryFolder root("tritonforge-nodes-");
  const fs::path nodes = root.path() / "sys/class/kfd/kfd/topology/nodes";
  for (int i = 0; i < 3; ++i) {  // the first is the CPU
    fs::create_directories(nodes / std::to_string(i));
    write_file_atomic(nodes / std::to_string(i) / "properties",
                      fmt::format("simd_count 304\nunique_id {}\ndrm_render_minor {}\n", i * 256, 127 + i));
  }
  fs::create_directories(root.path() / "dev/dri");
  for (const char* node : {"kfd", "dri/renderD128", "dri/renderD129"})
    write_file_atomic(root.path() / "dev" / node, "");
  EXPECT_EQ(names("GPU-0000000000000200", root.path()), (std::vector<std::string>{"kfd", "dri/renderD129"}));
  EXPECT_EQ(names("", root.path()), (std::vector<std::string>{"kfd", "dri"}));
}

}  // namespace
}  // namespace tritonforge::evaluate
