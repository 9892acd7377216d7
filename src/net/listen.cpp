#include "net/listen.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::net {

int open_socket(bool v6) { return ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int listen_on(const asio::ip::address& address, const std::string& host, int port) {
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
  const int fd = open_socket(address.is_v6());
  if (fd < 0) fail(ErrorKind::kUnavailable, "cannot open a socket: {}", std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0 && ::listen(fd, 4096) == 0) return fd;
  const int reason = errno;
  ::close(fd);
  if (reason == EADDRINUSE) fail(ErrorKind::kUnavailable, "port {} on {} is in use", port, host);
  fail(ErrorKind::kUnavailable, "cannot listen on {}:{}: {}", host, port, std::strerror(reason));
}

void notice_silence(int fd, int seconds) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds / 3);
  set(IPPROTO_TCP, TCP_KEEPINTVL, seconds / 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
}

awaitable<void> accept_each(tcp::acceptor& acceptor, std::function<asio::any_io_executor()> executor,
                            std::function<void(tcp::socket)> take) {
  const auto at = acceptor.local_endpoint();
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    if (const auto [error] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kTuple); error) co_return;
    const int fd = ::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    error_code error;
    if (fd >= 0) {
      tcp::socket socket(executor());
      socket.assign(at.protocol(), fd, error);
      if (!error) {
        take(std::move(socket));
        continue;
      }
      ::close(fd);
    } else {
      error = error_code(errno, boost::system::system_category());
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;  // the client is gone already
    }
    log::error("cannot accept a connection on port {}: {}", at.port(), error.message());
    pause.expires_after(std::chrono::milliseconds(200));  // until others close
    co_await pause.async_wait(kTuple);
  }
}

}  // namespace tritonforge::net
