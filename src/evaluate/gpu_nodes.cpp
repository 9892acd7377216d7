#include "evaluate/gpu_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

namespace tritonforge::evaluate {
namespace {

// What follows the key on its line, without blanks around it; empty where there is none.
std::string field(const fs::path& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t first = line.find_first_not_of(" \t", key.size());
    return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t") + 1 - first);
  }
  return "";
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_numbered(const std::string& name) {
  return name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos;
}

std::string nvidia_node(const std::string& uuid, const fs::path& root) {
  for (const fs::path& gpu : entries(root / "proc/driver/nvidia/gpus")) {
    if (field(gpu / "information", "GPU UUID:") == uuid) return "nvidia" + field(gpu / "information", "Device Minor:");
  }
  return "";
}

std::string amd_node(const std::string& uuid, const fs::path& root) {
  for (const fs::path& node : entries(root / "sys/class/kfd/kfd/topology/nodes")) {
    const std::string id = field(node / "properties", "unique_id ");
    if (!id.empty() && fmt::format("GPU-{:016x}", std::stoull(id)) == uuid)
      return "renderD" + field(node / "properties", "drm_render_minor ");
  }
  return "";
}

}  // namespace

std::vector<fs::path> gpu_nodes(const std::string& uuid, const fs::path& root) {
  const std::string nvidia = uuid.empty() ? "" : nvidia_node(uuid, root);
  const std::string amd = uuid.empty() ? "" : amd_node(uuid, root);
  std::vector<fs::path> out;
  for (const fs::path& node : entries(root / "dev")) {
    const std::string name = node.filename().string();
    if (name == "kfd") out.push_back(node);
    if (!name.starts_with("nvidia")) continue;
    if (nvidia.empty() || name == nvidia || !is_numbered(name)) out.push_back(node);
  }
  if (amd.empty()) {
    if (fs::exists(root / "dev/dri")) out.push_back(root / "dev/dri");
  } else {
    out.push_back(root / "dev/dri" / amd);
  }
  return out;
}

}  // namespace tritonforge::evaluate
