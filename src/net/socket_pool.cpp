#include "net/socket_pool.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tritonforge::net {
namespace {

bool is_quiet(int fd) {
  char byte;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

std::unique_ptr<ClientSocket> SocketPool::take(const std::string& authority, bool tls) {
  const auto found = idle_.find({authority, tls});
  if (found == idle_.end()) return nullptr;
  auto& sockets = found->second;
  while (!sockets.empty()) {
    std::unique_ptr<ClientSocket> socket = std::move(sockets.back());
    sockets.pop_back();
    if (seconds_since(socket->idle_since) >= kMaxIdle_s || !is_quiet(socket->stream.socket().native_handle())) continue;
    socket->on_alarm = nullptr;
    socket->alarm.clear();
    return socket;
  }
  return nullptr;
}

void SocketPool::put(const std::string& authority, std::unique_ptr<ClientSocket> socket) {
  auto& sockets = idle_[{authority, socket->stream.tls() != nullptr}];
  if (sockets.size() >= kMaxPerHost) sockets.erase(sockets.begin());
  socket->idle_since = Clock::now();
  socket->on_alarm = this;
  socket->alarm.set(Deadline::after(kMaxIdle_s).at());
  sockets.push_back(std::move(socket));
}

void SocketPool::rang() {
  const auto is_old = [](const auto& socket) { return seconds_since(socket->idle_since) >= kMaxIdle_s; };
  for (auto& [host, sockets] : idle_) {
    sockets.erase(sockets.begin(), std::find_if_not(sockets.begin(), sockets.end(), is_old));
  }
  std::erase_if(idle_, [](const auto& host) { return host.second.empty(); });
}

TlsContextPtr client_tls(const std::optional<TlsFiles>& files) {
  return files ? std::make_shared<const TlsContext>(*files, TlsContext::Side::kClient) : nullptr;
}

}  // namespace tritonforge::net
