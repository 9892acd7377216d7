#pragma once
// Plain TCP for tests: a client that can misbehave, and a socket that listens.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace tritonforge::net {

// A socket that listens on any free port of the loopback.
struct Listening {
  Listening() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || ::bind(fd, place, size) != 0 || ::listen(fd, 64) != 0 || ::getsockname(fd, place, &size) != 0)
      throw std::system_error(errno, std::generic_category(), "a socket that listens");
    port = ntohs(address.sin_port);
  }
  ~Listening() { ::close(fd); }
  Listening(const Listening&) = delete;
  int accept() const { return ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC); }
  void end() const { ::shutdown(fd, SHUT_RDWR); }  // accept() gives -1

  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
};

class RawSocket {
 public:
  explicit RawSocket(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawSocket() { close(); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Until `marker` was seen, the peer closed, or nothing came for `idle_ms`.
  std::string read_until(std::string_view marker, int idle_ms = 60'000) {
    std::string got;
    char buffer[4096];
    while (marker.empty() || got.find(marker) == std::string::npos) {
      pollfd waiter{fd_, POLLIN, 0};
      if (::poll(&waiter, 1, idle_ms) <= 0) break;
      const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
      if (size <= 0) {
        closed_ = true;
        break;
      }
      got.append(buffer, static_cast<size_t>(size));
    }
    return got;
  }
  std::string read_all(int idle_ms = 60'000) { return read_until("", idle_ms); }
  bool closed() const { return closed_; }

 private:
  int fd_;
  bool connected_ = false, closed_ = false;
};

}  // namespace tritonforge::net
