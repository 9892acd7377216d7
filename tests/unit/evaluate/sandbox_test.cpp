// Each layer by itself, by what it refuses, and all of them as a worker's child puts them on. The layers cover for one
// another, so a test of the whole would not see that one of them is gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

#include "base/filesystem.h"
#include "base/json.h"
#include "evaluate/sandbox/layers.h"
#include "unit/evaluate/in_child.h"

extern "C" int tritonforge_fork_apart(const char* options, int* pidfd);
extern "C" int tritonforge_enter_sandbox(const char* options, char* report, size_t report_size);
extern "C" int tritonforge_deny_exec();

namespace tritonforge::sandbox {
namespace {

using tritonforge::Json;

// 0, or the errno of a call that returned a negative number.
int error_of(long result) { return result < 0 ? errno : 0; }

int open_error(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0700);
  const int error = error_of(fd);
  if (fd >= 0) ::close(fd);
  return error;
}

int socket_error(int family) {
  const int fd = ::socket(family, SOCK_STREAM, 0);
  const int error = error_of(fd);
  if (fd >= 0) ::close(fd);
  return error;
}

int bind_error() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int error = error_of(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
  ::close(fd);
  return error;
}

// The raw calls: a C library falls back from one to another.
int fork_error() {
  const long pid = ::syscall(SYS_fork);
  if (pid == 0) ::_exit(0);
  const int error = error_of(pid);
  if (pid > 0) ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  return error;
}

int clone_error(unsigned long flags) {
  const long pid = ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) ::_exit(0);
  const int error = error_of(pid);
  if (pid > 0) ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  return error;
}

// The errno with which `program` is not started; a program that starts ends this process with 0.
int exec_error(const char* program) {
  char* const argv[] = {const_cast<char*>("true"), nullptr};
  ::execve(program, argv, nullptr);
  return errno;
}

std::string status_field(const char* name) {
  const std::string text = read_file("/proc/self/status");
  const std::string key = fmt::format("\n{}:\t", name);
  const size_t at = text.find(key);
  if (at == std::string::npos) return "";
  const size_t start = at + key.size();
  return text.substr(start, text.find('\n', start) - start);
}

// As the zygote forks; what it says of the child beside its pid is checked.
pid_t fork_apart(const Json& options) {
  int pidfd = -1;
  const pid_t pid = tritonforge_fork_apart(options.dump().c_str(), &pidfd);
  if (pid > 0) {
    EXPECT_NE(read_file(fmt::format("/proc/self/fdinfo/{}", pidfd)).find(fmt::format("\nPid:\t{}\n", pid)),
              std::string::npos);
    ::close(pidfd);
  }
  return pid;
}

class SandboxTest : public testing::Test {
 protected:
  SandboxTest() : folder_("sandbox-test-") {
    fs::create_directory(folder_.path() / "job");
    fs::create_directory(folder_.path() / "root");
    fs::create_directory(folder_.path() / "secret");
    write_file_atomic(folder_.path() / "secret" / "key", "hunter2");
    fs::permissions(folder_.path(), fs::perms::all);
    fs::permissions(folder_.path() / "job", fs::perms::all);
  }
  Json options() const {
    return {{"folder", job()},
            {"root", (folder_.path() / "root").string()},
            {"read_only", {"/usr", "/lib", "/lib64", "/bin"}},
            {"folder_bytes", 1 << 20}};
  }
  static Json with_processes(Json options) {
    options["processes"] = true;
    options["exec"] = options["read_only"];
    return options;
  }
  std::string job() const { return (folder_.path() / "job").string(); }
  std::string secret() const { return (folder_.path() / "secret" / "key").string(); }
  static bool has_landlock(int abi) { return ::syscall(444, nullptr, 0, 1) >= abi; }

  TemporaryFolder folder_;
};

