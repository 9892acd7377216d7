#pragma once
// Child processes from an argument vector (never a shell string), and this process's own signals.
#include <sys/types.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/filesystem.h"

namespace tritonforge {

struct ProcessOptions {
  std::vector<std::string> argv;           // argv[0] is looked up in PATH
  std::map<std::string, std::string> env;  // added to this process's environment
  fs::path stdout_file, stderr_file;       // appended to; empty = inherited
  fs::path working_folder;                 // empty = inherited
  int stdin_fd = -1, stdout_fd = -1;       // -1 = inherited; stay the caller's to close
  bool new_group = true;                   // its own process group, so that kill() reaches its children
};

// A running child. It is killed (whole group) when this object goes, and by the kernel if this process dies.
class ChildProcess {
 public:
  explicit ChildProcess(const ProcessOptions& options);  // throws kUnavailable when it cannot start
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  pid_t pid() const { return pid_; }
  // From any thread: one may wait while another signals. A signal never goes to a process that has been waited for,
  // whose id may be another's by then.
  // Exit code, or 128 + signal; nullopt while it runs.
  std::optional<int> poll();
  std::optional<int> wait(Deadline deadline);
  void signal(int number);
  // SIGTERM, then SIGKILL to the group after `grace_s`.
  void stop(double grace_s);

 private:
  pid_t pid_ = -1;
  bool group_ = true;
  std::mutex mutex_;              // not held while waiting
  std::optional<int> exit_code_;  // guarded by mutex_
};

// Waits until one of them has ended and returns which; nothing at the deadline, and where one of `readable` is.
std::optional<size_t> wait_any(const std::vector<ChildProcess*>& processes, Deadline deadline,
                               const std::vector<int>& readable = {});

// Runs to the end and returns {exit code, stdout}; throws kTimeout at the deadline.
struct CommandOutput {
  int exit_code;
  std::string output;
};
CommandOutput run_command(const std::vector<std::string>& argv, double timeout_s);

// As many open files as this process may have, and at most 131,072: what most systems begin with, 1,024, is less than
// the connections of a thousand engines.
void raise_file_limit();

// Blocks SIGINT, SIGTERM and SIGHUP (a closed terminal) for all threads started later, and lets one thread wait for
// them. A peer that hung up and a file that may not grow are errors of one write from here on, not signals.
class SignalWaiter {
 public:
  SignalWaiter();
  // The number of the one that came; waits at most until the deadline, then 0.
  int wait(Deadline deadline);
  void block();  // until a signal comes
};

// While it lives, the first of those signals ends this process at once, with 128 + its number: for a server that is
// still starting, of which nobody counts on anything yet, and for work whose results so far are kept. To be made after
// the SignalWaiter.
class EndsAtSignal {
 public:
  explicit EndsAtSignal(const std::string& what);               // "evaluator": who says that it was not ready
  explicit EndsAtSignal(std::function<void(int number)> tell);  // called before, from a thread of its own
  ~EndsAtSignal();                                              // a signal from here on is the SignalWaiter's
  EndsAtSignal(const EndsAtSignal&) = delete;
  EndsAtSignal& operator=(const EndsAtSignal&) = delete;

 private:
  int over_ = -1;  // an eventfd
  std::thread thread_;
};

// Work that a signal ended, as it was asked to: the command exits with 128 + its number, as shells expect.
class StoppedBySignal : public Error {
 public:
  StoppedBySignal(int number, const std::string& message) : Error(ErrorKind::kUnavailable, message), number_(number) {}
  int exit_code() const { return 128 + number_; }

 private:
  int number_;
};

fs::path own_executable();
// Takes the number of a port for this process until it ends, so that two runs that begin at one moment do not both find
// it free; false where another one, or this one, has it.
bool claim_port(int port);
// A TCP port on 127.0.0.1 that is free now and claimed, from below those that the kernel gives to outgoing connections:
// a server that is restarted finds it free again.
int free_port();

}  // namespace tritonforge
