#include "engine/memory_plan.h"

#include <fmt/format.h>

namespace tritonforge::engine {

std::vector<std::string> MemoryPlan::lines() const {
  const auto line = [](const char* what, int64_t bytes, const std::string& more = "") {
    return fmt::format("{:<10} {:8.2f} GiB{}", what, static_cast<double>(bytes) / (1 << 30), more);
  };
  std::vector<std::string> text{line("weights", weights),
                                line("KV cache", cache, fmt::format(" ({} tokens)", cache_tokens))};
  if (workspace > 0) {
    text.push_back(line("graph pool", graphs));
    text.push_back(line("workspace", workspace));
  }
  text.push_back(line("left", left));
  if (host > 0) text.push_back(line("on host", host, fmt::format(" ({} tokens)", host_tokens)));
  return text;
}

}  // namespace tritonforge::engine
