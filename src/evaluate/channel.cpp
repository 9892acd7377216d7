#include "evaluate/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace tritonforge::evaluate {
namespace {

constexpr double kWatchEvery = 0.05;         // seconds between looks at a child's memory
constexpr size_t kAtOnce = size_t{1} << 20;  // bytes between looks at the clock

// Shared pages among them: memory that a child shares with nobody but itself is held all the same.
uint64_t resident_bytes(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE* file = std::fopen(path, "re");
  if (!file) return 0;
  long size = 0, resident = 0, shared = 0;
  const int got = std::fscanf(file, "%ld %ld %ld", &size, &resident, &shared);
  std::fclose(file);
  return got == 3 ? static_cast<uint64_t>(resident) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

TreeUse measure_tree(pid_t root) {
  TreeUse use;
  std::vector<pid_t> open{root};
  while (!open.empty() && use.processes < 4096) {
    const pid_t pid = open.back();
    open.pop_back();
    use.resident += resident_bytes(pid);
    ++use.processes;
    char path[96];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (FILE* file = std::fopen(path, "re")) {
      int child;
      while (std::fscanf(file, "%d", &child) == 1) open.push_back(child);
      std::fclose(file);
    }
  }
  return use;
}

Channel::Channel(int fd, pid_t process, ChannelLimits limits) : fd_(fd), process_(process), limits_(limits) {}
Channel::~Channel() {
  if (fd_ >= 0) ::close(fd_);
}
Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      process_(other.process_),
      limits_(other.limits_),
      peak_(other.peak_),
      baseline_(other.baseline_),
      looked_(other.looked_) {}

void Channel::watch_from_here() {
  if (process_ > 0) baseline_ = measure_tree(process_).resident;
}

bool Channel::over_memory() {
  if (!baseline_) return false;
  const TreeUse use = measure_tree(process_);
  peak_ = std::max(peak_, use.resident);
  return use.resident > *baseline_ + limits_.memory_bytes || use.processes > limits_.max_processes;
}

Silence Channel::look(Deadline deadline) {
  if (deadline.expired()) return Silence::kTimeout;
  if (seconds_since(looked_) < kWatchEvery) return Silence::kNone;
  looked_ = Clock::now();
  return over_memory() ? Silence::kMemory : Silence::kNone;
}

Silence Channel::wait(short events, Deadline deadline) {
  for (;;) {
    pollfd item{fd_, events, 0};
    const double remaining = deadline.remaining_s();
    const int timeout = static_cast<int>(std::min(remaining, kWatchEvery) * 1000) + 1;
    const int ready = ::poll(&item, 1, timeout);
    if (ready > 0) return Silence::kNone;
    if (ready < 0 && errno != EINTR) return Silence::kClosed;
    if (const Silence silence = look(deadline); silence != Silence::kNone) return silence;
  }
}

Silence Channel::read(void* into, size_t size, Deadline deadline) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    if (const Silence silence = look(deadline); silence != Silence::kNone) return silence;
    const ssize_t got = ::recv(fd_, at, std::min(size, kAtOnce), MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      size -= static_cast<size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return Silence::kClosed;
    if (const Silence silence = wait(POLLIN, deadline); silence != Silence::kNone) return silence;
  }
  return Silence::kNone;
}

Silence Channel::write(const void* from, size_t size, Deadline deadline) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    if (const Silence silence = look(deadline); silence != Silence::kNone) return silence;
    const ssize_t sent = ::send(fd_, at, std::min(size, kAtOnce), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
      continue;
    }
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return Silence::kClosed;
    if (const Silence silence = wait(POLLOUT, deadline); silence != Silence::kNone) return silence;
  }
  return Silence::kNone;
}

Silence Channel::receive(Frame& frame, Deadline deadline, std::string& detail, uint64_t payload_bytes) {
  unsigned char sizes[12];
  if (const Silence silence = read(sizes, sizeof sizes, deadline); silence != Silence::kNone) return silence;
  uint32_t head;
  uint64_t body;
  std::memcpy(&head, sizes, 4);
  std::memcpy(&body, sizes + 4, 8);
  if (head == 0 || head > kMaxHeader || body > std::min(payload_bytes, limits_.frame_bytes)) {
    detail = fmt::format("a frame of {} header and {} payload bytes", head, body);
    return Silence::kGarbled;
  }
  std::string text(head, '\0');
  if (const Silence silence = read(text.data(), head, deadline); silence != Silence::kNone) return silence;
  frame.header = parse_json_or_discard(text);
  frame.header_bytes = head;
  if (!frame.header.is_object()) {
    detail = "a header that is not a JSON object, or too deep";
    return Silence::kGarbled;
  }
  // Grown as bytes arrive, so that an announced size alone costs nothing.
  frame.payload.clear();
  while (frame.payload.size() < body) {
    const size_t at = frame.payload.size(), step = std::min<uint64_t>(body - at, 16 << 20);
    frame.payload.resize(at + step);
    if (const Silence silence = read(frame.payload.data() + at, step, deadline); silence != Silence::kNone)
      return silence;
  }
  return Silence::kNone;
}

std::string frame_start(const Json& header, const std::vector<std::span<const std::byte>>& payload) {
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  uint64_t body = 0;
  for (const auto& part : payload) body += part.size();
  const auto head = static_cast<uint32_t>(text.size());
  std::string start(12, '\0');
  std::memcpy(start.data(), &head, 4);
  std::memcpy(start.data() + 4, &body, 8);
  return start + text;
}

Silence Channel::send(const Json& header, const std::vector<std::span<const std::byte>>& payload, Deadline deadline) {
  const std::string start = frame_start(header, payload);
  if (const Silence silence = write(start.data(), start.size(), deadline); silence != Silence::kNone) return silence;
  for (const auto& part : payload) {
    if (const Silence silence = write(part.data(), part.size(), deadline); silence != Silence::kNone) return silence;
  }
  return Silence::kNone;
}

}  // namespace tritonforge::evaluate
