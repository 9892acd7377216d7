#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "evaluate/sandbox/layers.h"

namespace tritonforge::sandbox {
namespace {

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

constexpr const char* kNever[] = {"ptrace",
                                  "process_vm_readv",
                                  "process_vm_writev",
                                  "pidfd_getfd",
                                  "process_madvise",
                                  "kcmp",
                                  "mount",
                                  "umount2",
                                  "pivot_root",
                                  "chroot",
                                  "move_mount",
                                  "open_tree",
                                  "fsopen",
                                  "fsconfig",
                                  "fsmount",
                                  "fspick",
                                  "mount_setattr",
                                  "unshare",
                                  "setns",
                                  "bpf",
                                  "perf_event_open",
                                  "userfaultfd",
                                  "io_uring_setup",
                                  "io_uring_enter",
                                  "io_uring_register",
                                  "keyctl",
                                  "add_key",
                                  "request_key",
                                  "kexec_load",
                                  "kexec_file_load",
                                  "init_module",
                                  "finit_module",
                                  "delete_module",
                                  "reboot",
                                  "swapon",
                                  "swapoff",
                                  "acct",
                                  "quotactl",
                                  "syslog",
                                  "settimeofday",
                                  "clock_settime",
                                  "clock_adjtime",
                                  "adjtimex",
                                  "open_by_handle_at",
                                  "name_to_handle_at",
                                  "personality",
                                  "iopl",
                                  "ioperm",
                                  "vhangup",
                                  "sethostname",
                                  "setdomainname",
                                  "fanotify_init",
                                  "lookup_dcookie",
                                  "nfsservctl"};
// A GPU's driver needs these: cuInit binds an abstract UNIX socket, and places its memory. Sockets of other families
// are refused there, and the process's own network namespace holds no other abstract socket.
constexpr const char* kNeverWithoutGpu[] = {"socket", "memfd_create",  "memfd_secret", "bind",
                                            "listen", "accept",        "accept4",      "connect",
                                            "mbind",  "migrate_pages", "move_pages"};
constexpr const char* kProcesses[] = {"fork", "vfork", "execve", "execveat"};

bool deny(scmp_filter_ctx filter, const char* name, int error = EPERM) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return true;  // a kernel interface this library does not know
  return seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<uint16_t>(error)), number, 0) == 0;
}

bool deny_processes(scmp_filter_ctx filter, bool threads) {
  bool ok = true;
  for (const char* name : kProcesses) ok = ok && deny(filter, name);
  ok = ok && deny(filter, "clone3", ENOSYS);  // its flags are in memory, where a filter cannot look
  const int clone = seccomp_syscall_resolve_name("clone");
  if (threads) {
    return ok &&
           seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), clone, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
  }
  return ok && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), clone, 0) == 0;
}

}  // namespace

std::string restrict_calls(const Json& options, bool own_pid_namespace) {
  Filter filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (!filter) return "unavailable: libseccomp";
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // where it is refused, a linear filter does the same
  bool ok = true;
  for (const char* name : kNever) ok = ok && deny(filter.get(), name);
  const bool processes = options.value("processes", false), gpu = !options.value("devices", Json::array()).empty();
  const int socket_call = seccomp_syscall_resolve_name("socket");
  if (gpu) {
    ok = ok &&
         seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), socket_call, 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX)) == 0;
  } else {
    for (const char* name : kNeverWithoutGpu) ok = ok && deny(filter.get(), name);
  }
  ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), seccomp_syscall_resolve_name("prctl"), 1,
                              SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG)) == 0;
  if (!own_pid_namespace) ok = ok && deny(filter.get(), "kill") && deny(filter.get(), "tkill");
  if (processes) {
    ok = ok && deny(filter.get(), "clone3", ENOSYS);
    constexpr scmp_datum_t kNew = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                  CLONE_NEWUTS | CLONE_NEWCGROUP;
    for (scmp_datum_t bit = 1; bit <= kNew; bit <<= 1) {
      if ((kNew & bit) != 0) {
        ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), seccomp_syscall_resolve_name("clone"), 1,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)) == 0;
      }
    }
  } else {
    ok = ok && deny_processes(filter.get(), false);
  }
  if (!ok) return "unavailable: a rule was refused";
  if (seccomp_load(filter.get()) != 0) return std::string("unavailable: ") + std::strerror(errno);
  return processes ? "enforced: no sockets, no tracing, no new namespaces"
                   : "enforced: no sockets, no tracing, no new namespaces, processes or threads";
}

bool deny_new_processes() {
  Filter filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (filter) seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);  // of every thread that there is already
  return filter && deny_processes(filter.get(), true) && seccomp_load(filter.get()) == 0;
}

}  // namespace tritonforge::sandbox
