#pragma once
// Counter-based random numbers: the stream is a function of (seed, stream name or index), never of history elsewhere.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tritonforge {

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit mix per draw.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    return mix(state_);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64); }
  // Fisher-Yates from the back: one draw for each item but the first.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // An independent stream for each (seed, index) and (seed, name).
  static uint64_t derive(uint64_t seed, uint64_t index) {
    return mix(mix(seed + 0x9E3779B97F4A7C15ull) ^ (index * 0xD1B54A32D192ED03ull + 1));
  }
  static uint64_t derive(uint64_t seed, std::string_view name) {
    uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a
    for (unsigned char c : name) hash = (hash ^ c) * 0x100000001B3ull;
    return derive(seed, hash);
  }

 private:
  uint64_t state_;
};

}  // namespace tritonforge
