#include "base/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"

extern char** environ;

namespace tritonforge {
namespace {

int decode_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!added.count(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [key, value] : added) result.push_back(key + "=" + value);
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

int open_append(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) fail(ErrorKind::kUnavailable, "cannot open {}: {}", path.string(), std::strerror(errno));
  return fd;
}

// Only async-signal-safe calls: this runs between fork and exec.
[[noreturn]] void exec_child(const ProcessOptions& options, char* const* argv, char* const* env, int out, int err,
                             pid_t parent, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (options.new_group) ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  if (options.stdin_fd >= 0) ::dup2(options.stdin_fd, STDIN_FILENO);
  if (out >= 0) ::dup2(out, STDOUT_FILENO);
  if (err >= 0) ::dup2(err, STDERR_FILENO);
  if (options.working_folder.empty() || ::chdir(options.working_folder.c_str()) == 0) ::execvpe(argv[0], argv, env);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

pid_t spawn(const ProcessOptions& options, int out, int err) {
  TF_CHECK(!options.argv.empty(), "a process needs an argv");
  const auto environment = merged_environment(options.env);
  const auto argv = pointers(options.argv);
  const auto env = pointers(environment);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) fail(ErrorKind::kUnavailable, "pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) exec_child(options, argv.data(), env.data(), out, err, parent, report[1]);
  const int fork_error = errno;
  ::close(report[1]);
  int reason = 0;
  const ssize_t got = pid > 0 ? ::read(report[0], &reason, sizeof reason) : 0;
  ::close(report[0]);
  if (pid < 0) fail(ErrorKind::kUnavailable, "cannot fork for {}: {}", options.argv[0], std::strerror(fork_error));
  if (got == sizeof reason) {
    ::waitpid(pid, nullptr, 0);
    fail(ErrorKind::kUnavailable, "cannot start {}: {}", options.argv[0], std::strerror(reason));
  }
  return pid;
}

}  // namespace

ChildProcess::ChildProcess(const ProcessOptions& options) : group_(options.new_group) {
  const int out = options.stdout_fd >= 0        ? ::fcntl(options.stdout_fd, F_DUPFD_CLOEXEC, 0)
                  : options.stdout_file.empty() ? -1
                                                : open_append(options.stdout_file);
  const int err = options.stderr_file.empty() ? -1 : open_append(options.stderr_file);
  const auto close_both = [&] {
    if (out >= 0) ::close(out);
    if (err >= 0) ::close(err);
  };
  try {
    pid_ = spawn(options, out, err);
  } catch (...) {
    close_both();
    throw;
  }
  close_both();
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !poll()) {
    signal(SIGKILL);
    int status;
    ::waitpid(pid_, &status, 0);
  }
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), group_(other.group_), exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    this->~ChildProcess();
    pid_ = std::exchange(other.pid_, -1);
    group_ = other.group_;
    exit_code_ = other.exit_code_;
  }
  return *this;
}

std::optional<int> ChildProcess::poll() {
  std::lock_guard lock(mutex_);
  if (exit_code_ || pid_ <= 0) return exit_code_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = decode_status(status);
  return exit_code_;
}

std::optional<int> ChildProcess::wait(Deadline deadline) {
  wait_any({this}, deadline);
  return poll();
}

std::optional<size_t> wait_any(const std::vector<ChildProcess*>& processes, Deadline deadline,
                               const std::vector<int>& readable) {
  std::vector<pollfd> waiters;
  for (const ChildProcess* process : processes)
    waiters.push_back({static_cast<int>(::syscall(SYS_pidfd_open, process->pid(), 0)), POLLIN, 0});
  // Of one without a descriptor (too many files are open) nothing tells the end: it is looked for.
  const bool blind = std::ranges::any_of(waiters, [](const pollfd& waiter) { return waiter.fd < 0; });
  const double longest = blind ? 0.05 : 3600;
  for (const int fd : readable) waiters.push_back({fd, POLLIN, 0});
  std::optional<size_t> ended;
  // One that has been waited for has no descriptor any more: poll() knows how it ended.
  while (true) {
    for (size_t i = 0; i < processes.size() && !ended; ++i)
      if (processes[i]->poll()) ended = i;
    const auto others = waiters.begin() + static_cast<ptrdiff_t>(processes.size());
    const bool told = std::any_of(others, waiters.end(), [](const pollfd& waiter) { return waiter.revents != 0; });
    if (ended || told || deadline.expired()) break;
    ::poll(waiters.data(), waiters.size(), static_cast<int>(std::min(deadline.remaining_s(), longest) * 1000) + 1);
  }
  for (size_t i = 0; i < processes.size(); ++i)
    if (waiters[i].fd >= 0) ::close(waiters[i].fd);
  return ended;
}

void ChildProcess::signal(int number) {
  std::lock_guard lock(mutex_);
  if (pid_ > 0 && !exit_code_) ::kill(group_ ? -pid_ : pid_, number);
}

