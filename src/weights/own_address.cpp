#include "weights/own_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"

namespace tritonforge::weights {

std::string own_address_towards(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0)
    fail(ErrorKind::kUsage, "'{}' is no address and no name that is known here", host);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = {};
  const bool there = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&  // nothing is sent
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                                   NI_NUMERICHOST) == 0;
  ::close(fd);
  if (!there) fail(ErrorKind::kUnavailable, "no way from this machine to {}", host);
  return text;
}

}  // namespace tritonforge::weights
