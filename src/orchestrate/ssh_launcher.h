#pragma once
// Roles on other hosts through the system's ssh: one connection a role, which carries its agent's input, its output,
// its port to this machine's loopback (-L) and the ports that it asks back (-R). Nothing on a host listens beyond its
// own loopback, so that what is between the machines is ssh's own keys and encryption. A connection that breaks, and
// one that is silent for 15 s, ends as kCarrierLost.
//
// A command line on a host is made of constants and of paths that plain_path() lets pass; what comes from a recipe goes
// through the agent's input.
#include "orchestrate/launcher.h"

namespace tritonforge::orchestrate {

class SshLauncher : public Launcher {
 public:
  // `config`: of ssh (-F); empty: the user's. `shared`: paths that every host must see as this machine does.
  SshLauncher(Layout layout, fs::path config, std::vector<fs::path> shared);
  // Side by side for all hosts: they see the shared paths; this binary with its libraries and worker is there, copied
  // where no copy with its checksum is; so is the Python environment, by the name of its folder, which is the hash of
  // what is in it; and the binary starts.
  void prepare() override;

 protected:
  std::vector<std::string> carrier(const Job& job, size_t rank, const Place& place) override;

 private:
  std::vector<std::string> ssh(const std::string& host, const std::vector<std::string>& flags,
                               const std::string& command) const;
  int run(const std::string& host, const std::string& command) const;
  void copy(const std::string& host, const fs::path& target, const std::vector<std::string>& tar) const;

  const fs::path config_;
  const std::vector<fs::path> shared_;
  fs::path bundle_;  // of the binary, on every host
};

// A path of letters, digits and /._-+, which needs no quotes anywhere. Throws kUsage for another.
std::string plain_path(const fs::path& path);
// A host's name that no command takes for something else: a letter, digit or _ first, then those and .-@:. Throws
// kUsage for another.
std::string plain_host(const std::string& host);

}  // namespace tritonforge::orchestrate