TEST_F(SandboxTest, LandlockAllowsReadsOfTheSystemAndWritesToTheJobsFolder) {
  if (!has_landlock(1)) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string program = job() + "/program";  // no kernel can run it: ENOEXEC where it may be tried
  write_file_atomic(program, "neither ELF nor script");
  fs::permissions(program, fs::perms::all);
  const Json found = in_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const std::string report = restrict_files(options());
    return Json{{"report", report},
                {"read_system", open_error("/usr/bin/env", O_RDONLY)},
                {"write_system", open_error("/usr/bin/env", O_WRONLY)},
                {"read_secret", open_error(secret(), O_RDONLY)},
                {"read_etc", open_error("/etc/passwd", O_RDONLY)},
                {"write_null", open_error("/dev/null", O_WRONLY)},
                {"write_job", open_error(job() + "/file", O_WRONLY | O_CREAT)},
                {"write_beside", open_error(folder_.path().string() + "/file", O_WRONLY | O_CREAT)},
                {"write_proc", open_error("/proc/self/comm", O_WRONLY)},
                {"execute", exec_error("/usr/bin/true")},
                {"execute_job", exec_error(program.c_str())}};
  });
  EXPECT_EQ(found["report"].get<std::string>().rfind("enforced: ABI", 0), 0u) << found.dump();
  for (const char* allowed : {"read_system", "write_null", "write_job"}) EXPECT_EQ(found[allowed], 0) << allowed;
  for (const char* refused :
       {"write_system", "read_secret", "read_etc", "write_beside", "write_proc", "execute", "execute_job"}) {
    EXPECT_EQ(found[refused], EACCES) << refused;
  }
}

TEST_F(SandboxTest, LandlockRefusesTcp) {
  if (!has_landlock(4)) GTEST_SKIP() << "this kernel's Landlock does not know networks";
  const Json found = in_child([&] {
    const int before = bind_error();
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    restrict_files(options());
    return Json{{"before", before}, {"after", bind_error()}};
  });
  EXPECT_EQ(found["before"], 0);
  EXPECT_EQ(found["after"], EACCES);
}

TEST_F(SandboxTest, LandlockLetsACompilerExecuteTheSystemOnly) {
  if (!has_landlock(1)) GTEST_SKIP() << "this kernel has no Landlock";
  fs::copy_file("/usr/bin/true", folder_.path() / "secret" / "true");
  const auto run = [&](const std::string& program) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      restrict_files(with_processes(options()));
      ::_exit(exec_error(program.c_str()));
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run("/usr/bin/true"), 0);
  EXPECT_EQ(run((folder_.path() / "secret" / "true").string()), EACCES);
}

TEST_F(SandboxTest, SeccompRefusesProcessesSocketsAndTracing) {
  const Json found = in_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const std::string report = restrict_calls(options(), /*own_pid_namespace=*/true);
    return Json{{"report", report},
                {"fork", fork_error()},
                {"clone", clone_error(0)},
                {"clone3", error_of(::syscall(SYS_clone3, nullptr, 0))},
                {"execve", exec_error("/usr/bin/true")},
                {"inet", socket_error(AF_INET)},
                {"unix", socket_error(AF_UNIX)},
                {"ptrace", error_of(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))},
                {"unshare", error_of(::unshare(CLONE_NEWUSER))},
                {"mount", error_of(::mount("tmpfs", "/mnt", "tmpfs", 0, nullptr))},
                {"memfd", error_of(::syscall(SYS_memfd_create, "x", 0))},
                {"io_uring", error_of(::syscall(SYS_io_uring_setup, 1, nullptr))},
                {"deathsig", error_of(::prctl(PR_SET_PDEATHSIG, 0))},
                {"kill", error_of(::kill(::getpid(), 0))},
                {"shared_memory", error_of(::syscall(SYS_shmget, 1, 1, 0))},
                {"process_file", error_of(::syscall(SYS_pidfd_open, ::getpid(), 0))},
                {"file_events", error_of(::syscall(SYS_inotify_init1, 0))},
                {"read", open_error("/usr/bin/env", O_RDONLY)}};
  });
  EXPECT_EQ(found["report"].get<std::string>().rfind("enforced:", 0), 0u) << found.dump();
  for (const char* refused :
       {"fork", "clone", "execve", "inet", "unix", "ptrace", "unshare", "mount", "memfd", "io_uring", "deathsig"}) {
    EXPECT_EQ(found[refused], EPERM) << refused;
  }
  // What is on no list is not there.
  for (const char* unknown : {"clone3", "shared_memory", "process_file", "file_events"})
    EXPECT_EQ(found[unknown], ENOSYS) << unknown;
  EXPECT_EQ(found["kill"], 0);
  EXPECT_EQ(found["read"], 0);
}

