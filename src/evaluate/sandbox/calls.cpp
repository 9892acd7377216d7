#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

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

// All that a child without a GPU may call. What is on none of these lists does not exist for it: System V's IPC, files'
// events, new interfaces of later kernels. Made from what Python, torch, PoCL, NVRTC, ptxas, clang and lld called in
// the tests, with the variants that other C libraries and machines have of them.
// clang-format off
constexpr const char* kAllowed[] = {
    // files, by name and by descriptor
    "open", "openat", "openat2", "close", "close_range", "read", "readv", "pread64", "preadv", "preadv2", "write",
    "writev", "pwrite64", "pwritev", "pwritev2", "lseek", "sendfile", "copy_file_range", "ftruncate", "truncate",
    "fallocate", "fsync", "fdatasync", "sync_file_range", "fadvise64", "flock", "fcntl", "ioctl", "dup", "dup2", "dup3",
    "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir",
    "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "chmod",
    "fchmod", "fchmodat", "utimensat", "utime", "utimes", "umask", "chown", "fchown", "lchown", "fchownat",
    "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "readahead",
    // the job's socket, pipes, waiting
    "recvfrom", "recvmsg", "sendto", "sendmsg", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown",
    "socketpair", "pipe", "pipe2", "eventfd", "eventfd2", "poll", "ppoll", "select", "pselect6", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
    // memory
    "brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "msync", "mincore", "mlock", "munlock", "membarrier",
    "get_mempolicy",
    // signals, time
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait",
    "sigaltstack", "alarm", "setitimer", "getitimer", "pause", "restart_syscall",
    "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
    "timer_create", "timer_settime", "timer_delete", "timerfd_create", "timerfd_settime", "timerfd_gettime",
    // the process and its threads
    "exit", "exit_group", "wait4", "waitid", "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq",
    "set_tid_address", "arch_prctl", "getpid", "gettid", "getppid", "getpgrp", "getpgid", "getsid", "getuid",
    "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid", "capget", "uname", "sysinfo", "getrusage",
    "getrlimit", "setrlimit", "prlimit64", "getpriority", "getcpu", "getrandom", "sched_yield", "sched_getaffinity",
    "sched_getparam", "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min"};
// And where compilers are started.
constexpr const char* kAllowedToCompilers[] = {"fork", "vfork", "execve"};
// clang-format on
// Of signals to other processes, where these can be named.
constexpr const char* kSignals[] = {"kill", "tkill", "tgkill"};
constexpr const char* kOtherSignals[] = {"rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"};

bool deny(scmp_filter_ctx filter, const char* name, int error = EPERM) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return true;  // a kernel interface this library does not know
  const uint32_t action = SCMP_ACT_ERRNO(static_cast<uint16_t>(error));
  uint32_t otherwise = 0;
  if (seccomp_attr_get(filter, SCMP_FLTATR_ACT_DEFAULT, &otherwise) == 0 && otherwise == action) return true;
  return seccomp_rule_add(filter, action, number, 0) == 0;
}

template <size_t kCount>
bool deny_all(scmp_filter_ctx filter, const char* const (&names)[kCount]) {
  return std::all_of(names, names + kCount, [&](const char* name) { return deny(filter, name); });
}

template <size_t kCount>
bool allow_all(scmp_filter_ctx filter, const char* const (&names)[kCount]) {
  return std::all_of(names, names + kCount, [&](const char* name) {
    const int number = seccomp_syscall_resolve_name(name);
    return number == __NR_SCMP_ERROR || seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0) == 0;
  });
}

bool deny_processes(scmp_filter_ctx filter, bool threads) {
  bool ok = deny_all(filter, kProcesses);
  ok = ok && deny(filter, "clone3", ENOSYS);  // its flags are in memory, where a filter cannot look
  const int clone = seccomp_syscall_resolve_name("clone");
  if (threads) {
    return ok &&
           seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), clone, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
  }
  return ok && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), clone, 0) == 0;
}

// What a child may call depends on these alone.
struct Kind {
  bool processes, gpu, own_pid_namespace;
  auto operator<=>(const Kind&) const = default;
};

