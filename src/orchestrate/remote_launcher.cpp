#include "orchestrate/remote_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <sstream>

#include "base/checksum.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "net/key.h"
#include "orchestrate/node_cache.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kCheckTimeout = 60, kCopyTimeout = 3600;  // seconds

fs::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  return (cache && *cache ? fs::path(cache) : fs::path(home ? home : "/root") / ".cache") / "tritonforge";
}

// The worker's folder that goes with this binary: the evaluator looks for it in the same places.
fs::path worker_folder() {
  const char* root = std::getenv("TRITONFORGE_ROOT");
  for (const fs::path& place : {root ? fs::path(root) : fs::path(), own_executable().parent_path().parent_path()})
    if (fs::exists(place / "worker")) return place;
  return {};
}

}  // namespace

std::string plain_path(const fs::path& path) {
  const std::string text = path.string();
  const bool plain = !text.empty() && text[0] == '/' && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || std::strchr("/._-+", c) != nullptr;
  });
  if (!plain)
    fail(ErrorKind::kUsage, "the path '{}' cannot go to other hosts: absolute, of letters, digits and /._-+", text);
  return text;
}

std::string plain_host(const std::string& host) {
  const bool plain = !host.empty() && (std::isalnum(static_cast<unsigned char>(host[0])) || host[0] == '_') &&
                     std::ranges::all_of(
                         host, [](unsigned char c) { return std::isalnum(c) || std::strchr("_.-@:", c) != nullptr; });
  if (!plain) fail(ErrorKind::kUsage, "'placement.hosts': '{}' is no name of a host", host);
  return host;
}

RemoteLauncher::RemoteLauncher(Layout layout, std::vector<fs::path> shared)
    : Launcher(std::move(layout)), shared_(std::move(shared)) {
  for (const std::string& host : this->layout().hosts) plain_host(host);
}

// bin/ with the binary and its own libraries, those of Debian's that an installed package has in bin/lib among them,
// and worker/ beside it.
RemoteLauncher::Bundle RemoteLauncher::bundle_of_this() {
  const fs::path binary = own_executable(), folder = binary.parent_path();
  std::vector<fs::path> files{binary.filename()};
  for (const std::string& name : names_in(folder, [](const fs::path& entry) {
         const std::string text = entry.filename().string();
         return text.starts_with("libtritonforge_") && text.ends_with(".so");
       }))
    files.emplace_back(name);
  if (fs::is_directory(folder / "lib"))
    for (const std::string& name :
         names_in(folder / "lib", [](const fs::path& entry) { return fs::is_regular_file(entry); }))
      files.push_back(fs::path("lib") / name);
  Bundle bundle{.key = {}, .tar = {"tar", "-chf", "-", "--transform=s,^,bin/,;s,^bin/worker,worker,", "-C", folder}};
  std::string content;
  for (const fs::path& file : files) {
    const MappedFile map(folder / file);
    content += file.string() +
               checksum(std::string_view(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()));
    bundle.tar.push_back(file.string());
  }
  if (const fs::path root = worker_folder(); !root.empty()) {
    std::vector<fs::path> sources;
    for (const auto& entry : fs::recursive_directory_iterator(root / "worker"))
      if (entry.path().extension() == ".py") sources.push_back(entry.path());
    std::sort(sources.begin(), sources.end());
    for (const fs::path& source : sources) content += source.string().substr(root.string().size()) + read_file(source);
    bundle.tar.insert(bundle.tar.end(), {"--exclude=__pycache__", "-C", root, "worker"});
  }
  bundle.key = checksum(content);
  return bundle;
}

std::string RemoteLauncher::binary_there() const {
  std::string words;
  // What an installed package's launcher says of where torch is; the environment comes to the same place there.
  for (const char* name : {"LD_LIBRARY_PATH", "TRITONFORGE_PYTHON"}) {
    std::istringstream paths(std::getenv(name) ? std::getenv(name) : "");
    std::vector<std::string> plain;
    for (std::string path; std::getline(paths, path, ':');)
      if (!path.empty()) plain.push_back(plain_path(path));
    if (!plain.empty()) words += fmt::format("{}={} ", name, fmt::join(plain, ":"));
  }
  return (words.empty() ? "" : "env " + words) + plain_path(bundle_ / "bin/tritonforge");
}

std::string RemoteLauncher::agent_command() const { return binary_there() + " agent"; }

// What is free on this machine says nothing of that one.
int RemoteLauncher::free_port_of(const std::string& host) {
  if (host == kHead) return Launcher::free_port_of(host);
  const auto said = run_command(on_host(host, agent_command() + " --free-port", /*has_input=*/false), kCheckTimeout);
  if (said.exit_code == kCarrierLost) return Launcher::free_port_of(host);  // who starts something there is told so
  int port = 0;
  std::from_chars(said.output.data(), said.output.data() + said.output.size(), port);
  if (said.exit_code != 0 || port == 0)
    fail(ErrorKind::kUnavailable, "{}: no free port was named there (the message is above)", host);
  return port;
}