TEST_F(SandboxTest, SeccompLetsACompilerForkButMakeNoNamespace) {
  const Json found = in_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    restrict_calls(with_processes(options()), true);
    return Json{{"fork", fork_error()},
                {"user_namespace", clone_error(CLONE_NEWUSER)},
                {"network_namespace", clone_error(CLONE_NEWNET)},
                {"unshare", error_of(::unshare(CLONE_NEWUSER))},
                {"clone3", error_of(::syscall(SYS_clone3, nullptr, 0))},
                {"shared_memory", error_of(::syscall(SYS_shmget, 1, 1, 0))},
                {"inet", socket_error(AF_INET)}};
  });
  EXPECT_EQ(found["fork"], 0);
  EXPECT_EQ(found["shared_memory"], ENOSYS);
  for (const char* refused : {"user_namespace", "network_namespace", "unshare", "inet"}) {
    EXPECT_EQ(found[refused], EPERM) << refused;
  }
  EXPECT_EQ(found["clone3"], ENOSYS);
}

TEST_F(SandboxTest, SeccompLeavesADriverItsUnixSocketsOnly) {
  const Json found = in_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    Json gpu = options();
    gpu["devices"] = {"/dev/nvidia0"};
    restrict_calls(gpu, true);
    return Json{{"inet", socket_error(AF_INET)},
                {"unix", socket_error(AF_UNIX)},
                {"clone3", error_of(::syscall(SYS_clone3, nullptr, 0))},
                {"file_events", error_of(::syscall(SYS_inotify_init1, 0))}};
  });
  EXPECT_EQ(found["inet"], EPERM);
  EXPECT_EQ(found["clone3"], ENOSYS);
  EXPECT_EQ(found["file_events"], 0);  // its calls are its own
  EXPECT_EQ(found["unix"], 0);
}

TEST_F(SandboxTest, SeccompRefusesSignalsWhereThereIsNoPidNamespace) {
  const Json found = in_child([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    restrict_calls(options(), /*own_pid_namespace=*/false);
    return Json{{"kill", error_of(::kill(::getpid(), 0))},
                {"thread", error_of(::syscall(SYS_tgkill, ::getpid(), ::gettid(), 0))},
                {"queue", error_of(::syscall(SYS_rt_sigqueueinfo, ::getpid(), 0, nullptr))}};
  });
  for (const char* signal : {"kill", "thread", "queue"}) EXPECT_EQ(found[signal], EPERM) << signal;
}

TEST_F(SandboxTest, AfterCompilingNoProcessIsStartedAndThreadsAre) {
  const Json found = in_child([] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int denied = tritonforge_deny_exec();
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    return Json{{"denied", denied}, {"fork", fork_error()}, {"execve", exec_error("/usr/bin/true")}, {"thread", ran}};
  });
  EXPECT_EQ(found["denied"], 0);
  EXPECT_EQ(found["fork"], EPERM);
  EXPECT_EQ(found["execve"], EPERM);
  EXPECT_EQ(found["thread"], true);
}

void write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error(path);
  ::close(fd);
}

// Takes this process to a namespace in which it may mount: by a user namespace, or as root.
bool may_mount() {
  const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return ::unshare(CLONE_NEWNS) == 0;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", "65534 " + user + " 1");
  write_text("/proc/self/gid_map", "65534 " + group + " 1");
  return true;
}

