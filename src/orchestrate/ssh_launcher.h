#pragma once
// Roles on other hosts through the system's ssh: one connection a role, which carries its agent's input, its output,
// its port to this machine's loopback (-L) and the ports that it asks back (-R). Nothing on a host listens beyond its
// own loopback, so that what is between the machines is ssh's own keys and encryption. A connection that breaks, and
// one that is silent for 15 s, ends as kCarrierLost.
#include "orchestrate/remote_launcher.h"

namespace tritonforge::orchestrate {

class SshLauncher : public RemoteLauncher {
 public:
  // `config`: of ssh (-F); empty: the user's.
  SshLauncher(Layout layout, fs::path config, std::vector<fs::path> shared);

 protected:
  std::string_view name() const override { return "ssh"; }
  std::vector<std::string> on_host(const std::string& host, const std::string& command, bool has_input) const override;
  std::string network_name(const std::string& host) const override;  // ssh's own settings may give it another
  Carrier carrier(const Job& job, size_t rank, const Place& place) override;

 private:
  std::vector<std::string> ssh(const std::string& host, const std::vector<std::string>& flags,
                               const std::string& command) const;

  const fs::path config_;
};

}  // namespace tritonforge::orchestrate
