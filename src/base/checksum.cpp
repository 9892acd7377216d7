#include "base/checksum.h"

#include <fmt/format.h>
#include <xxh3.h>

namespace tritonforge {

std::string checksum(const void* data, size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace tritonforge
