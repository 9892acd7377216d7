#include "orchestrate/ray_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>

#include "base/descriptor.h"
#include "base/log.h"
#include "net/address.h"
#include "net/wire.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kPin = 0.001;     // of a node's own resource, of which each node has one
constexpr int kStartTimeout = 45;  // seconds, less than a check of a host may take

fs::path program_path() { return own_executable().parent_path() / "tritonforge-ray"; }

fs::path program() {
  if (!ray_is_built())
    fail(ErrorKind::kMachine, "--launcher ray needs {}, which is not built: `make ray` builds it",
         program_path().string());
  return program_path();
}

// This machine's address as those at HOST:PORT see it. Throws kMachine where nobody is there.
std::string own_address(const std::string& address) {
  const Url ray = parse_url("http://" + address);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(static_cast<uint16_t>(ray.port));
  ::inet_pton(AF_INET, net::ipv4_of(ray.host).c_str(), &there.sin_addr);
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0 && errno != EINPROGRESS)
    fail(ErrorKind::kMachine, "no Ray answers at {}: {}", address, std::strerror(errno));
  pollfd waiter{socket.get(), POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (::poll(&waiter, 1, /*ms=*/5000) > 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) fail(ErrorKind::kMachine, "no Ray answers at {}: {}", address, std::strerror(error));
  sockaddr_in own{};
  size = sizeof own;
  char text[INET_ADDRSTRLEN] = {};
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
  return ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
}

std::string runtime_env_of(const std::string& text) {
  if (text.empty()) return text;
  const Json parsed = parse_json_or_discard(text);
  if (!parsed.is_object()) fail(ErrorKind::kUsage, "--ray-runtime-env is no JSON object: {}", text);
  return parsed.dump();
}

}  // namespace

bool ray_is_built() { return fs::exists(program_path()); }

std::map<std::string, double> ray_resources(const Place& place, size_t gpus) {
  std::map<std::string, double> resources = {{"CPU", std::max<double>(1, static_cast<double>(place.cores.size()))},
                                             {"node:" + place.host, kPin}};
  if (gpus > 0) resources["GPU"] = static_cast<double>(gpus);
  return resources;
}

std::map<std::string, std::vector<RayBundle>> ray_groups(const Layout& layout, const std::set<std::string>& used) {
  std::map<std::string, std::vector<RayBundle>> groups;
  std::set<std::pair<std::string, int64_t>> counted;
  const auto add = [&](const std::string& group, const std::string& role, size_t rank, const Place& place) {
    if (place.host == kHead || !used.contains(group)) return;
    const auto fresh = std::ranges::count_if(place.gpus,
                                             [&](int64_t id) { return counted.insert({place.host, id}).second; });
    groups[group].push_back({role, rank, place, ray_resources(place, static_cast<size_t>(fresh))});
  };
  for (size_t rank = 0; rank < layout.actor.size(); ++rank) add("actor", "trainer", rank, layout.actor[rank]);
  for (size_t i = 0; i < layout.engines.size(); ++i) add("rollout", fmt::format("engine-{}", i), 0, layout.engines[i]);
  add("eval", "evaluator", 0, layout.eval);
  return groups;
}

std::string ray_address(const std::string& given) {
  std::string address = given;
  const auto fits = [&](const char* text) { return text && *text && std::strcmp(text, "auto") != 0; };
  if (address.empty() || address == "auto") {
    const char* set = std::getenv("RAY_ADDRESS");
    const char* folder = std::getenv("RAY_TMPDIR");
    const fs::path current = fs::path(folder && *folder ? folder : "/tmp") / "ray/ray_current_cluster";
    if (fits(set)) address = set;
    else if (fs::exists(current)) address = read_file(current);
    else
      fail(ErrorKind::kMachine,
           "no Ray runs on this machine ({} is not there): `ray start`, or --ray-address HOST:PORT", current.string());
    while (!address.empty() && std::isspace(static_cast<unsigned char>(address.back()))) address.pop_back();
  }
  if (address.find("://") != std::string::npos)
    fail(ErrorKind::kUsage,
         "--ray-address {}: Ray's C++ API joins a cluster as HOST:PORT; `tritonforge submit --ray-address http://…` "
         "sends a run into one from outside",
         address);
  const size_t colon = address.rfind(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == address.size() ||
      !std::all_of(address.begin() + static_cast<std::ptrdiff_t>(colon) + 1, address.end(),
                   [](unsigned char c) { return std::isdigit(c); }))
    fail(ErrorKind::kUsage, "--ray-address '{}' is not HOST:PORT (`ray start` prints it; the port is mostly 6379)",
         address);
  return address;
}

std::vector<std::string> ray_nodes(const std::string& address) {
  // The C++ API has no list of nodes.
  const std::string python =
      "import json, sys, ray\n"
      "ray.init(address=sys.argv[1], logging_level='ERROR', log_to_driver=False)\n"
      "print(json.dumps(sorted(n['NodeManagerAddress'] for n in ray.nodes() if n['Alive'])))";
  program();
  const auto said = run_command({TF_RAY_PYTHON, "-c", python, address}, /*timeout_s=*/60);
  const Json nodes = parse_json_or_discard(
      said.output.substr(said.output.rfind('[') == std::string::npos ? said.output.size() : said.output.rfind('[')));
  if (said.exit_code != 0 || !nodes.is_array() || nodes.empty())
    fail(ErrorKind::kMachine, "Ray at {} names no nodes (its message is above)", address);
  return nodes.get<std::vector<std::string>>();
}

