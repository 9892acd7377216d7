#include "orchestrate/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "net/address.h"
#include "net/key.h"
#include "orchestrate/agent.h"

namespace tritonforge::orchestrate {

Launched::~Launched() {
  for (Member& member : members_) {
    member.pulse = {};  // it writes to control
    for (const int fd : {member.control, member.report})
      if (fd >= 0) ::close(fd);  // the agent ends what it started
  }
}

// A carrier may outlive the process that it carried, for as long as somebody here keeps a connection through it.
std::optional<int> Launched::ended(Member& member) {
  if (member.code) return member.code;
  if (member.report >= 0) {
    if ((member.code = read_report(member.report))) member.process->signal(SIGKILL);
  }
  if (!member.code) member.code = member.process->poll();
  return member.code;
}

std::vector<pid_t> Launched::pids() const {
  std::vector<pid_t> pids;
  for (const Member& member : members_) pids.push_back(member.process->pid());
  return pids;
}

std::optional<int> Launched::wait(Deadline deadline) {
  while (true) {
    std::vector<ChildProcess*> processes;
    std::vector<int> reports;
    for (Member& member : members_) {
      if (const auto code = ended(member)) return code;
      processes.push_back(member.process.get());
      if (member.report >= 0) reports.push_back(member.report);
    }
    if (deadline.expired()) return std::nullopt;
    wait_any(processes, deadline, reports);
  }
}

bool Launched::wait_all(Deadline deadline) {
  for (Member& member : members_) {
    while (!ended(member)) {
      if (deadline.expired()) return false;
      std::vector<int> reports;
      if (member.report >= 0) reports.push_back(member.report);
      wait_any({member.process.get()}, deadline, reports);
    }
  }
  return true;
}

void Launched::signal(int number) {
  for (const Member& member : members_) {
    if (member.control < 0) member.process->signal(number);
    else tell_agent(member.control, number);
  }
}

void Launched::stop(double grace_s) {
  signal(SIGTERM);
  if (wait_all(Deadline::after(grace_s))) return;
  signal(SIGKILL);
  if (wait_all(Deadline::after(10))) return;
  for (Member& member : members_) member.process->signal(SIGKILL);  // a carrier that does not answer
}

Carrier Launcher::carrier(const Job& job, size_t, const Place& place) {
  fail(ErrorKind::kUsage, "{} is placed on {}: --launcher ssh or ray starts roles on other hosts", job.role,
       place.host);
}

int Launcher::free_port_of(const std::string&) { return free_port(); }

std::vector<Place> Launcher::place(const Job& job) {
  std::lock_guard lock(mutex_);
  std::vector<Moved>& mine = taken_[job.role];
  if (mine.empty())
    for (const Place& place : job.places) mine.push_back({place, place});
  for (Moved& one : mine) {
    if (!gone_.contains(one.now.host)) continue;
    std::vector<Moved> others;
    std::vector<Place> taken;
    for (const auto& [role, processes] : taken_) {
      for (const Moved& other : processes) {
        if (&other == &one) continue;
        others.push_back(other);
        taken.push_back(other.now);
      }
    }
    try {
      const auto shared = with_its_sharers(one.first, gone_, others);
      const Place there = shared ? *shared : layout_.elsewhere(one.now, gone_, taken);
      log::warn("{} goes from {} to {}", job.role, text_of(one.now), text_of(there));
      one.now = there;
    } catch (const Error& error) {
      log::warn("{}: {}; trying it once more", job.role, error.what());
      gone_.erase(one.now.host);
    }
  }
  std::vector<Place> places;
  for (const Moved& one : mine) places.push_back(one.now);
  return places;
}

Launched::Member Launcher::start_one(const Job& job, size_t rank, const Place& place,
                                     const std::vector<std::string>& as_rank) {
  ProcessOptions options;
  options.argv = job.confined ? bound_to_cores(place, job.argv) : job.argv;
  options.argv.insert(options.argv.end(), as_rank.begin(), as_rank.end());
  options.env = job.env;
  const char* shown = place.host == kHead ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
  if (job.confined) options.env.merge(environment_of(place, shown));
  options.stdout_file = options.stderr_file = job.log;
  if (place.host == kHead) return {place, std::make_unique<ChildProcess>(options), -1};
  return carried(options, carrier(job, rank, place), place);
}

// Where the ranks of a group reach each other.
std::vector<std::string> Launcher::addresses_of(const std::vector<Place>& places) const {
  const auto is_here = [](const Place& place) { return place.host == kHead; };
  const auto elsewhere = std::ranges::find_if_not(places, is_here);
  std::vector<std::string> addresses;
  for (const Place& place : places) {
    if (elsewhere == places.end()) addresses.emplace_back("127.0.0.1");
    else if (!is_here(place)) addresses.push_back(net::ipv4_of(network_name(place.host)));
    else addresses.push_back(net::own_address_towards(net::ipv4_of(network_name(elsewhere->host))));
  }
  return addresses;
}

// Loopback where there are no others.
std::string Launcher::address_towards_others(const Place& place) const {
  if (place.host != kHead) return net::ipv4_of(network_name(place.host));
  const auto other = std::ranges::find_if(layout_.hosts, [](const std::string& host) { return host != kHead; });
  return other == layout_.hosts.end() ? "127.0.0.1" : net::own_address_towards(net::ipv4_of(network_name(*other)));
}

std::unique_ptr<Launched> Launcher::start(const Job& given) {
  Job job = given;
  const std::vector<Place> places = place(job);
  std::vector<std::string> addresses;
  std::string rendezvous;
  if (places.size() > 1) {
    addresses = addresses_of(places);
    rendezvous = fmt::format("{}:{}", addresses.front(), free_port_of(places.front().host));
    job.env["TRITONFORGE_RENDEZVOUS_KEY"] = net::random_key();
  }
  std::vector<Launched::Member> members;
  try {
    for (size_t rank = 0; rank < places.size(); ++rank) {
      std::vector<std::string> as_rank;
      if (places.size() > 1)
        as_rank = {"--rank", std::to_string(rank), "--rank-host", addresses[rank], "--rendezvous", rendezvous};
      if (job.publishes && rank == 0)
        as_rank.insert(as_rank.end(), {"--weights-host", address_towards_others(places[rank])});
      members.push_back(start_one(job, rank, places[rank], as_rank));
    }
  } catch (...) {
    Launched(std::move(members)).stop(/*grace_s=*/0);
    throw;
  }
  return std::make_unique<Launched>(std::move(members));
}

void Launcher::ended(const std::string& role, const Launched& launched) {
  std::lock_guard lock(mutex_);
  for (const auto& member : launched.members()) {
    if (member.control < 0 || member.code != kCarrierLost) continue;
    if (gone_.insert(member.place.host).second)
      log::warn("{} lost {}: not used while others are left", role, member.place.host);
  }
}

}  // namespace tritonforge::orchestrate
