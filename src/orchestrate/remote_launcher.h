#pragma once
// What the launchers of other hosts have in common: something like ssh, a command here that runs a command there with
// this one's input, output and exit code. With it the hosts are checked and brought what they lack, and agents run.
//
// A command line on a host is made of constants and of paths that plain_path() lets pass; what comes from a recipe goes
// through the agent's input.
#include "orchestrate/launcher.h"

namespace tritonforge::orchestrate {

class RemoteLauncher : public Launcher {
 public:
  // Side by side for all hosts: they see the shared paths; this binary with its libraries and worker is there, copied
  // where no copy with its checksum is; so is the Python environment, by the name of its folder, which is the hash of
  // what is in it; and the binary starts.
  void prepare(const std::stop_token& stop) override;

 protected:
  // `shared`: paths that every host must see as this machine does.
  RemoteLauncher(Layout layout, std::vector<fs::path> shared);
  virtual std::string_view name() const = 0;
  // Runs `command` there; ends with kCarrierLost where the host is lost.
  virtual std::vector<std::string> on_host(const std::string& host, const std::string& command,
                                           bool has_input) const = 0;
  std::string agent_command() const;  // after prepare()
  int free_port_of(const std::string& host) override;
  // Ends with the command's exit code; throws kMachine where the host is not reached.
  int run(const std::string& host, const std::string& command, const std::stop_token& stop) const;

 private:
  struct Bundle {
    std::string key;
    std::vector<std::string> tar;  // the arguments that put it into an archive
  };
  static Bundle bundle_of_this();
  std::string binary_there() const;  // the binary on every host, with the variables by which it finds torch and Python
  void prepare_host(const std::string& host, const Bundle& bundle, const fs::path& environment,
                    const std::stop_token& stop) const;
  void copy(const std::string& host, const fs::path& target, const std::vector<std::string>& tar,
            const std::stop_token& stop) const;

  const std::vector<fs::path> shared_;
  fs::path bundle_;  // of the binary, on every host
};

// A path of letters, digits and /._-+, which needs no quotes anywhere. Throws kUsage for another.
std::string plain_path(const fs::path& path);
// A host's name that no command takes for something else: a letter, digit or _ first, then those and .-@:. Throws
// kUsage for another.
std::string plain_host(const std::string& host);

}  // namespace tritonforge::orchestrate
