#include "orchestrate/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/descriptor.h"
#include "base/json.h"
#include "base/process.h"
#include "orchestrate/node_cache.h"

extern char** environ;

namespace tritonforge::orchestrate {
namespace {

// How often an agent is told that its asker is there, and how long it believes so without a word, in seconds. A
// connection may die without a sign of it on the far side; ssh gives it up here after 15 to 20 s.
constexpr double kPulse = 5, kSilence = 30;

// What of this process's own environment a role on another host gets, too.
bool travels(const std::string& name) {
  return name.starts_with("TRITONFORGE_") || name == "OPENAI_API_KEY" || name == "OMP_NUM_THREADS";
}

std::map<std::string, std::string> travelling_environment(const std::map<std::string, std::string>& of_job) {
  std::map<std::string, std::string> env = of_job;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (travels(text.substr(0, equals))) env.try_emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

void write_all(int fd, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(fd, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // the carrier has ended: its exit says so
    written += static_cast<size_t>(count);
  }
}

// Lines of a file descriptor; "" at its end only.
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}
  bool ended() const { return ended_; }
  void read_some() {
    char buffer[4096];
    const ssize_t count = ::read(fd_, buffer, sizeof buffer);
    if (count > 0) text_.append(buffer, static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR) ended_ = true;
  }
  std::optional<std::string> next() {
    const size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

 private:
  int fd_;
  std::string text_;
  bool ended_ = false;
};

Json json_of(const net::TunnelEnd& end) {
  return {{"host", end.host}, {"port", end.port}, {"key", end.key}, {"serves", end.serves}, {"reaches", end.reaches}};
}

struct AgentJob {
  ProcessOptions options;
  std::optional<net::TunnelEnd> tunnel;
  double silence_s = 1e9;  // as long as the input is open, where the job says none
};

AgentJob read_job(const std::string& line) {
  AgentJob read;
  ProcessOptions& options = read.options;
  try {
    const Json job = Json::parse(line);
    options.argv = job.at("argv").get<std::vector<std::string>>();
    // The launcher's program is at another place here, or not at all: this one is what was brought.
    if (const auto program = job.find("program"); program != job.end())
      std::ranges::replace(options.argv, program->get<std::string>(), own_executable().string());
    options.env = job.at("env").get<std::map<std::string, std::string>>();
    options.working_folder = job.at("folder").get<std::string>();
    read.silence_s = job.value("silence_s", read.silence_s);
    if (const auto end = job.find("tunnel"); end != job.end()) {
      read.tunnel = {.host = end->at("host"),
                     .key = end->at("key"),
                     .port = end->at("port"),
                     .serves = end->at("serves"),
                     .reaches = end->at("reaches")};
    }
  } catch (const Json::exception& error) {
    fail(ErrorKind::kUsage, "agent: the first line of its input is no job: {}", error.what());
  }
  if (options.argv.empty()) fail(ErrorKind::kUsage, "agent: the job has no argv");
  return read;
}

std::jthread pulse_of(int control) {
  return std::jthread([control](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    const auto never = [] { return false; };
    while (!stop.stop_requested()) {
      stopped.wait_for(lock, stop, std::chrono::duration<double>(kPulse), never);
      if (!stop.stop_requested()) write_all(control, "alive\n");
    }
  });
}

}  // namespace

Launched::Member carried(const ProcessOptions& options, const Carrier& carrier, const Place& place) {
  Json job = {{"argv", options.argv},
              {"program", own_executable().string()},
              {"env", travelling_environment(options.env)},
              {"folder", fs::current_path().string()},
              {"silence_s", kSilence}};
  if (carrier.tunnel) job["tunnel"] = json_of(*carrier.tunnel);
  const std::string line = job.dump() + "\n";
  Pipe control = make_pipe(), report = make_pipe(O_CLOEXEC | O_NONBLOCK);
  auto process = std::make_unique<ChildProcess>(ProcessOptions{.argv = carrier.argv,
                                                               .env = {},
                                                               .stdout_file = {},
                                                               .stderr_file = options.stderr_file,
                                                               .stdin_fd = control.read.get(),
                                                               .stdout_fd = report.write.get()});
  control.read = Descriptor();  // these two are the carrier's alone, so that its end shows
  report.write = Descriptor();
  write_all(control.write.get(), line);
  std::jthread pulse = pulse_of(control.write.get());
  return {place, std::move(process), control.write.release(), report.read.release(), std::nullopt, std::move(pulse)};
}

std::optional<int> read_report(int& report) {
  char text[64] = {};  // written at once, far below what a pipe takes whole
  const ssize_t count = ::read(report, text, sizeof text - 1);
  if (count < 0) return std::nullopt;  // nothing yet
  int code = 0;
  const bool said = count > 0 && std::sscanf(text, "exited %d", &code) == 1;
  ::close(std::exchange(report, -1));
  return said ? std::optional(code) : std::nullopt;
}

void tell_agent(int control, int signal) { write_all(control, fmt::format("signal {}\n", signal)); }

int run_agent(int input) {
  ::signal(SIGPIPE, SIG_IGN);
  Lines lines(input);
  std::optional<std::string> first;
  while (!(first = lines.next()) && !lines.ended()) lines.read_some();
  if (!first) fail(ErrorKind::kUsage, "agent: no job on its standard input");
  AgentJob job = read_job(*first);
  job.options.stdout_fd = STDERR_FILENO;
  std::optional<net::TunnelNode> tunnel;
  if (job.tunnel) tunnel.emplace(*job.tunnel);
  const Descriptor bundle = hold_bundle(own_bundle()), environment = hold_environment(own_environment());
  ChildProcess process(job.options);
  const int ended = static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0));
  if (ended < 0) fail(ErrorKind::kMachine, "pidfd_open: {}", std::strerror(errno));
  Deadline silent = Deadline::after(job.silence_s);
  while (!process.poll()) {
    while (const auto line = lines.next()) {
      int number = 0;
      if (std::sscanf(line->c_str(), "signal %d", &number) == 1 && number > 0 && number < NSIG) process.signal(number);
    }
    if (lines.ended() || silent.expired()) process.signal(SIGKILL);
    pollfd waiters[2] = {{ended, POLLIN, 0}, {lines.ended() ? -1 : input, POLLIN, 0}};
    ::poll(waiters, 2, static_cast<int>(std::clamp(silent.remaining_s(), 0.1, 3600.0) * 1000));
    if (waiters[1].revents == 0) continue;
    lines.read_some();
    silent = Deadline::after(job.silence_s);
  }
  ::close(ended);
  const int code = *process.poll() == 255 ? 254 : *process.poll();
  write_all(STDOUT_FILENO, fmt::format("exited {}\n", code));
  return code;
}

}  // namespace tritonforge::orchestrate
