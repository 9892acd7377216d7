#include "evaluate/seeds.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tritonforge::evaluate {

uint64_t random_bits() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value)
    fail(ErrorKind::kMachine, "getrandom: {}", std::strerror(errno));
  return value;
}

uint64_t Seeds::of(std::string_view use, uint64_t index) const {
  return sip_hash(key_, fmt::format("{} {} {}", request_seed_, index, use)) >> 1;
}

}  // namespace tritonforge::evaluate
