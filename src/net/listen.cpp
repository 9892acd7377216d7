#include "net/listen.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

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

int accept_from(int listening) { return ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }

}  // namespace tritonforge::net