TEST_F(SandboxTest, TheNewRootShowsTheSystemReadOnlyAndNothingElse) {
  const Json found = in_child([&] {
    if (!may_mount()) return Json{{"unavailable", true}};
    const std::string report = build_root(options());
    if (report.rfind("enforced", 0) != 0) return Json{{"report", report}};
    return Json{{"report", report},
                {"secret", open_error(secret(), O_RDONLY)},
                {"etc", open_error("/etc/passwd", O_RDONLY)},
                {"system", open_error("/usr/bin/env", O_RDONLY)},
                {"write_system", open_error("/usr/bin/tritonforge-test", O_WRONLY | O_CREAT)},
                {"write_root", open_error("/file", O_WRONLY | O_CREAT)},
                {"write_job", open_error(job() + "/file", O_WRONLY | O_CREAT)},
                {"execute_job", exec_error((job() + "/file").c_str())},
                {"write_shm", open_error("/dev/shm/file", O_WRONLY | O_CREAT)},
                {"execute_shm", exec_error("/dev/shm/file")},
                {"null", open_error("/dev/null", O_WRONLY)}};
  });
  if (found.contains("unavailable")) GTEST_SKIP() << "this machine gives no mount namespace";
  ASSERT_TRUE(found.contains("secret")) << found.dump();
  for (const char* absent : {"secret", "etc"}) EXPECT_EQ(found[absent], ENOENT) << absent;
  for (const char* allowed : {"system", "write_job", "write_shm", "null"}) EXPECT_EQ(found[allowed], 0) << allowed;
  for (const char* read_only : {"write_system", "write_root"}) EXPECT_EQ(found[read_only], EROFS) << read_only;
  for (const char* no_exec : {"execute_job", "execute_shm"}) EXPECT_EQ(found[no_exec], EACCES) << no_exec;
}

// What the entered sandbox is made of, each by a sign that no other layer gives.
TEST_F(SandboxTest, EveryLayerIsPutOn) {
  const Json found = in_child(
      [&] {
        Json all = options();
        all["dumpable"] = true;  // its own /proc files stay its own: only Landlock keeps them from being written
        all["rlimits"] = {{"cpu", 7}, {"fsize", 1 << 20}, {"nofile", 64}, {"core", 0}, {"as_extra", 1 << 28}};
        char report[4096];
        const int entered = tritonforge_enter_sandbox(all.dump().c_str(), report, sizeof report);
        if (entered != 0) return Json{{"thrown", report}};
        rlimit files{}, cpu{}, core{}, space{};
        ::getrlimit(RLIMIT_NOFILE, &files);
        ::getrlimit(RLIMIT_CPU, &cpu);
        ::getrlimit(RLIMIT_CORE, &core);
        ::getrlimit(RLIMIT_AS, &space);
        int death_signal = 0;
        ::prctl(PR_GET_PDEATHSIG, &death_signal);
        return Json{{"layers", Json::parse(report)},
                    {"pid", ::getpid()},
                    {"interfaces", read_file("/proc/self/net/dev")},
                    {"host_name", error_of(::syscall(SYS_sethostname, "x", 1))},
                    {"etc", open_error("/etc/passwd", O_RDONLY)},
                    {"write_proc", open_error("/proc/self/comm", O_WRONLY)},
                    {"fork", fork_error()},
                    {"no_new_privileges", ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)},
                    {"capabilities", status_field("CapEff") + status_field("CapPrm")},
                    {"seccomp", status_field("Seccomp")},
                    {"death_signal", death_signal},
                    {"rlimits", {files.rlim_max, cpu.rlim_max, core.rlim_max}},
                    {"address_space", space.rlim_max != RLIM_INFINITY}};
      },
      [&] { return fork_apart(options()); });
  ASSERT_TRUE(found.contains("layers")) << found.dump();
  const Json& layers = found["layers"];
  const auto enforced = [&](const char* layer) { return layers.value(layer, "absent").rfind("enforced", 0) == 0; };
  if (layers.value("namespaces", "absent").rfind("unavailable", 0) != 0) {
    EXPECT_TRUE(enforced("namespaces") && enforced("mounts")) << layers.dump();
    EXPECT_EQ(found["pid"], 1);
    EXPECT_EQ(found["etc"], ENOENT);
    EXPECT_EQ(found["interfaces"].get<std::string>().find("eth"), std::string::npos);
  }
  if (has_landlock(1)) {
    EXPECT_TRUE(enforced("landlock")) << layers.dump();
    EXPECT_EQ(found["write_proc"], EACCES);
  }
  EXPECT_TRUE(enforced("seccomp") && enforced("rlimits")) << layers.dump();
  EXPECT_EQ(found["fork"], EPERM);
  EXPECT_EQ(found["no_new_privileges"], 1);
  EXPECT_EQ(found["capabilities"].get<std::string>().find_first_not_of('0'), std::string::npos)
      << found["capabilities"];
  EXPECT_EQ(found["seccomp"], "2");
  EXPECT_EQ(found["death_signal"], SIGKILL);
  EXPECT_EQ(found["rlimits"], Json({64, 7, 0}));
  EXPECT_EQ(found["address_space"], true);
}