int RemoteLauncher::run(const std::string& host, const std::string& command, const std::stop_token& stop) const {
  ChildProcess carrier({.argv = on_host(host, command, /*has_input=*/false), .stdout_file = "/dev/null"});
  const std::stop_callback end(stop, [&carrier] { carrier.signal(SIGKILL); });
  const auto code = carrier.wait(Deadline::after(kCheckTimeout));
  if (stop.stop_requested()) fail(ErrorKind::kUnavailable, "{}: was asked to stop", host);
  if (!code) fail(ErrorKind::kTimeout, "{}: {} did not answer in {} s", host, name(), kCheckTimeout);
  if (*code == kCarrierLost)
    fail(ErrorKind::kMachine, "{}: {} does not get there (its message is above)", host, name());
  return *code;
}

void RemoteLauncher::copy(const std::string& host, const fs::path& target, const std::vector<std::string>& tar,
                          const std::stop_token& stop) const {
  log::info("{}: copies {} there", host, target.string());
  const std::string path = plain_path(target), part = path + "." + net::random_key();
  const std::string unpack = fmt::format(
      "mkdir -p {0} && mkdir {1} && touch {1}/{2} && tar -xf - -C {1} || {{ rm -rf {1}; exit 1; }}",
      plain_path(target.parent_path()), part, kBrought);
  Pipe archive = make_pipe();
  ChildProcess source({.argv = tar, .stdout_fd = archive.write.get()});
  ChildProcess sink({.argv = on_host(host, unpack, /*has_input=*/true), .stdin_fd = archive.read.get()});
  archive = {};  // theirs alone: the end of one is seen by the other
  // What the other end holds of it is no whole archive, and is removed there.
  const std::stop_callback end(stop, [&] {
    sink.signal(SIGKILL);
    source.signal(SIGKILL);
  });
  const Deadline deadline = Deadline::after(kCopyTimeout);
  const auto received = sink.wait(deadline), sent = source.wait(deadline);
  const auto failed = [&](const std::string& why) {
    fail(ErrorKind::kMachine, "{}: {} could not be copied there ({})", host, path, why);
  };
  if (received != 0) failed(received ? fmt::format("exit {}", *received) : "no end in an hour");
  // An archive has an end whether tar could read every file or not. Side by side with others that copy the same: the
  // first that is done stays.
  const std::string keep = fmt::format("touch {1}/.complete && (mv -T {1} {0} 2>/dev/null || test -e {0}/.complete); ",
                                       path, part);
  const int kept = run(host, fmt::format("{}code=$?; rm -rf {}; exit $code", sent == 0 ? keep : "", part), stop);
  if (sent != 0)
    failed(sent ? fmt::format("tar ended with {} here: its message is above", *sent) : "no end in an hour");
  if (kept != 0) failed(fmt::format("exit {}", kept));
}

// What a host lacks, in one command: 10 + i for the shared path i, else what is to be copied there.
void RemoteLauncher::prepare_host(const std::string& host, const Bundle& bundle, const fs::path& environment,
                                  const std::stop_token& stop) const {
  constexpr int kBundle = 1, kEnvironment = 2, kShared = 10;
  std::string check;
  for (size_t i = 0; i < shared_.size(); ++i)
    check += fmt::format("test -e {} || exit {}; ", plain_path(shared_[i]), kShared + i);
  check += fmt::format("c=0; test -e {} || c={}; ", plain_path(bundle_ / ".complete"), kBundle);
  if (!environment.empty()) {
    // requirements/install says when its own is whole; another was made by hand.
    const fs::path mark = environment / (fs::exists(environment / ".complete") ? ".complete" : "pyvenv.cfg");
    check += fmt::format("test -e {} || c=$((c + {})); ", plain_path(mark), kEnvironment);
  }
  const int lacks = run(host, check + "exit $c", stop);
  if (lacks >= kShared && lacks - kShared < std::ssize(shared_))
    fail(ErrorKind::kMachine, "{} does not see {}: put it where all hosts of the run see it at the same path", host,
         shared_[lacks - kShared].string());
  if (lacks & kBundle) copy(host, bundle_, bundle.tar, stop);
  if (lacks & kEnvironment) {
    const std::string own_mark = fmt::format("--exclude=./{}", kBrought);  // where it was brought here: of another time
    copy(host, environment, {"tar", "-cf", "-", own_mark, "-C", environment, "."}, stop);
  }
  // --help is of the whole program, which loads libtorch: a host that cannot is told now, not when a rank starts.
  if (run(host, agent_command() + " --sweep && " + binary_there() + " --help", stop) != 0)
    fail(ErrorKind::kMachine,
         "{}: tritonforge does not start there (its message is above): requirements/debian.txt lists what it needs",
         host);
}

void RemoteLauncher::prepare(const std::stop_token& stop) {
  const Bundle bundle = bundle_of_this();
  bundle_ = cache_folder() / "nodes" / bundle.key;
  const fs::path environment = own_environment();
  std::vector<std::future<void>> hosts;
  for (const std::string& host : layout().hosts) {
    if (host == kHead) continue;
    hosts.push_back(std::async(std::launch::async, [&, host] { prepare_host(host, bundle, environment, stop); }));
  }
  std::exception_ptr first;
  for (auto& host : hosts) {
    try {
      host.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tritonforge::orchestrate
