#include "evaluate/zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/process.h"
#include "base/rng.h"
#include "base/shared_memory.h"
#include "evaluate/child_ends.h"
#include "evaluate/gpu_nodes.h"
#include "evaluate/packet.h"

namespace tritonforge::evaluate {

struct ZygoteState {
  // Of all children's folders: a server that is killed leaves them to the next one to remove.
  SharedFolder folders{fmt::format("evaluator-{}-{:x}", ::getpid(),
                                   Rng::mix(static_cast<uint64_t>(Clock::now().time_since_epoch().count()))),
                       fs::temp_directory_path()};
  std::mutex mutex;
  std::condition_variable changed;
  int control = -1;  // our end; -1 while there is no zygote
  pid_t pid = -1;    // of the newest
  bool stopping = false;
  int starts = 0;
  std::string failure;  // why the last start failed
  Json versions, missing;
  ChildEnds ends;
  struct Spawned {
    pid_t pid;
    int pidfd;
    std::string error;
  };
  int64_t asked = 0;               // spawns, each of which has this for its id
  bool awaited = false;            // the last one is under way
  std::optional<Spawned> spawned;  // the answer to it
  std::mutex spawning;             // one spawn at a time
  std::thread keeper;
};

namespace {

struct Descriptors {
  std::vector<int> fds;
  std::string message;
};

std::optional<Descriptors> receive(int socket) {
  std::string buffer(1 << 18, '\0');
  Descriptors result;
  const ssize_t got = receive_packet(socket, buffer.data(), buffer.size(), result.fds);
  if (got <= 0) return std::nullopt;
  result.message = buffer.substr(0, static_cast<size_t>(got));
  return result;
}

// The environment is built anew: a key in ours must not be readable in /proc/self/environ of a child.
std::vector<std::string> command_line(const ZygoteOptions& options, int control) {
  std::vector<std::string> argv{"env",
                                "-i",
                                "PATH=/usr/local/bin:/usr/bin:/bin",
                                "LANG=C.UTF-8",
                                "OMP_NUM_THREADS=1",
                                "OPENBLAS_NUM_THREADS=1",
                                "MKL_NUM_THREADS=1",
                                "PYTHONHASHSEED=0",
                                "HF_HUB_OFFLINE=1",  // there is no network: who wants one shall not wait for it
                                "PYTHONPATH=" + options.worker.string()};
  for (const char* name : {"HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                           "ROCR_VISIBLE_DEVICES", "CUDA_HOME", "ROCM_HOME", "TRITONFORGE_WORKER_DEBUG"}) {
    if (const char* value = std::getenv(name)) argv.push_back(std::string(name) + "=" + value);
  }
  if (!options.gpu) argv.push_back("CUDA_VISIBLE_DEVICES=");
  argv.insert(argv.end(), {options.python.string(), "-m", "tritonforge_worker.zygote", std::to_string(control),
                           options.sandbox_library.string(),
                           fmt::format("{},{},{},{},{}", options.once ? "" : "reduce",
                                       !options.once || options.records ? "record" : "", options.gpu ? "gpu" : "",
                                       options.compiles ? "compile" : "", options.captures ? "capture" : "")});
  return argv;
}

void handle(ZygoteState& state, const Descriptors& packet) {
  const Json message = parse_json_or_discard(packet.message);
  const std::lock_guard lock(state.mutex);
  // Whoever asked for another one has given up by now, and has told its child so by closing the job's socket.
  const bool known = message.is_object(),
             wanted = known && state.awaited && message.value("id", int64_t{-1}) == state.asked;
  if (known && message.contains("spawned")) state.ends.begun(message["spawned"].get<pid_t>());
  if (wanted && message.contains("spawned") && packet.fds.size() == 1) {
    state.spawned = {message["spawned"].get<pid_t>(), packet.fds[0], ""};
  } else {
    for (const int fd : packet.fds) ::close(fd);
    if (known && message.contains("exited")) {
      state.ends.ended(message["exited"].get<pid_t>(), message["status"].get<int>());
    } else if (known && message.contains("ready")) {
      state.versions = message["ready"];
      state.missing = message["missing"];
    } else if (wanted && message.contains("error")) {
      state.spawned = {-1, -1, message["error"].get<std::string>()};
    } else if (known && message.contains("error") && !message.contains("id")) {  // of itself, before it is ready
      state.failure = message["error"].get<std::string>();
    }
  }
  state.changed.notify_all();
}

// One that died within so many seconds died early; after so many early deaths in a row the next waits.
constexpr double kLongLife = 30, kPause = 2;
constexpr int kFreeRestarts = 10;

// The keeper's life: one zygote after the other, each read to its end.
void keep(const ZygoteOptions& options, const std::shared_ptr<ZygoteState>& state) {
  int quick_deaths = 0;
  for (;;) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      const std::lock_guard lock(state->mutex);
      state->failure = fmt::format("socketpair: {}", std::strerror(errno));
      state->stopping = true;
      state->changed.notify_all();
      return;
    }
    const auto started = Clock::now();
    std::unique_ptr<ChildProcess> process;
    try {
      ::fcntl(ends[1], F_SETFD, 0);
      process = std::make_unique<ChildProcess>(ProcessOptions{.argv = command_line(options, ends[1])});
    } catch (const Error& error) {
      const std::lock_guard lock(state->mutex);
      state->failure = error.what();
    }
    ::close(ends[1]);
    bool was_ready = false;
    if (process) {
      // The socket is usable by others only once the first message (ready) has come.
      while (auto packet = receive(ends[0])) {
        handle(*state, *packet);
        if (!was_ready) {
          const std::lock_guard lock(state->mutex);
          if (state->stopping) break;
          if (!state->versions.is_null()) {
            was_ready = true;
            state->control = ends[0];
            state->pid = process->pid();
            ++state->starts;
            state->changed.notify_all();
          }
        }
      }
    }
    std::unique_lock lock(state->mutex);
    state->control = -1;
    ::close(ends[0]);
    process.reset();
    if (!state->stopping && !was_ready) {
      if (state->failure.empty())
        state->failure = fmt::format("{} -m tritonforge_worker.zygote ended while it started", options.python.string());
      // The first says that something is missing; a later one may have been killed like those before it.
      state->stopping = state->starts == 0;
    }
    quick_deaths = seconds_since(started) < kLongLife ? quick_deaths + 1 : 0;
    state->changed.notify_all();
    if (!state->stopping) log::warn("the evaluator's Python parent died; starting another");
    const auto pause = Deadline::after(quick_deaths <= kFreeRestarts ? 0 : kPause);
    if (state->changed.wait_until(lock, pause.at(), [&] { return state->stopping; })) return;
    state->failure.clear();
  }
}

}  // namespace

