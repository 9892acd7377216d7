#include "net/address.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "net/lookup.h"

namespace tritonforge::net {
namespace {

std::vector<asio::ip::address> addresses_of(const std::string& host, Deadline deadline) {
  const auto lookup = std::make_shared<Lookup>();
  lookup->begin(host);
  if (!lookup->wait(deadline))
    fail(ErrorKind::kTimeout, "looking up {}: no name server answered in time (/etc/resolv.conf names them)", host);
  if (const error_code error = lookup->error())
    fail(ErrorKind::kUsage, "'{}' is no address and no name that is known here ({})", host, error.message());
  return lookup->addresses();
}

// Empty where there is no way there. Nothing is sent.
std::string own_address_towards(const asio::ip::address& address) {
  const int fd = ::socket(address.is_v6() ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const tcp::endpoint there(address, 9);
  tcp::endpoint own;
  auto size = static_cast<socklen_t>(own.capacity());
  const bool is_there = ::connect(fd, there.data(), static_cast<socklen_t>(there.size())) == 0 &&
                        ::getsockname(fd, own.data(), &size) == 0;
  ::close(fd);
  return is_there ? own.address().to_string() : "";
}

}  // namespace

std::string ipv4_of(const std::string& host, Deadline deadline) {
  const auto all = addresses_of(host, deadline);
  const auto found = std::ranges::find_if(all, [](const auto& address) { return address.is_v4(); });
  if (found == all.end()) fail(ErrorKind::kUnavailable, "{} has no IPv4 address", host);
  return found->to_string();
}

std::string own_address_towards(const std::string& host, Deadline deadline) {
  for (const auto& address : addresses_of(host, deadline)) {
    if (std::string own = own_address_towards(address); !own.empty()) return own;
  }
  fail(ErrorKind::kUnavailable, "no way from this machine to {}", host);
}

}  // namespace tritonforge::net
