#pragma once
// A framed conversation with one untrusted child. Whatever the child sends, and however fast, costs this side bounded
// time, memory and depth: deadline and memory watch are looked at while bytes keep coming, a header is at most
// kMaxHeader and kMaxJsonDepth deep, a payload at most what the caller awaits.
#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace tritonforge::evaluate {

inline constexpr uint32_t kMaxHeader = 4 << 20;  // bytes

struct Frame {
  Json header;
  uint32_t header_bytes = 0;
  std::vector<std::byte> payload;
};

// A frame up to its payload, which follows.
std::string frame_start(const Json& header, const std::vector<std::span<const std::byte>>& payload);

// Why a child gave no frame.
enum class Silence { kNone, kTimeout, kMemory, kClosed, kGarbled };

struct ChannelLimits {
  // Resident, of all of the child's processes together, above the warm parent's.
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint64_t frame_bytes = uint64_t{8} << 30;  // of a payload, where receive() is told nothing smaller
  int max_processes = 64;
};

class Channel {
 public:
  // Owns `fd`. `process` is the child's outside of its namespaces, -1 to skip the memory watch.
  Channel(int fd, pid_t process, ChannelLimits limits);
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;

  // The next frame, or why there is none. kGarbled: what came is not a frame, or its payload is larger than
  // `payload_bytes` (`detail` says what).
  Silence receive(Frame& frame, Deadline deadline, std::string& detail, uint64_t payload_bytes = UINT64_MAX);
  // kNone, or kTimeout / kClosed.
  Silence send(const Json& header, const std::vector<std::span<const std::byte>>& payload, Deadline deadline);
  uint64_t peak_memory() const { return peak_; }
  // What the child has now is its parent's; memory_bytes is counted from here, and nothing before. To be called before
  // it is sent anything.
  void watch_from_here();

 private:
  Silence wait(short events, Deadline deadline);
  Silence read(void* into, size_t size, Deadline deadline);
  Silence write(const void* from, size_t size, Deadline deadline);
  // Time and memory, at most every kWatchEvery seconds for the latter; kNone: go on.
  Silence look(Deadline deadline);
  bool over_memory();

  int fd_;
  pid_t process_;
  ChannelLimits limits_;
  uint64_t peak_ = 0;
  std::optional<uint64_t> baseline_;  // none: not watched yet
  Clock::time_point looked_ = Clock::now();
};

// Resident bytes and number of processes of `root` and everything below it.
struct TreeUse {
  uint64_t resident = 0;
  int processes = 0;
};
TreeUse measure_tree(pid_t root);

}  // namespace tritonforge::evaluate