fs::path find_worker_folder() {
  std::vector<fs::path> places;
  if (const char* root = std::getenv("TRITONFORGE_ROOT")) places.push_back(fs::path(root) / "worker");
  places.push_back(own_executable().parent_path().parent_path() / "worker");
  places.push_back(fs::path(TF_SOURCE_DIR) / "worker");
  for (const auto& place : places) {
    if (fs::exists(place / "tritonforge_worker" / "zygote.py")) return fs::canonical(place);
  }
  fail(ErrorKind::kNotFound, "the evaluator's worker folder is in none of {} (set TRITONFORGE_ROOT)",
       fmt::join(
           [&] {
             std::vector<std::string> texts;
             for (const auto& place : places) texts.push_back(place.string());
             return texts;
           }(),
           ", "));
}

fs::path find_sandbox_library() {
  for (fs::path folder = own_executable().parent_path();; folder = folder.parent_path()) {
    const fs::path library = folder / "libtritonforge_sandbox.so";
    if (fs::exists(library)) return library;
    if (folder == folder.parent_path()) break;
  }
  fail(ErrorKind::kNotFound, "libtritonforge_sandbox.so is not beside {} (build the target tritonforge_sandbox)",
       own_executable().string());
}

fs::path find_python() {
  const char* set = std::getenv("TRITONFORGE_PYTHON");
  const fs::path python = set && *set ? set : TF_PYTHON;
  if (!fs::exists(python))
    fail(ErrorKind::kMachine, "no Python at {} (run requirements/install or set TRITONFORGE_PYTHON)", python.string());
  return python;
}

Zygote::Zygote(ZygoteOptions options) : options_(std::move(options)), state_(std::make_shared<ZygoteState>()) {
  SharedFolder::sweep(fs::temp_directory_path(), "evaluator-");
  if (options_.python.empty()) options_.python = find_python();
  if (options_.worker.empty()) options_.worker = find_worker_folder();
  if (options_.sandbox_library.empty()) options_.sandbox_library = find_sandbox_library();
  ControlGroups::below_this_process();  // the Python parent begins in this process's group
  state_->keeper = std::thread([options = options_, state = state_] { keep(options, state); });
  std::unique_lock lock(state_->mutex);
  const auto deadline = Deadline::after(options_.start_timeout_s);
  state_->changed.wait_until(lock, deadline.at(), [&] { return state_->control >= 0 || state_->stopping; });
  if (state_->control < 0) {
    const std::string why = state_->failure.empty()
                                ? fmt::format("it did not come up within {} s", options_.start_timeout_s)
                                : state_->failure;
    state_->stopping = true;
    lock.unlock();
    state_->keeper.detach();  // it ends with the process that it waits for
    fail(ErrorKind::kMachine, "the evaluator's Python parent ({}) does not start: {}", options_.python.string(), why);
  }
}

