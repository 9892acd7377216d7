// tritonforge-ray: what `run --launcher ray` has in ssh's place. It joins the cluster as a driver, and does one thing:
//
//   tritonforge-ray hold   reads groups from its standard input, {"actor": [{"CPU": 1, "node:10.0.0.2": 0.001}, …], …},
//                          makes a placement group of each, says "ready", and keeps them until its input ends
//   tritonforge-ray exec   runs a command (sh -c) on a node, in a bundle of such a group or with --resources of its
//                          own: its input, output and exit code are this program's, as with ssh; 255: the node is lost
//
// The process there ends with this one, since its actor does.
#include <fcntl.h>
#include <ray/api.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "orchestrate/ray/remote_process.h"

namespace tritonforge::ray_side {
namespace {

using nlohmann::json;
using Bundle = std::unordered_map<std::string, double>;

constexpr int kLost = 255, kNoRoom = 3, kWrongUse = 2;
constexpr size_t kChunk = 1 << 20;

struct Options {
  std::string mode, address, library, space, group, command;
  int bundle = 0, timeout_s = 60;
  bool input = true;
  json resources = json::object(), runtime_env = json::object();
};

Options read_options(int argc, char** argv) {
  Options options;
  if (argc < 2 || argc % 2 != 0) throw std::invalid_argument("usage: tritonforge-ray hold|exec --NAME VALUE …");
  options.mode = argv[1];
  const std::map<std::string, std::string*> texts = {{"--address", &options.address},
                                                     {"--library", &options.library},
                                                     {"--namespace", &options.space},
                                                     {"--group", &options.group},
                                                     {"--command", &options.command}};
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (const auto text = texts.find(name); text != texts.end()) *text->second = value;
    else if (name == "--input") options.input = value == "yes";
    else if (name == "--bundle") options.bundle = std::stoi(value);
    else if (name == "--timeout") options.timeout_s = std::stoi(value);
    else if (name == "--resources") options.resources = json::parse(value);
    else if (name == "--runtime-env") options.runtime_env = json::parse(value);
    else throw std::invalid_argument("unknown option " + name);
  }
  return options;
}

void join(const Options& options) {
  ::setenv("RAY_BACKEND_LOG_LEVEL", "fatal", /*overwrite=*/0);  // what a user needs is said here, on one line
  ray::RayConfig config;
  config.address = options.address;
  config.ray_namespace = options.space;
  config.code_search_path = {options.library};
  if (!options.runtime_env.empty()) {
    ray::RuntimeEnv environment;
    for (const auto& [name, value] : options.runtime_env.items()) environment.SetJsonStr(name, value.dump());
    config.runtime_env = environment;
  }
  // Before it has read the variable above, Ray prints lines of its own.
  const int errors = ::dup(STDERR_FILENO), nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDERR_FILENO);
  ray::Init(config);
  ::dup2(errors, STDERR_FILENO);
  ::close(errors);
  ::close(nowhere);
}

// Until the end of standard input.
bool read_some(std::string& bytes) {
  bytes.resize(kChunk);
  ssize_t count;
  while ((count = ::read(STDIN_FILENO, bytes.data(), bytes.size())) < 0 && errno == EINTR) continue;
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return count > 0;
}

void write_all(int fd, const std::string& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // nobody listens any more: the exit code is what is left to say
    written += static_cast<size_t>(count);
  }
}

int hold(const Options& options) {
  std::string line;
  if (!std::getline(std::cin, line)) throw std::invalid_argument("hold: no groups on its standard input");
  const json groups = json::parse(line);
  for (const auto& [name, bundles] : groups.items()) {
    ray::PlacementGroupCreationOptions wanted;
    wanted.name = name;
    wanted.strategy = ray::PlacementStrategy::PACK;
    for (const json& bundle : bundles) wanted.bundles.push_back(bundle.get<Bundle>());
    if (!ray::CreatePlacementGroup(wanted).Wait(options.timeout_s)) {
      std::cerr << "Ray has no room for the " << name << " group within " << options.timeout_s
                << " s: " << bundles.dump() << "; `ray status` says what is there\n";
      return kNoRoom;
    }
  }
  write_all(STDOUT_FILENO, "ready\n");
  for (std::string rest; read_some(rest);) continue;
  ray::Shutdown();
  return 0;
}

using Handle = ray::ActorHandle<RemoteProcess>;

Handle make_actor(const Options& options) {
  auto actor = ray::Actor(&RemoteProcess::Create);
  actor.SetMaxConcurrency(2);  // one writes, one reads
  for (const auto& [name, amount] : options.resources.items()) actor.SetResource(name, amount.get<double>());
  if (!options.group.empty()) {
    const ray::PlacementGroup group = ray::GetPlacementGroup(options.group);
    if (group.Empty()) throw std::runtime_error("there is no placement group '" + options.group + "'");
    actor.SetPlacementGroup(group, options.bundle);
  }
  return actor.Remote();
}

int exec(const Options& options) {
  Handle actor = make_actor(options);
  const auto started = actor.Task(&RemoteProcess::Start).Remote(options.command);
  if (ray::Wait(std::vector<ray::ObjectRef<int>>{started}, 1, options.timeout_s * 1000).ready.empty()) {
    std::cerr << "Ray started nothing within " << options.timeout_s << " s with " << options.resources.dump()
              << (options.group.empty() ? "" : " in its placement group " + options.group) << '\n';
    return kLost;
  }
  started.Get();
  std::thread([actor, input = options.input]() mutable {
    try {
      for (std::string bytes; input && read_some(bytes);) actor.Task(&RemoteProcess::Write).Remote(bytes).Get();
      actor.Task(&RemoteProcess::Write).Remote(std::string()).Get();
    } catch (const std::exception&) {  // the actor is gone, which Read says, too
    }
  }).detach();
  while (true) {
    const auto said = actor.Task(&RemoteProcess::Read).Remote().Get();
    if (said->channel == 0) return said->code;
    write_all(said->channel, said->bytes);
  }
}

}  // namespace
}  // namespace tritonforge::ray_side

int main(int argc, char** argv) {
  using namespace tritonforge::ray_side;
  Options options;
  try {
    options = read_options(argc, argv);
    if (options.mode != "hold" && options.mode != "exec") throw std::invalid_argument("'" + options.mode + "'?");
  } catch (const std::exception& error) {
    std::cerr << "tritonforge-ray: " << error.what() << '\n';
    return kWrongUse;
  }
  int code = kLost;
  try {
    join(options);
    code = options.mode == "hold" ? hold(options) : exec(options);
  } catch (const ray::internal::RayFunctionNotFound&) {
    std::cerr << "the node does not see " << options.library << '\n';
  } catch (const ray::internal::RayException& error) {
    // The text of an actor's death is a serialised message of Ray's own: not for a terminal.
    std::cerr << "the node, or Ray's actor on it, is lost\n";
  } catch (const std::exception& error) {
    std::cerr << "tritonforge-ray: " << error.what() << '\n';
  }
  std::cerr.flush();
  ::_exit(code);  // the thread that reads standard input cannot be joined; the cluster ends what this driver had
}
