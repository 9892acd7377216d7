#pragma once
// Idle kept-alive sockets by host:port, as plain descriptors, so that any io_context can take one over. Those of TLS
// have one identity, the pool's: nobody gets a connection that another one was let in by.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/tls_session.h"

namespace tritonforge::net {

struct PooledSocket {
  int fd = -1;
  bool v6 = false;
  std::unique_ptr<TlsSession> tls = nullptr;
};

class SocketPool {
 public:
  // nullopt: the identity of the process. Throws what TlsContext throws.
  explicit SocketPool(const std::optional<TlsFiles>& tls = std::nullopt);
  ~SocketPool();
  SocketPool(const SocketPool&) = delete;
  SocketPool& operator=(const SocketPool&) = delete;
  // A socket whose peer has neither closed nor spoken since it was put back.
  std::optional<PooledSocket> take(const std::string& authority, bool tls);
  void put(const std::string& authority, PooledSocket socket);
  TlsContextPtr tls() const { return tls_ ? tls_ : tls_of_this_process(); }

 private:
  struct Idle {
    PooledSocket socket;
    Clock::time_point since;
  };
  static constexpr size_t kMaxPerHost = 256;
  static constexpr double kMaxIdle_s = 30;  // less than servers keep them
  const TlsContextPtr tls_;
  std::mutex mutex_;
  std::map<std::pair<std::string, bool>, std::vector<Idle>> idle_;  // with TLS or without
};

}  // namespace tritonforge::net
