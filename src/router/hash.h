#pragma once
// Hashes that are the same in every process and build: two routers must choose alike.
#include <cstring>
#include <string_view>

#include "base/rng.h"

namespace tritonforge::router {

// Eight bytes a step; the length is part of it.
inline uint64_t hash_of(std::string_view bytes, uint64_t seed = 0) {
  uint64_t hash = Rng::mix(seed + 0x9E3779B97F4A7C15ull + bytes.size());
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = Rng::mix(hash ^ word);
  }
  uint64_t rest = 0;
  if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
  return Rng::mix(hash ^ rest);
}

}  // namespace tritonforge::router
