// libtritonforge_sandbox.so: what a freshly forked worker child puts around itself before it runs foreign code.
// Loaded through ctypes by worker/tritonforge_worker/zygote.py. The order matters: mounts need the capabilities that a
// user namespace gives, Landlock and seccomp come last and cannot be taken off again.
#include "evaluate/sandbox/layers.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

namespace tritonforge::sandbox {
namespace {

std::string reason(const char* what) { return std::string("unavailable: ") + what + ": " + std::strerror(errno); }

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

struct Namespaces {
  bool any = false, user = false;
  std::string text;
};

// What fork_apart made of this process.
std::optional<Namespaces> apart;

// As fork, with the kernel's own call: glibc's has no namespaces. What it does besides is done here (its note of the
// thread's number) or left out: handlers of pthread_atfork and the allocator's locks, which a single thread does not
// need. The parent gets the child's pidfd. `group`: a control group's folder that the child begins in, -1 for none.
pid_t fork_with(uint64_t namespaces, int group, int* pidfd) {
  clone_args arguments{};
  arguments.flags = namespaces | CLONE_PIDFD | (group < 0 ? 0 : CLONE_INTO_CGROUP);
  arguments.cgroup = group < 0 ? 0 : static_cast<uint64_t>(group);
  arguments.exit_signal = SIGCHLD;
  arguments.pidfd = reinterpret_cast<uint64_t>(pidfd);
  if (prctl(PR_GET_TID_ADDRESS, &arguments.child_tid) == 0)
    arguments.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

std::string map_user(uid_t uid, gid_t gid) {
  write_text("/proc/self/setgroups", "deny");
  const bool mapped = write_text("/proc/self/uid_map", "65534 " + std::to_string(uid) + " 1") &&
                      write_text("/proc/self/gid_map", "65534 " + std::to_string(gid) + " 1");
  return mapped ? "user" : "user (unmapped)";
}

// Off a processor that is kept for others; seccomp then keeps it that way.
void leave_processor(int processor) {
  cpu_set_t set;
  if (processor < 0 || sched_getaffinity(0, sizeof set, &set) != 0) return;
  CPU_CLR(static_cast<size_t>(processor), &set);
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

// One fork into everything: a second one, from a process already apart, would copy the parent's page tables again.
// With a user namespace where there may be one; a root without it uses its own capabilities.
pid_t fork_apart(const Json& options, int* pidfd) {
  prepare_calls(options);
  constexpr uint64_t kAll = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  Namespaces namespaces{true, true, {}};
  const std::string folder = options.value("control_group", "");
  const int group = folder.empty() ? -1 : open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto fork_into = [&](uint64_t kinds) {
    const pid_t child = group < 0 ? -1 : fork_with(kinds, group, pidfd);
    return child < 0 ? fork_with(kinds, -1, pidfd) : child;
  };
  pid_t child = fork_into(CLONE_NEWUSER | kAll);
  if (child < 0) {
    const std::string why = reason("clone3");
    namespaces.user = false;
    child = fork_into(kAll);
    if (child < 0) {
      namespaces = {false, false, why};
      child = fork();
      if (child > 0) *pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    }
  }
  if (group >= 0) close(group);
  if (child != 0) return child;
  setsid();
  leave_processor(options.value("spared_processor", -1));
  // A parent that was gone before this has not announced the child, whose socket then ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string user = namespaces.user ? map_user(uid, gid) + ", " : "";
  if (namespaces.any) namespaces.text = "enforced: " + user + "mount, pid, net, ipc, uts";
  apart = namespaces;
  return 0;
}

namespace {

std::string set_limits(const Json& options) {
  const auto limits = options.value("rlimits", Json::object());
  const std::pair<const char*, int> names[] = {{"cpu", RLIMIT_CPU},     {"fsize", RLIMIT_FSIZE},
                                               {"nproc", RLIMIT_NPROC}, {"nofile", RLIMIT_NOFILE},
                                               {"core", RLIMIT_CORE},   {"as_extra", RLIMIT_AS}};
  std::string set, failed;
  for (const auto& [name, resource] : names) {
    if (!limits.contains(name)) continue;
    rlim_t value = limits[name].get<uint64_t>();
    if (resource == RLIMIT_AS) {  // on top of what the warm parent has mapped already
      long pages = 0;
      if (FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
        std::fclose(file);
      }
      if (pages == 0) {
        failed += " address_space";
        continue;
      }
      value += static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    }
    const rlimit limit{value, value};
    (setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? set : failed) += std::string(" ") + name;
  }
  return failed.empty() ? "enforced:" + set : "partly:" + set + "; unavailable:" + failed;
}

void drop_capabilities(bool user_namespace) {
  if (!user_namespace && geteuid() == 0) {  // real root without a user namespace: become nobody
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  syscall(SYS_capset, &header, data);
}

// `layers` says how far it came where it throws.
void enter(const Json& options, Json& layers) {
  const Namespaces& namespaces = apart.value();
  layers["namespaces"] = namespaces.text;
  layers["mounts"] = namespaces.any ? build_root(options) : "unavailable: no mount namespace";
  // Before the capabilities go: limits may be read from /proc, which a new user cannot change but may need to open.
  layers["rlimits"] = set_limits(options);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  layers["landlock"] = restrict_files(options);
  drop_capabilities(namespaces.user);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // again: becoming another user took it off
  prctl(PR_SET_DUMPABLE, options.value("dumpable", false) ? 1 : 0);
  layers["seccomp"] = restrict_calls(options, namespaces.any);
}

}  // namespace
}  // namespace tritonforge::sandbox

extern "C" {

// As fork: the child is alone in its namespaces, as the report of tritonforge_enter_sandbox says, and shall call that.
// The caller gets its pidfd, too; -1 and errno where there is no child. `options` as there.
int tritonforge_fork_apart(const char* options, int* pidfd) {
  return tritonforge::sandbox::fork_apart(nlohmann::json::parse(options), pidfd);
}

// Puts the calling process (single-threaded, from tritonforge_fork_apart) into its sandbox; the caller continues as the
// sandboxed process. `report` receives {"layer": "enforced ..." | "unavailable: why"}. 0 on success.
int tritonforge_enter_sandbox(const char* options, char* report, size_t report_size) {
  nlohmann::json layers = nlohmann::json::object();
  bool entered = true;
  try {
    tritonforge::sandbox::enter(nlohmann::json::parse(options), layers);
  } catch (const std::exception& error) {
    layers["error"] = error.what();
    entered = false;
  }
  const std::string text = layers.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::snprintf(report, report_size, "%s", text.c_str());
  return entered ? 0 : 1;
}

// Second phase (mode live): the kernels are compiled, so no process is started any more. 0 on success.
int tritonforge_deny_exec() { return tritonforge::sandbox::deny_new_processes() ? 0 : 1; }
}
