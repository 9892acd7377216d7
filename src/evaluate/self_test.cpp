#include "evaluate/self_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "base/log.h"
#include "evaluate/reference.h"

namespace tritonforge::evaluate {
namespace {

// A listener of ours that the probe must not reach.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd_, 4) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      fail(ErrorKind::kUnavailable, "sandbox self-test: no loopback listener");
    }
    port_ = ntohs(address.sin_port);
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    const std::string name = abstract_name();
    std::copy(name.begin(), name.end(), local.sun_path + 1);  // behind a zero byte: a name, and no file
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (local_ < 0 || ::bind(local_, reinterpret_cast<sockaddr*>(&local), length) != 0 || ::listen(local_, 4) != 0)
      fail(ErrorKind::kUnavailable, "sandbox self-test: no abstract socket");
  }
  ~Listener() {
    ::close(fd_);
    ::close(local_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }
  std::string abstract_name() const { return fmt::format("tritonforge-self-test-{}-{}", ::getpid(), port_); }

 private:
  int fd_, local_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), port_ = 0;
};

// The layers that every child has to have put on (sandbox/layers.h).
constexpr const char* kLayers[] = {"namespaces", "mounts", "rlimits", "landlock", "seccomp"};
// Few machines give a control group over to who did not ask for one.
constexpr const char* kOnlyStrict = "control_group";

}  // namespace

bool was_refused(std::string_view outcome) {
  return outcome.starts_with('E') && outcome.find(' ') == std::string_view::npos;
}

std::vector<std::string> SelfTest::missing(SandboxRule rule) const {
  std::vector<std::string> out;
  const auto demand = [&](const char* name) {
    const std::string state = layers.value(name, "not reported");
    if (!state.starts_with("enforced")) out.push_back(fmt::format("{}: {}", name, state));
  };
  for (const char* name : kLayers) demand(name);
  if (rule == SandboxRule::kStrict) demand(kOnlyStrict);
  return out;
}

void require_strict(SandboxRule rule, const SelfTest& test) {
  const auto missing = test.missing(rule);
  if (test.breaches.empty() && missing.empty()) return;
  std::string what = test.breaches.empty() ? "" : fmt::format("broke out: {}", fmt::join(test.breaches, ", "));
  if (!missing.empty()) what += fmt::format("{}not enforced: {}", what.empty() ? "" : "; ", fmt::join(missing, ", "));
  if (rule == SandboxRule::kStrict)
    fail(ErrorKind::kMachine, "evaluator: --sandbox strict, but the self-test {}", what);
  log::warn("sandbox: the self-test {}; verdicts say which layers hold", what);
}

std::string try_fork_bomb(Children& children, const ChildLimits& limits, Deadline deadline) {
  constexpr int kForks = 2048;  // far above the watch's bound, so that it cannot be over before the next look
  const auto child = children.spawn("probe", limits, deadline);
  Frame frame;
  std::string detail;
  Silence silence = child->channel().send({{"only_forks", kForks}}, {}, deadline);
  if (silence == Silence::kNone) silence = child->channel().receive(frame, deadline, detail);
  if (silence == Silence::kMemory) return "ENDED_BY_THE_WATCH";
  if (silence != Silence::kNone) return "not seen to its end: it " + describe_silence(silence, *child, detail, 0);
  return frame.header.value("attempts", Json::object()).value("fork_bomb", "not told");
}

SelfTest test_sandbox(Children& children, bool gpu, Deadline deadline) {
  const TemporaryFolder outside("tritonforge-self-test-");
  write_file_atomic(outside.path() / "secret", "expected outputs");
  const Listener listener;
  ChildLimits limits{.cpu_s = 20, .file_bytes = 16 << 20, .memory_bytes = uint64_t{512} << 20, .gpu = gpu};
  if (gpu) {
    limits.address_space = false;
    limits.processes = true;
    limits.memory_bytes = uint64_t{64} << 30;  // a CUDA context's mappings count as resident
  }
  const auto child = children.spawn("probe", limits, deadline), sibling = children.spawn("probe", limits, deadline);
  const char* home = std::getenv("HOME");
  Json request = {{"address", {"127.0.0.1", listener.port()}},
                  {"outside", (outside.path() / "written").string()},
                  {"secret", (outside.path() / "secret").string()},
                  {"home", home ? home : "/root"},
                  {"victim", ::getpid()},
                  {"sibling", sibling->outer_pid()},
                  {"zygote", child->zygote_pid()},
                  {"abstract", listener.abstract_name()},
                  {"one_gpu", gpu && !limits.gpu_uuid.empty()}};
  if (!gpu) {
    request["memory"] = uint64_t{10} << 30;
    request["fork_bomb"] = true;
  }
  Frame frame;
  std::string detail;
  Silence silence = child->channel().send(request, {}, deadline);
  if (silence == Silence::kNone) silence = child->channel().receive(frame, deadline, detail);
  if (silence != Silence::kNone) {
    fail(ErrorKind::kUnavailable, "sandbox self-test: the probe {}", describe_silence(silence, *child, detail, 0));
  }
  SelfTest result;
  result.layers = child->layers();
  const Json attempts = frame.header.value("attempts", Json::object());
  for (const auto& [name, outcome] : attempts.items()) {
    result.attempts[name] = outcome.is_string() ? outcome.get<std::string>() : outcome.dump();
    // With a GPU a child may use it and start compilers, and its home may be listed where the Python environment lies
    // below it.
    const bool allowed = (gpu && (name == "exec" || name == "gpu")) || name == "read_home";
    const std::string& told = result.attempts[name];
    if (!was_refused(told) && !allowed) result.breaches.push_back(told == "succeeded" ? name : name + " was " + told);
  }
  if (gpu) {
    const std::string told = result.attempts["fork_bomb"] = try_fork_bomb(children, limits, deadline);
    if (!was_refused(told)) result.breaches.push_back("fork_bomb was " + told);
  }
  if (result.attempts.empty()) fail(ErrorKind::kUnavailable, "sandbox self-test: the probe reported nothing");
  if (frame.header.value("own_folder", "") != "succeeded")
    result.breaches.push_back("own folder is not writable: " + frame.header.value("own_folder", "?"));
  return result;
}

}  // namespace tritonforge::evaluate
