#pragma once
// Roles on the nodes of a Ray cluster. A program of its own, tritonforge-ray (`make ray`; orchestrate/ray), has the
// place that ssh has: it runs a command on a node as an actor's process. What ssh does besides, carrying ports, a
// tunnel of this process does (net/tunnel.h), so that every role keeps one address wherever it runs and nothing on a
// node listens beyond its loopback.
//
// The groups of the placement are Ray's placement groups, reserved before anything starts: one bundle a process, on the
// node that the placement gives it (Ray calls a node by its address). A role that must leave its node takes resources
// of its own elsewhere. Roles of localhost are children of this process and no matter of Ray's.
#include "base/descriptor.h"
#include "base/json.h"
#include "orchestrate/remote_launcher.h"

namespace tritonforge::orchestrate {

// The part of a placement group that one process gets.
struct RayBundle {
  std::string role;
  size_t rank = 0;
  Place place;
  std::map<std::string, double> resources;
};

// Of a process that is placed there: its cores (at least one), its GPUs, and the node.
std::map<std::string, double> ray_resources(const Place& place, size_t gpus);
// By group: those of "actor", "rollout" and "eval" that are `used` and not on localhost. A GPU that several groups
// share is in the bundle of the first.
std::map<std::string, std::vector<RayBundle>> ray_groups(const Layout& layout, const std::set<std::string>& used);

bool ray_is_built();  // tritonforge-ray is beside this binary

// HOST:PORT of a cluster's control service. "auto": RAY_ADDRESS, or the cluster that was started on this machine.
// Throws kUsage for an address of another kind, kMachine where there is none.
std::string ray_address(const std::string& given);
// The addresses of its nodes that are alive, sorted: what placement.hosts are where it names none.
std::vector<std::string> ray_nodes(const std::string& address);

struct RayOptions {
  std::string address = "auto", runtime_env;  // runtime_env: Ray's own, as JSON
  std::set<std::string> groups;               // those that the run's stages use
};

class RayLauncher : public RemoteLauncher {
 public:
  // Throws kMachine where tritonforge-ray is not built, or no Ray answers. `folder`: the run's, which all nodes see.
  RayLauncher(Layout layout, const RayOptions& options, const fs::path& folder, std::vector<fs::path> shared);
  void prepare(const std::stop_token& stop) override;
  void ended(const std::string& role, const Launched& launched) override;

 protected:
  std::string_view name() const override { return "Ray"; }
  std::vector<std::string> on_host(const std::string& host, const std::string& command, bool has_input) const override;
  Carrier carrier(const Job& job, size_t rank, const Place& place) override;

 private:
  std::vector<std::string> command(const std::string& mode) const;
  void reserve(const std::stop_token& stop);

  const fs::path program_, folder_;
  const std::string address_, runtime_env_, space_;
  const std::map<std::string, std::vector<RayBundle>> groups_;
  std::set<std::string> same_machine_;  // nodes that have this process's loopback
  net::TunnelHead tunnel_;
  std::unique_ptr<ChildProcess> holder_;  // of the groups
  Descriptor holding_;                    // its input: until that ends
};

}  // namespace tritonforge::orchestrate