void ChildProcess::stop(double grace_s) {
  signal(SIGTERM);
  if (!wait(Deadline::after(grace_s))) {
    signal(SIGKILL);
    wait(Deadline::after(10));
  }
}

CommandOutput run_command(const std::vector<std::string>& argv, double timeout_s) {
  Pipe output = make_pipe();
  ChildProcess command({.argv = argv, .stdout_fd = output.write.get()});
  output.write = Descriptor();  // the command's alone, so that its end shows
  const Deadline deadline = Deadline::after(timeout_s);
  CommandOutput result{};
  std::vector<char> buffer(1 << 16);
  bool open = true;
  while (open && !deadline.expired()) {
    pollfd waiter{output.read.get(), POLLIN, 0};
    if (::poll(&waiter, 1, static_cast<int>(std::min(deadline.remaining_s(), 3600.0) * 1000) + 1) <= 0) continue;
    const ssize_t got = ::read(waiter.fd, buffer.data(), buffer.size());
    if (got > 0) result.output.append(buffer.data(), static_cast<size_t>(got));
    else open = got < 0 && errno == EINTR;
  }
  const auto code = command.wait(deadline);  // it may have closed its output and go on
  if (open || !code) fail(ErrorKind::kTimeout, "{} did not finish in {} s", argv[0], timeout_s);
  result.exit_code = *code;
  return result;
}

namespace {

sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

}  // namespace

SignalWaiter::SignalWaiter() {
  const sigset_t set = stopping_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

int SignalWaiter::wait(Deadline deadline) {
  const sigset_t set = stopping_signals();
  const double left = deadline.remaining_s();
  const timespec span{static_cast<time_t>(left), static_cast<long>((left - static_cast<time_t>(left)) * 1e9)};
  return std::max(0, ::sigtimedwait(&set, nullptr, &span));
}

void SignalWaiter::block() {
  while (wait(Deadline::after(3600)) == 0) {}
}

EndsAtSignal::EndsAtSignal(const std::string& what)
    : EndsAtSignal([what](int) { log::info("{} stops before it was ready", what); }) {}

EndsAtSignal::EndsAtSignal(std::function<void(int number)> tell) {
  const sigset_t set = stopping_signals();
  Descriptor over(::eventfd(0, EFD_CLOEXEC)), signals(::signalfd(-1, &set, SFD_CLOEXEC));
  if (over.get() < 0 || signals.get() < 0)
    fail(ErrorKind::kMachine, "no descriptor for signals: {}", std::strerror(errno));
  thread_ = std::thread([over = over.get(), signals = std::move(signals), tell = std::move(tell)] {
    pollfd ready[] = {{over, POLLIN, 0}, {signals.get(), POLLIN, 0}};
    while (::poll(ready, 2, -1) < 0 && errno == EINTR) {}
    signalfd_siginfo came{};
    if (ready[0].revents == 0 && ::read(signals.get(), &came, sizeof came) == sizeof came) {
      const int number = static_cast<int>(came.ssi_signo);
      tell(number);
      std::_Exit(128 + number);
    }
  });
  over_ = over.release();
}

EndsAtSignal::~EndsAtSignal() {
  ::eventfd_write(over_, 1);
  thread_.join();
  ::close(over_);
}

fs::path own_executable() {
  static const fs::path path = fs::read_symlink(
      "/proc/self/exe");  // as it was started: a rebuild in the middle of a run moves the file away
  return path;
}

namespace {

// Whether a server can listen there now, at whichever address.
bool is_free(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int on = 1;
  const bool free = fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 1) == 0;
  if (fd >= 0) ::close(fd);
  return free;
}

// The ports that the kernel gives to outgoing connections begin here.
int first_ephemeral_port() {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int low = 32768;
  range >> low;
  return range ? low : 32768;
}

}  // namespace

bool claim_port(int port) {
  // An abstract socket's name belongs to one process of a network namespace, as a port does, and is given up with it.
  const std::string name = fmt::format("tritonforge-port-{}", port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail(ErrorKind::kMachine, "no socket to claim port {} with: {}", port, std::strerror(errno));
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return true;  // open until the process ends
  ::close(fd);
  return false;
}

int free_port() {
  constexpr int kLowest = 20000;
  const int count = first_ephemeral_port() - kLowest;
  if (count < 1000) fail(ErrorKind::kUnavailable, "no room for ports between {} and the ephemeral ones", kLowest);
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = kLowest + static_cast<int>(random() % static_cast<unsigned>(count));
    if (claim_port(port) && is_free(port)) return port;
  }
  fail(ErrorKind::kUnavailable, "no free port from {} to {}", kLowest, kLowest + count - 1);
}

void raise_file_limit() {
  constexpr rlim_t kEnough = 131072;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  ::setrlimit(RLIMIT_NOFILE, &files);  // never beyond what is allowed
}

}  // namespace tritonforge
