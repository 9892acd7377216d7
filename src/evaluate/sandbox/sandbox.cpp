// libtritonforge_sandbox.so: what a freshly forked worker child puts around itself before it runs foreign code.
// Loaded through ctypes by worker/tritonforge_worker/zygote.py. The order matters: mounts need the capabilities that a
// user namespace gives, Landlock and seccomp come last and cannot be taken off again.
#include "evaluate/sandbox/layers.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
  bool without_process = false;  // they are there, but no process could be made in them
};

// With a user namespace where there may be one; a root without it uses its own capabilities.
Namespaces unshare_all() {
  constexpr int kAll = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | kAll) == 0) {
    write_text("/proc/self/setgroups", "deny");
    if (write_text("/proc/self/uid_map", "65534 " + std::to_string(uid) + " 1") &&
        write_text("/proc/self/gid_map", "65534 " + std::to_string(gid) + " 1")) {
      return {true, true, "enforced: user, mount, pid, net, ipc, uts"};
    }
    return {true, true, "enforced: user (unmapped), mount, pid, net, ipc, uts"};
  }
  const std::string why = reason("unshare");
  if (unshare(kAll) == 0) return {true, false, "enforced: mount, pid, net, ipc, uts"};
  return {false, false, why};
}

// The process that the zygote knows: waits for the sandboxed one and ends as it ended.
[[noreturn]] void stand_in(pid_t child) {
  syscall(SYS_close_range, 3u, ~0u, 0u);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status)) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

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

// What leave_parent made of this process.
std::optional<Namespaces> apart;

// Into namespaces and a process of its own, the first of its pid namespace.
void leave_parent() {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(5);
  apart = unshare_all();
  if (!apart->any) return;
  const pid_t child = fork();
  if (child < 0) {
    apart->text = reason("fork");
    apart->without_process = true;
  }
  if (child > 0) stand_in(child);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int enter(const Json& options, Json& layers) {
  if (!apart) leave_parent();
  const Namespaces& namespaces = *apart;
  layers["namespaces"] = namespaces.text;
  if (namespaces.without_process) return 1;
  layers["mounts"] = namespaces.any ? build_root(options, namespaces.user) : "unavailable: no mount namespace";
  // Before the capabilities go: limits may be read from /proc, which a new user cannot change but may need to open.
  layers["rlimits"] = set_limits(options);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  layers["landlock"] = restrict_files(options);
  drop_capabilities(namespaces.user);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // again: becoming another user took it off
  prctl(PR_SET_DUMPABLE, options.value("dumpable", false) ? 1 : 0);
  layers["seccomp"] = restrict_calls(options, namespaces.any);
  return 0;
}

}  // namespace
}  // namespace tritonforge::sandbox

extern "C" {

// The first part of tritonforge_enter_sandbox, for a caller with more to do before the rest: it forks, and whatever
// was written to memory before costs that fork a copy. What became of it is in that function's report.
void tritonforge_leave_parent() { tritonforge::sandbox::leave_parent(); }

// Puts the calling process (single-threaded, just forked) into its sandbox; the caller continues as the sandboxed
// process. `report` receives {"layer": "enforced ..." | "unavailable: why"}. 0 on success.
int tritonforge_enter_sandbox(const char* options, char* report, size_t report_size) {
  nlohmann::json layers = nlohmann::json::object();
  int result = 0;
  try {
    result = tritonforge::sandbox::enter(nlohmann::json::parse(options), layers);
  } catch (const std::exception& error) {
    layers["error"] = error.what();
    result = 1;
  }
  const std::string text = layers.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::snprintf(report, report_size, "%s", text.c_str());
  return result;
}

// Second phase (mode live): the kernels are compiled, so no process is started any more. 0 on success.
int tritonforge_deny_exec() { return tritonforge::sandbox::deny_new_processes() ? 0 : 1; }
}
