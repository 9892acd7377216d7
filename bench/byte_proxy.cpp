// libs: tf_base
// The least that a router can add: one thread that hands on bytes between a client's connection and one to an engine,
// and reads none of them. usage: byte_proxy PORT ENGINE_PORT...   (loopback; until it is killed)
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

namespace {

sockaddr_in loopback(const char* port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

int stream() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::fputs("usage: byte_proxy PORT ENGINE_PORT...\n", stderr), 2;
  const int listening = stream(), poll = ::epoll_create1(0);
  const sockaddr_in own = loopback(words[1]);
  if (::bind(listening, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 || ::listen(listening, 4096) != 0)
    return std::perror("byte_proxy"), 1;
  std::map<int, int> other;  // of a connection: the one that its bytes go to
  const auto watch = [poll](int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listening);
  std::array<epoll_event, 64> events;
  std::vector<char> bytes(1 << 16);
  for (int turn = 0;;) {
    const int ready = ::epoll_wait(poll, events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == listening) {
        const int client = ::accept(listening, nullptr, nullptr), engine = stream();
        const sockaddr_in at = loopback(words[2 + turn++ % (count - 2)]);
        if (::connect(engine, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
          return std::perror("byte_proxy"), 1;
        other[client] = engine;
        other[engine] = client;
        watch(client);
        watch(engine);
        continue;
      }
      const auto to = other.find(fd);
      if (to == other.end()) continue;  // ended in this round
      const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
      if (got > 0 && ::send(to->second, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL) == got) continue;
      const int peer = to->second;
      other.erase(fd);
      other.erase(peer);
      ::close(fd);
      ::close(peer);
    }
  }
}
