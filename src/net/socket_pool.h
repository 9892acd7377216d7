#pragma once
// Idle kept-alive sockets by host:port, as plain descriptors, so that any io_context can take one over.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tritonforge::net {

struct PooledSocket {
  int fd = -1;
  bool v6 = false;
};

class SocketPool {
 public:
  SocketPool() = default;
  ~SocketPool();
  SocketPool(const SocketPool&) = delete;
  SocketPool& operator=(const SocketPool&) = delete;
  // A socket whose peer has neither closed nor spoken since it was put back.
  std::optional<PooledSocket> take(const std::string& authority);
  void put(const std::string& authority, PooledSocket socket);

 private:
  struct Idle {
    PooledSocket socket;
    Clock::time_point since;
  };
  static constexpr size_t kMaxPerHost = 256;
  static constexpr double kMaxIdle_s = 30;  // less than servers keep them
  std::mutex mutex_;
  std::map<std::string, std::vector<Idle>> idle_;
};

}  // namespace tritonforge::net
