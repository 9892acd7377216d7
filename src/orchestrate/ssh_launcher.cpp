#include "orchestrate/ssh_launcher.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace tritonforge::orchestrate {

SshLauncher::SshLauncher(Layout layout, fs::path config, std::vector<fs::path> shared)
    : RemoteLauncher(std::move(layout), std::move(shared)), config_(std::move(config)) {}

std::vector<std::string> SshLauncher::ssh(const std::string& host, const std::vector<std::string>& flags,
                                          const std::string& command) const {
  std::vector<std::string> argv = {"ssh", "-T",
                                   "-o",  "BatchMode=yes",
                                   "-o",  "ConnectTimeout=10",
                                   "-o",  "ServerAliveInterval=5",
                                   "-o",  "ServerAliveCountMax=3",
                                   "-o",  "ControlPath=none"};
  if (!config_.empty()) argv.insert(argv.end(), {"-F", config_.string()});
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"--", host, command});
  return argv;
}

std::vector<std::string> SshLauncher::on_host(const std::string& host, const std::string& command,
                                              bool has_input) const {
  return ssh(host, has_input ? std::vector<std::string>{} : std::vector<std::string>{"-n"}, command);
}

std::string SshLauncher::network_name(const std::string& host) const {
  std::vector<std::string> argv = {"ssh", "-G"};
  if (!config_.empty()) argv.insert(argv.end(), {"-F", config_.string()});
  argv.insert(argv.end(), {"--", host});
  std::istringstream settings(run_command(argv, /*timeout_s=*/20).output);
  for (std::string key, value; settings >> key && std::getline(settings >> std::ws, value);)
    if (key == "hostname") return value;
  return RemoteLauncher::network_name(host);
}

Carrier SshLauncher::carrier(const Job& job, size_t rank, const Place& place) {
  std::vector<std::string> flags;
  if (rank == 0) {
    flags = {"-o", "ExitOnForwardFailure=yes", "-L", fmt::format("127.0.0.1:{0}:127.0.0.1:{0}", job.port)};
    for (const int port : job.reaches)
      flags.insert(flags.end(), {"-R", fmt::format("127.0.0.1:{0}:127.0.0.1:{0}", port)});
  }
  return {ssh(place.host, flags, agent_command())};
}

}  // namespace tritonforge::orchestrate
