#include "orchestrate/ray/remote_process.h"

#include <fcntl.h>
#include <poll.h>
#include <ray/api.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

extern char** environ;

namespace tritonforge::ray_side {
namespace {

// What Ray sets for its workers' own sake: libraries of the other ABI, and its addresses.
bool is_rays(const std::string& entry) {
  for (const char* prefix : {"LD_LIBRARY_PATH=", "LD_PRELOAD=", "RAY_"})
    if (entry.compare(0, std::strlen(prefix), prefix) == 0) return true;
  return false;
}

void close_all(std::vector<int> descriptors) {
  for (const int fd : descriptors)
    if (fd >= 0) ::close(fd);
}

}  // namespace

int RemoteProcess::Start(std::string command) {
  ::signal(SIGPIPE, SIG_IGN);  // a process that ended is no reason for its watcher to end
  int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1};
  for (int* ends : {input, output, errors}) {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  // Ray's workers ignore and block signals that a process of ours must hear.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<char*> environment;
  for (char** entry = environ; *entry; ++entry)
    if (!is_rays(*entry)) environment.push_back(*entry);
  environment.push_back(nullptr);
  const char* argv[] = {"/bin/sh", "-c", command.c_str(), nullptr};
  const int error = ::posix_spawn(&pid_, argv[0], &actions, &attributes, const_cast<char**>(argv), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  close_all({input[0], output[1], errors[1]});
  input_ = input[1];
  output_ = output[0];
  errors_ = errors[0];
  if (error != 0) throw std::runtime_error(std::string("sh: ") + std::strerror(error));
  return pid_;
}

int RemoteProcess::Write(std::string bytes) {
  if (bytes.empty()) close_all({std::exchange(input_, -1)});
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(input_, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // it reads no more: Read says how it ended
    written += static_cast<size_t>(count);
  }
  return static_cast<int>(written);
}

Said RemoteProcess::Read() {
  while (output_ >= 0 || errors_ >= 0) {
    pollfd ends[2] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
    ::poll(ends, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].revents == 0) continue;
      int& fd = i == 0 ? output_ : errors_;
      std::string bytes(64 * 1024, '\0');
      const ssize_t count = ::read(fd, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        close_all({std::exchange(fd, -1)});
        continue;
      }
      bytes.resize(static_cast<size_t>(count));
      return {i + 1, std::move(bytes), 0};
    }
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  return {0, "", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
}

RAY_REMOTE(RemoteProcess::Create, &RemoteProcess::Start, &RemoteProcess::Write, &RemoteProcess::Read);

}  // namespace tritonforge::ray_side
