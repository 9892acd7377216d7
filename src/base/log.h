#pragma once
// One log line format for every process: time, level, role, text, on stderr. log::info("x={}", x).
#include <spdlog/spdlog.h>

#include <string>

namespace tritonforge::log {
using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Names this process in every line (engine-0, trainer, ...); level from TRITONFORGE_LOG (debug|info|warn|error);
// throws kUsage where that is none.
void start(const std::string& role);
}  // namespace tritonforge::log
