#pragma once
// Starts the processes of a role where its places are. The supervisor knows this interface and nothing of hosts.
//
// On this machine a process is a child. On another host a carrier (ssh, or what a cluster has) runs `tritonforge agent`
// there, which is told what to start by its standard input (orchestrate/agent.h): nothing of a job is ever part of a
// command line or of a shell's text, keys included. Every role keeps one address, http://127.0.0.1:PORT of this
// machine, wherever it runs: the carrier makes that port its own.
//
// A host whose carrier breaks down is not used again while there are others: its roles come back elsewhere.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
#include "net/tunnel.h"
#include "orchestrate/placement.h"

namespace tritonforge::orchestrate {

// What is started for a role: as many processes as it has places, all with the same arguments, which begin and end
// together. Several are a group of ranks: each is told its --rank, the address that others reach it at (--rank-host),
// the first's --rendezvous HOST:PORT and, in its environment, the key of it, a new one for each start.
struct Job {
  std::string role;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::vector<Place> places{Place()};
  bool confined = false;     // sees the devices of its place alone; else whatever this machine has
  int port = 0;              // the first one's, on its own loopback and on this machine's
  std::vector<int> reaches;  // ports of this machine that the first one asks
  bool publishes = false;    // the first is told the address that the other hosts reach it at (--weights-host)
  fs::path log;              // what they print, appended
};

// The processes of one start of a role. One thread waits and stops, any may signal.
class Launched {
 public:
  struct Member {
    Place place;
    std::unique_ptr<ChildProcess> process;  // itself, or what carries it
    int control = -1;                       // to the agent; -1: a child of this process
    int report = -1;                        // from it: how the process ended, which its carrier may outlive
    std::optional<int> code = {};
    std::jthread pulse = {};  // tells the agent that this process is there
  };
  explicit Launched(std::vector<Member> members) : members_(std::move(members)) {}
  virtual ~Launched();  // waits for the end of what still runs
  Launched(const Launched&) = delete;
  std::vector<pid_t> pids() const;  // by rank
  const std::vector<Member>& members() const { return members_; }
  // The code of the first that ended, whichever it is; nothing while all run.
  std::optional<int> wait(Deadline deadline);
  void signal(int number);
  void stop(double grace_s);  // SIGTERM to all, SIGKILL to what is left after grace_s

 private:
  static std::optional<int> ended(Member& member);
  bool wait_all(Deadline deadline);
  std::vector<Member> members_;
};

// How a process of another host is brought there.
struct Carrier {
  std::vector<std::string> argv;  // the command here that runs the agent there; ends with kCarrierLost with its host
  std::optional<net::TunnelEnd> tunnel = {};  // where that command carries no ports
};

class Launcher {
 public:
  explicit Launcher(Layout layout = {}) : layout_(std::move(layout)) {}
  virtual ~Launcher() = default;
  // Before the first start: what the hosts lack. Throws kMachine naming the host, and soon once `stop` is asked for.
  virtual void prepare(const std::stop_token&) {}
  // Throws kUnavailable where one cannot be started, or no host is left for it.
  virtual std::unique_ptr<Launched> start(const Job& job);
  // Tells it of the end of what it started: whether it was the host that went.
  virtual void ended(const std::string& role, const Launched& launched);

 protected:
  virtual Carrier carrier(const Job& job, size_t rank, const Place& place);  // only for other hosts
  // The name or address at which other machines find that host.
  virtual std::string network_name(const std::string& host) const { return host.substr(host.find('@') + 1); }
  virtual int free_port_of(const std::string& host);  // any from 20000 that nobody there listens on
  static constexpr int kCarrierLost = 255;
  const Layout& layout() const { return layout_; }

 private:
  std::vector<Place> place(const Job& job);
  std::vector<std::string> addresses_of(const std::vector<Place>& places) const;
  std::string address_towards_others(const Place& place) const;
  Launched::Member start_one(const Job& job, size_t rank, const Place& place, const std::vector<std::string>& as_rank);

  const Layout layout_;
  std::mutex mutex_;
  std::map<std::string, std::vector<Moved>> taken_;  // by role, where it was started last
  std::set<std::string> gone_;
};

}  // namespace tritonforge::orchestrate
