#pragma once
// Hashes that are the same in every process and build: two routers must choose alike.
#include <xxhash.h>

#include <cstdint>
#include <string_view>

#include "base/rng.h"

namespace tritonforge::router {

// XXH3, whose values are part of its format. The seed is mixed in behind it: XXH3's own makes a table of it each time.
inline uint64_t hash_of(std::string_view bytes, uint64_t seed = 0) {
  return Rng::mix(seed + XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace tritonforge::router
