#include "evaluate/asks_nobody.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "unit/evaluate/in_child.h"

namespace tritonforge::evaluate {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

struct Listener {
  Listener() {
    const sockaddr_in any = loopback(0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 || ::listen(fd, 8) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      throw std::runtime_error("no listener");
    port = ntohs(bound.sin_port);
  }
  ~Listener() { ::close(fd); }
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port = 0;
};

// 0, or why a connection to the port was not had.
int connects(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in there = loopback(port);
  const int error = ::connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

int sends_fast_open(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in there = loopback(port);
  const int error = ::sendto(fd, "x", 1, MSG_FASTOPEN, reinterpret_cast<const sockaddr*>(&there), sizeof there) >= 0
                        ? 0
                        : errno;
  ::close(fd);
  return error;
}

int makes(int family, int type, int protocol = 0) {
  const int fd = ::socket(family, type, protocol);
  const int error = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return error;
}

int connects_in_a_child(uint16_t port) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(connects(port));
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

TEST(AsksNobody, WhatCouldReachAnotherServerIsRefused) {
  const Listener elsewhere;
  ASSERT_EQ(connects(elsewhere.port), 0);
  const Json found = in_child([&] {
    std::promise<void> asked;
    std::promise<int> earlier;
    std::thread thread([&] {  // one that was there before
      asked.get_future().wait();
      earlier.set_value(connects(elsewhere.port));
    });
    Json found = {{"state", ask_nobody()}};
    asked.set_value();
    found["connect"] = connects(elsewhere.port);
    found["of an earlier thread"] = earlier.get_future().get();
    thread.join();  // or a child of this process would have it unjoined at its end
    found["of a child"] = connects_in_a_child(elsewhere.port);
    found["fast open"] = sends_fast_open(elsewhere.port);
    found["datagrams"] = makes(AF_INET, SOCK_DGRAM);
    found["raw"] = makes(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
    found["multipath"] = makes(AF_INET, SOCK_STREAM, 262);
    found["netlink"] = makes(AF_NETLINK, SOCK_RAW);
    found["the hypervisor"] = makes(AF_VSOCK, SOCK_STREAM);
    return found;
  });
  for (const auto& [what, outcome] : found.items()) {
    if (what == "state") {
      EXPECT_TRUE(outcome.get<std::string>().starts_with("enforced")) << outcome;
    } else {
      EXPECT_EQ(outcome, EPERM) << what;
    }
  }
  EXPECT_EQ(connects(elsewhere.port), 0) << "this process asks as before";
}

TEST(AsksNobody, WhoConnectsIsAnswered) {
  int ports[2];
  ASSERT_EQ(::pipe(ports), 0);
  std::promise<std::string> heard;
  std::thread client([&] {
    uint16_t port = 0;
    if (::read(ports[0], &port, sizeof port) != sizeof port) return heard.set_value("no port");
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in there = loopback(port);
    char text[3] = {};
    const bool whole = ::connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 &&
                       ::recv(fd, text, 2, MSG_WAITALL) == 2;
    heard.set_value(whole ? text : std::strerror(errno));
    ::close(fd);
  });
  const Json found = in_child([&] {
    ask_nobody();
    const Listener own;  // made after it
    if (::write(ports[1], &own.port, sizeof own.port) != sizeof own.port) throw std::runtime_error("pipe");
    const int fd = ::accept4(own.fd, nullptr, nullptr, SOCK_CLOEXEC);
    return Json{{"sent", ::send(fd, "ok", 2, 0)}};
  });
  client.join();
  EXPECT_EQ(found["sent"], 2);
  EXPECT_EQ(heard.get_future().get(), "ok");
  ::close(ports[0]);
  ::close(ports[1]);
}

}  // namespace
}  // namespace tritonforge::evaluate