RayLauncher::RayLauncher(Layout layout, const RayOptions& options, const fs::path& folder, std::vector<fs::path> shared)
    : RemoteLauncher(std::move(layout), std::move(shared)),
      program_(program()),
      folder_(folder / "ray"),
      address_(ray_address(options.address)),
      runtime_env_(runtime_env_of(options.runtime_env)),
      space_(fmt::format("tritonforge-{}-{}", ::getpid(), Clock::now().time_since_epoch().count())),
      groups_(ray_groups(this->layout(), options.groups)),
      tunnel_(own_address(address_)) {}

std::vector<std::string> RayLauncher::command(const std::string& mode) const {
  std::vector<std::string> argv = {
      program_.string(), mode,          "--address", address_,    "--library",
      folder_.string(),  "--namespace", space_,      "--timeout", std::to_string(kStartTimeout)};
  if (!runtime_env_.empty()) argv.insert(argv.end(), {"--runtime-env", runtime_env_});
  return argv;
}

std::vector<std::string> RayLauncher::on_host(const std::string& host, const std::string& text, bool has_input) const {
  std::vector<std::string> argv = command("exec");
  argv.insert(argv.end(), {"--resources", Json{{"node:" + host, kPin}}.dump(), "--input", has_input ? "yes" : "no",
                           "--command", text});
  return argv;
}

void RayLauncher::prepare(const std::stop_token& stop) {
  // The actor's library: Ray's workers load it from the run's folder.
  fs::create_directories(folder_);
  const std::string library = "libtritonforge_ray.so";
  write_file_atomic(folder_ / library, read_file(program_.parent_path() / library));
  RemoteLauncher::prepare(stop);

  // Nodes that have this machine's loopback need no tunnel.
  const std::string network = fs::read_symlink("/proc/self/ns/net").string();
  std::string boot = read_file("/proc/sys/kernel/random/boot_id");
  boot.erase(boot.find_last_not_of(" \n") + 1);
  const std::string same = fmt::format(
      "test \"$(readlink /proc/self/ns/net)\" = \"{}\" && grep -q {} /proc/sys/kernel/random/boot_id", network, boot);
  std::map<std::string, std::future<int>> hosts;
  for (const std::string& host : layout().hosts)
    if (host != kHead) hosts[host] = std::async(std::launch::async, [=, this] { return run(host, same, stop); });
  for (auto& [host, code] : hosts)
    if (code.get() == 0) same_machine_.insert(host);
  reserve(stop);
}

// Placement groups of the layout; they last as long as the process that asked for them.
void RayLauncher::reserve(const std::stop_token& stop) {
  Json wanted = Json::object();
  for (const auto& [group, bundles] : groups_)
    for (const RayBundle& bundle : bundles) wanted[group].push_back(bundle.resources);
  if (wanted.empty()) return;
  Pipe input = make_pipe(), output = make_pipe();
  holder_ = std::make_unique<ChildProcess>(
      ProcessOptions{.argv = command("hold"), .stdin_fd = input.read.get(), .stdout_fd = output.write.get()});
  holding_ = std::move(input.write);
  output.write = Descriptor();  // its own alone, so that its end shows
  const std::stop_callback end(stop, [this] { holder_->signal(SIGKILL); });
  const std::string line = wanted.dump() + "\n";
  if (::write(holding_.get(), line.data(), line.size()) != std::ssize(line))
    fail(ErrorKind::kUnavailable, "tritonforge-ray: {}", std::strerror(errno));
  pollfd waiter{output.read.get(), POLLIN, 0};
  char text[16] = {};
  const double timeout = (1.0 + static_cast<double>(groups_.size())) * kStartTimeout;
  const bool spoke = ::poll(&waiter, 1, static_cast<int>(timeout * 1000)) > 0;
  if (!spoke || ::read(output.read.get(), text, sizeof text - 1) <= 0)
    fail(ErrorKind::kMachine, "Ray did not make the run's placement groups ({})",
         spoke ? "its message is above" : fmt::format("no answer in {} s", timeout));
}

void RayLauncher::ended(const std::string& role, const Launched& launched) {
  Launcher::ended(role, launched);
  tunnel_.close(role);
}

Carrier RayLauncher::carrier(const Job& job, size_t rank, const Place& place) {
  Carrier carrier{command("exec")};
  // In its bundle, or with resources of its own where it could not stay.
  std::map<std::string, double> resources = ray_resources(place, place.gpus.size());
  for (const auto& [group, bundles] : groups_) {
    for (size_t i = 0; i < bundles.size(); ++i) {
      const RayBundle& bundle = bundles[i];
      if (bundle.role != job.role || bundle.rank != rank || bundle.place != place) continue;
      resources = bundle.resources;
      if (holder_ && !holder_->poll())
        carrier.argv.insert(carrier.argv.end(), {"--group", group, "--bundle", std::to_string(i)});
    }
  }
  carrier.argv.insert(carrier.argv.end(), {"--resources", Json(resources).dump(), "--command", agent_command()});
  if (rank == 0 && !same_machine_.contains(place.host)) carrier.tunnel = tunnel_.open(job.role, job.port, job.reaches);
  return carrier;
}

}  // namespace tritonforge::orchestrate
