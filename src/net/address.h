#pragma once
// Addresses of machines, as text, for those who set something up and wait for it. A name that no name server answers
// for in time is kTimeout, one that is not known here kUsage, both naming it.
#include <string>

#include "base/clock.h"

namespace tritonforge::net {

inline constexpr double kLookupSeconds = 20;  // two tries of two silent name servers, as resolv.conf(5) has them

// Of IPv4, where Gloo and the servers of a run listen. kUnavailable where it has none.
std::string ipv4_of(const std::string& host, Deadline deadline = Deadline::after(kLookupSeconds));

// This machine's address, of those that `host` is reached from. kUnavailable where there is no way to it.
std::string own_address_towards(const std::string& host, Deadline deadline = Deadline::after(kLookupSeconds));

}  // namespace tritonforge::net