TEST_F(SandboxTest, AChildStaysOffTheProcessorThatIsSpared) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  size_t spared = 0;
  while (!CPU_ISSET(spared, &all)) ++spared;
  Json with_spared = options();
  with_spared["spared_processor"] = spared;
  const Json found = in_child(
      [&] {
        char report[4096];
        tritonforge_enter_sandbox(with_spared.dump().c_str(), report, sizeof report);
        cpu_set_t own;
        const int read = error_of(::sched_getaffinity(0, sizeof own, &own));
        return Json{{"read", read},
                    {"processors", CPU_COUNT(&own)},
                    {"spared", CPU_ISSET(spared, &own) != 0},
                    {"back", error_of(::sched_setaffinity(0, sizeof all, &all))}};
      },
      [&] { return fork_apart(with_spared); });
  EXPECT_EQ(found, (Json{{"read", 0}, {"processors", CPU_COUNT(&all) - 1}, {"spared", false}, {"back", ENOSYS}}));
}

TEST_F(SandboxTest, AChildIsNotDumpable) {
  const Json found = in_child(
      [&] {
        char report[4096];
        tritonforge_enter_sandbox(options().dump().c_str(), report, sizeof report);
        return Json{{"dumpable", ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)}};
      },
      [&] { return fork_apart(options()); });
  EXPECT_EQ(found["dumpable"], 0);
}

// Of a number that was the parent's, this would be the clock of no thread.
TEST_F(SandboxTest, TheLibraryKnowsTheChildsThread) {
  const Json found = in_child(
      [] {
        clockid_t clock{};
        timespec used{};
        return Json{{"error", ::pthread_getcpuclockid(::pthread_self(), &clock)},
                    {"read", ::clock_gettime(clock, &used)}};
      },
      [&] { return fork_apart(options()); });
  EXPECT_EQ(found, (Json{{"error", 0}, {"read", 0}}));
}

TEST_F(SandboxTest, WhereNoNamespaceCanBeMadeTheChildSaysSo) {
  const Json found = in_child([&] {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(code), code};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) throw std::runtime_error("seccomp");
    return in_child(
        [&] {
          char report[4096];
          const int entered = tritonforge_enter_sandbox(options().dump().c_str(), report, sizeof report);
          return Json{{"entered", entered}, {"namespaces", Json::parse(report)["namespaces"]}, {"fork", fork_error()}};
        },
        [&] { return fork_apart(options()); });
  });
  EXPECT_EQ(found,
            (Json{{"entered", 0}, {"namespaces", "unavailable: clone3: Function not implemented"}, {"fork", EPERM}}));
}

}  // namespace
}  // namespace tritonforge::sandbox