void Zygote::end() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    if (state_->control >= 0) ::shutdown(state_->control, SHUT_RDWR);
  }
  state_->changed.notify_all();
}

Zygote::~Zygote() {
  if (!state_->keeper.joinable()) return;
  end();
  state_->keeper.join();
}

Json Zygote::versions() const {
  const std::lock_guard lock(state_->mutex);
  return state_->versions;
}

Json Zygote::missing() const {
  const std::lock_guard lock(state_->mutex);
  return state_->missing;
}

int Zygote::restarts() const {
  const std::lock_guard lock(state_->mutex);
  return std::max(0, state_->starts - 1);
}

namespace {

// Where much is recorded and compiled beside what is timed on a GPU, the last processor is for the latter: -1 where
// there are too few of them, or no GPU.
int spared_processor(const ZygoteOptions& options, const ChildLimits& limits) {
  constexpr int kEnough = 8;
  cpu_set_t set;
  if (!options.gpu || limits.gpu || ::sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < kEnough)
    return -1;
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(static_cast<size_t>(last), &set)) --last;
  return last;
}

Json sandbox_options(const ZygoteOptions& options, const Json& versions, const ChildLimits& limits,
                     const fs::path& folder, const ControlGroup* group) {
  Json read_only = {"/usr",
                    "/lib",
                    "/lib64",
                    "/lib32",
                    "/bin",
                    "/sbin",
                    "/opt/rocm",
                    "/etc/ld.so.cache",
                    "/etc/ld.so.conf",
                    "/etc/ld.so.conf.d",
                    "/etc/alternatives",
                    "/etc/OpenCL",
                    "/etc/localtime",
                    options.worker.string(),
                    options.sandbox_library.string(),
                    (options.sandbox_library.parent_path() / "libtritonforge_held.so").string(),
                    versions.value("prefix", ""),
                    versions.value("base_prefix", "")};
  for (const auto& item : versions.value("packages", Json::array())) read_only.push_back(item);
  Json devices = Json::array();
  if (limits.gpu) {
    read_only.push_back("/sys");
    read_only.push_back("/etc/nvidia");
    read_only.push_back("/run/nvidia-persistenced");
    for (const fs::path& node : gpu_nodes(limits.gpu_uuid)) devices.push_back(node.string());
  }
  Json unique = Json::array();
  for (const auto& path : read_only) {
    if (!path.get_ref<const std::string&>().empty() && std::find(unique.begin(), unique.end(), path) == unique.end())
      unique.push_back(path);
  }
  Json rlimits = {{"cpu", static_cast<uint64_t>(limits.cpu_s) + 1},
                  {"fsize", limits.file_bytes},
                  {"nofile", limits.gpu ? 4096 : 256},
                  {"core", 0}};
  if (limits.address_space) rlimits["as_extra"] = limits.memory_bytes;
  if (limits.processes) rlimits["nproc"] = 512;
  return {{"folder", (folder / "job").string()},
          {"root", (folder / "root").string()},
          {"gpu", limits.gpu},
          {"gpu_uuid", limits.gpu_uuid},
          {"read_only", unique},
          {"devices", devices},
          {"processes", limits.processes},
          {"native", limits.native},
          {"exec", limits.processes ? unique : Json::array()},
          {"folder_bytes", limits.file_bytes},
          {"program_limit", limits.program_limit},
          {"device_memory", limits.device_memory},
          {"library", options.sandbox_library.string()},
          {"spared_processor", spared_processor(options, limits)},
          {"control_group", group ? group->path().string() : ""},
          {"rlimits", rlimits}};
}

// What is seen from here: the child says nothing of it.
std::string group_layer(const ControlGroup* group, pid_t child) {
  const ControlGroups& groups = ControlGroups::below_this_process();
  if (!groups.missing().empty()) return "unavailable: " + groups.missing();
  if (!group || !group->holds(child)) return "unavailable: the child is in no group of its own";
  return "enforced: " + groups.bounds();
}

}  // namespace

