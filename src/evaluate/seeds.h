#pragma once
// The seeds of an evaluation. Each is the value of a keyed function at the request's seed and its own use, so that who
// is told one (a candidate's process is told that of its constructor) knows nothing of another.
#include <cstdint>
#include <string_view>

#include "base/sip_hash.h"

namespace tritonforge::evaluate {

// From the kernel. Throws kMachine.
uint64_t random_bits();

class Seeds {
 public:
  // `key`: random_bits(), which nobody else knows, or any other, for who must have the same seeds again.
  Seeds(const SipKey& key, uint64_t request_seed) : key_(key), request_seed_(request_seed) {}
  // Below 2^63: torch's generators take signed seeds.
  uint64_t of(std::string_view use, uint64_t index = 0) const;

 private:
  SipKey key_;
  uint64_t request_seed_;
};

}  // namespace tritonforge::evaluate
