#include "orchestrate/trackers.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/error.h"
#include "base/line_tail.h"
#include "base/log.h"

namespace tritonforge::orchestrate {
Trackers::Trackers(const TrackingSection& section, const fs::path& run) : grace_s_(section.grace_s), run_(run) {
  for (const std::string& target : section.to) {
    ProcessOptions options;
    options.argv = {
        own_executable().string(), "track", run.string(), "--follow", "--to", target, "--project", section.project};
    if (!section.python.empty()) options.argv.insert(options.argv.end(), {"--python", section.python});
    options.stdout_file = options.stderr_file = run / "logs" / fmt::format("track-{}.log", target);
    try {
      fs::create_directories(run / "logs");
      all_.push_back({target, std::make_unique<ChildProcess>(options)});
    } catch (const std::exception& error) {
      log::warn("tracking: {} is not told of this run: {}", target, error.what());
    }
  }
}

Trackers::~Trackers() {
  for (const std::string& line : stop()) log::warn("{}", line);
}

std::vector<std::string> Trackers::stop() {
  std::vector<std::string> lines;
  for (One& one : all_) one.process->signal(SIGTERM);
  const Deadline deadline = Deadline::after(grace_s_);
  for (One& one : all_) {
    const auto code = one.process->wait(deadline);
    if (code == 0) continue;
    one.process->signal(SIGKILL);
    const std::string said = last_line(run_ / "logs" / fmt::format("track-{}.log", one.target));
    lines.push_back(fmt::format("tracking: {} {}; tritonforge track {} --to {} hands over the rest", one.target,
                                code ? fmt::format("ended with {}: {}", *code, said)
                                     : fmt::format("has not taken everything within {} s", grace_s_),
                                run_.string(), one.target));
  }
  all_.clear();
  return lines;
}

}  // namespace tritonforge::orchestrate