std::unique_ptr<Child> Zygote::spawn(const std::string& role, const ChildLimits& limits, Deadline deadline) {
  if (limits.gpu && !options_.gpu)
    fail(ErrorKind::kUnavailable, "evaluator: no '{}' child on a GPU: there is none to grant", role);
  std::unique_ptr<Child> child(new Child);
  child->state_ = state_;
  child->folder_ = std::make_unique<TemporaryFolder>("child-", state_->folders.path());
  fs::create_directory(child->folder_->path() / "job");
  fs::create_directory(child->folder_->path() / "root");
  child->group_ = ControlGroups::below_this_process().make(child->folder_->path().filename().string(), limits);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(ErrorKind::kUnavailable, "evaluator: socketpair: {}", std::strerror(errno));
  const int size = 4 << 20;
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  {
    const std::lock_guard one(state_->spawning);
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_until(lock, deadline.at(), [&] { return state_->control >= 0 || state_->stopping; });
    bool sent = false;
    if (state_->control >= 0 && !deadline.expired()) {
      state_->awaited = true;
      const Json request = {{"op", "spawn"},
                            {"id", ++state_->asked},
                            {"role", role},
                            {"sandbox", sandbox_options(options_, state_->versions, limits, child->folder_->path(),
                                                        child->group_.get())}};
      sent = send_packet(state_->control, request.dump(), ends[1]);
    }
    ::close(ends[1]);
    const int generation = state_->starts;
    if (sent)
      state_->changed.wait_until(lock, deadline.at(), [&] {
        return state_->spawned.has_value() || state_->control < 0 || state_->starts != generation;
      });
    state_->awaited = false;
    if (!sent || !state_->spawned || state_->spawned->pid < 0) {
      ::close(ends[0]);
      const std::string why = state_->spawned    ? state_->spawned->error
                              : state_->stopping ? "its Python parent cannot be started: " + state_->failure
                                                 : "its Python parent did not answer";
      state_->spawned.reset();
      fail(ErrorKind::kUnavailable, "evaluator: no '{}' child: {}", role, why);
    }
    child->pid_in_zygote_ = state_->spawned->pid;
    child->pidfd_ = state_->spawned->pidfd;
    child->generation_ = generation;
    state_->spawned.reset();
  }
  child->channel_ = std::make_unique<Channel>(ends[0], child->pid_in_zygote_,
                                              ChannelLimits{.memory_bytes = limits.memory_bytes});
  Frame frame;
  std::string detail;
  const Silence silence = child->channel_->receive(frame, deadline, detail);
  if (silence != Silence::kNone || !frame.header.contains("ready")) {
    const std::string why = silence == Silence::kNone      ? frame.header.dump().substr(0, 500)
                            : silence == Silence::kTimeout ? "deadline"
                                                           : child->ending(Deadline::after(1));
    fail(ErrorKind::kUnavailable, "evaluator: the '{}' child did not enter its sandbox: {}", role, why);
  }
  child->layers_ = frame.header.value("layers", Json::object());
  child->layers_["control_group"] = group_layer(child->group_.get(), child->pid_in_zygote_);
  child->channel_->watch_from_here();
  return child;
}

Child::Child(int socket) : channel_(std::make_unique<Channel>(socket, -1, ChannelLimits{})), layers_(Json::object()) {}

void Child::kill() {
  if (pidfd_ >= 0) ::syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
}

bool Child::alive() const {
  pollfd ended{.fd = pidfd_, .events = POLLIN, .revents = 0};
  return pidfd_ >= 0 && ::poll(&ended, 1, 0) == 0;
}

Child::~Child() {
  kill();
  if (pidfd_ >= 0) ::close(pidfd_);
}

pid_t Child::zygote_pid() const {
  if (!state_) return -1;
  const std::lock_guard lock(state_->mutex);
  return state_->pid;
}

bool Child::orphaned() const {
  if (!state_) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->control < 0 || state_->starts != generation_;
}

std::string Child::ending(Deadline deadline) {
  if (!state_) return "ended";
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, deadline.at(),
                             [&] { return state_->ends.of(pid_in_zygote_).has_value() || state_->control < 0; });
  const std::optional<int> status = state_->ends.of(pid_in_zygote_);
  if (!status) return "went silent";
  if (WIFSIGNALED(*status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(*status), ::strsignal(WTERMSIG(*status)));
  return fmt::format("ended itself with exit status {}", WEXITSTATUS(*status));
}

}  // namespace tritonforge::evaluate
