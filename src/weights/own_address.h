#pragma once
#include <string>

namespace tritonforge::weights {

// This machine's address, of those that `host` is reached from. Throws kUsage for a host that is not known here,
// kUnavailable where there is no way to it.
std::string own_address_towards(const std::string& host);

}  // namespace tritonforge::weights
