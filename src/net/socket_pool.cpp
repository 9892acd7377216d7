#include "net/socket_pool.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace tritonforge::net {
namespace {

bool is_quiet(int fd) {
  char byte;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

SocketPool::SocketPool(const std::optional<TlsFiles>& tls)
    : tls_(tls ? std::make_shared<const TlsContext>(*tls, TlsContext::Side::kClient) : nullptr) {}

SocketPool::~SocketPool() {
  for (const auto& [authority, sockets] : idle_) {
    for (const Idle& idle : sockets) ::close(idle.socket.fd);
  }
}

std::optional<PooledSocket> SocketPool::take(const std::string& authority, bool tls) {
  const std::lock_guard lock(mutex_);
  const auto found = idle_.find({authority, tls});
  if (found == idle_.end()) return std::nullopt;
  auto& sockets = found->second;
  while (!sockets.empty()) {
    Idle idle = std::move(sockets.back());
    sockets.pop_back();
    if (seconds_since(idle.since) < kMaxIdle_s && is_quiet(idle.socket.fd)) return std::move(idle.socket);
    ::close(idle.socket.fd);
  }
  return std::nullopt;
}

void SocketPool::put(const std::string& authority, PooledSocket socket) {
  const std::lock_guard lock(mutex_);
  auto& sockets = idle_[{authority, socket.tls != nullptr}];
  if (sockets.size() >= kMaxPerHost) {
    ::close(sockets.front().socket.fd);
    sockets.erase(sockets.begin());
  }
  sockets.push_back({std::move(socket), Clock::now()});
}

}  // namespace tritonforge::net
