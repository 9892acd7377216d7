#pragma once
// A checksum of weights that a GPU computes at memory speed and the host computes the same (kernels/gpu/checksum.cu).
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace tritonforge {

// SplitMix64's finaliser (Steele et al., 2014) of the word, moved by its place.
TF_HOST_DEVICE inline uint64_t checksum_mix(uint64_t word, uint64_t index) {
  uint64_t z = word + (index + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The sum of the mixes of all 8-byte little-endian words, the last one padded with zeros, modulo 2^64. `first`: the
// place of the first word, where these bytes are a part: sums of parts add up to that of the whole.
inline uint64_t checksum_bytes(const void* bytes, size_t count, uint64_t first = 0) {
  const auto* at = static_cast<const char*>(bytes);
  uint64_t sum = 0, word = 0;
  for (size_t i = 0; i < count / 8; ++i) {
    std::memcpy(&word, at + 8 * i, 8);
    sum += checksum_mix(word, first + i);
  }
  if (count % 8 == 0) return sum;
  word = 0;
  std::memcpy(&word, at + count / 8 * 8, count % 8);
  return sum + checksum_mix(word, first + count / 8);
}

}  // namespace tritonforge