Kind kind_of(const Json& options, bool own_pid_namespace) {
  return {options.value("processes", false), !options.value("devices", Json::array()).empty(), own_pid_namespace};
}

// Null where a rule was refused.
Filter filter_of(const Kind& kind) {
  // A GPU's driver calls what it likes; elsewhere all that is not allowed is unknown, as on an older kernel.
  Filter filter(seccomp_init(kind.gpu ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS)), &seccomp_release);
  if (!filter) return filter;
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // where it is refused, a linear filter does the same
  bool ok = deny_all(filter.get(), kNever);
  const int socket_call = seccomp_syscall_resolve_name("socket"), prctl_call = seccomp_syscall_resolve_name("prctl"),
            clone_call = seccomp_syscall_resolve_name("clone");
  if (kind.gpu) {
    ok = ok &&
         seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), socket_call, 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX)) == 0;
  } else {
    ok = ok && deny_all(filter.get(), kNeverWithoutGpu) && allow_all(filter.get(), kAllowed) &&
         seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, prctl_call, 1, SCMP_A0(SCMP_CMP_NE, PR_SET_PDEATHSIG)) == 0;
    if (kind.own_pid_namespace) ok = ok && allow_all(filter.get(), kSignals);
  }
  ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), prctl_call, 1,
                              SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG)) == 0;
  if (!kind.own_pid_namespace) ok = ok && deny_all(filter.get(), kSignals) && deny_all(filter.get(), kOtherSignals);
  if (kind.processes) {
    ok = ok && deny(filter.get(), "clone3", ENOSYS);
    constexpr scmp_datum_t kNew = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                  CLONE_NEWUTS | CLONE_NEWCGROUP;
    for (scmp_datum_t bit = 1; bit <= kNew; bit <<= 1) {
      if ((kNew & bit) != 0) {
        ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), clone_call, 1,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)) == 0;
      }
    }
    if (!kind.gpu) {
      ok = ok && allow_all(filter.get(), kAllowedToCompilers) &&
           seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, clone_call, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, kNew, 0)) == 0;
    }
  } else {
    ok = ok && deny_processes(filter.get(), false);
  }
  if (!ok) filter.reset();
  return filter;
}

// As the kernel takes it; empty where it could not be made. What the parent has made its children have: it takes
// longer than a child's mounts.
const std::vector<sock_filter>& program_of(const Kind& kind) {
  static std::map<Kind, std::vector<sock_filter>> made;
  const auto [at, is_new] = made.try_emplace(kind);
  const Filter filter = is_new ? filter_of(kind) : Filter(nullptr, &seccomp_release);
  const int file = filter ? memfd_create("program", MFD_CLOEXEC) : -1;
  if (file < 0) return at->second;
  if (seccomp_export_bpf(filter.get(), file) == 0) {
    at->second.resize(static_cast<size_t>(lseek(file, 0, SEEK_END)) / sizeof(sock_filter));
    const auto bytes = static_cast<ssize_t>(at->second.size() * sizeof(sock_filter));
    if (pread(file, at->second.data(), static_cast<size_t>(bytes), 0) != bytes) at->second.clear();
  }
  close(file);
  return at->second;
}

}  // namespace

void prepare_calls(const Json& options) { program_of(kind_of(options, true)); }

std::string restrict_calls(const Json& options, bool own_pid_namespace) {
  const Kind kind = kind_of(options, own_pid_namespace);
  auto code = program_of(kind);
  if (code.empty()) return "unavailable: a rule was refused";
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    return std::string("unavailable: ") + std::strerror(errno);
  return std::string("enforced: ") + (kind.gpu ? "all calls but" : "a list of calls;") +
         " no sockets, no tracing, no new namespaces" + (kind.processes ? "" : ", processes or threads");
}

bool deny_new_processes() {
  Filter filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (filter) seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);  // of every thread that there is already
  return filter && deny_processes(filter.get(), true) && seccomp_load(filter.get()) == 0;
}

}  // namespace tritonforge::sandbox
