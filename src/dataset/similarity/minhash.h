#pragma once
// Near-duplicates: MinHash signatures, and an index of them by bands (locality-sensitive hashing).
//
// A text is the set of its shingles, kShingle tokens of its normal form in a row. A signature has kHashes values, made
// by one permutation whose range is cut into kHashes parts (one-permutation hashing, Li, Owen, Zhang 2012; empty parts
// take the value of the next one that is not, Shrivastava and Li 2014): one hash a shingle. The share of values that
// two signatures have in common estimates the Jaccard similarity of their sets, with a deviation of at most
// sqrt(J (1 - J) / kHashes) = 0.035 at 0.8 for texts of many more shingles than kHashes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace tritonforge::dataset {

inline constexpr size_t kShingle = 5, kHashes = 128, kBands = 32, kBandRows = kHashes / kBands;

using Signature = std::array<uint16_t, kHashes>;

Signature signature_of(std::span<const uint64_t> form);  // normal_form() of a text
double similarity(const Signature& a, const Signature& b);

// An entry that shares a band with the signature asked for is found: at similarity s with probability
// 1 - (1 - s^4)^32, which is 0.9996 at 0.68 and more above. Of a band that many share the first kMostOfABand entries
// are kept. 0.75 to 1.25 KiB an entry.
class NearIndex {
 public:
  struct Match {
    uint32_t entry;
    double similarity;
  };
  // The most similar entry at or above `threshold`, of equals the first.
  std::optional<Match> find(const Signature& signature, double threshold) const;
  uint32_t add(const Signature& signature);

 private:
  struct Slot {
    uint32_t tag = 0, entry = kFree;
  };
  static constexpr uint32_t kFree = ~0u;
  static constexpr size_t kMostOfABand = 256;
  static uint64_t band_of(const Signature& signature, size_t band);
  void insert(size_t band, uint32_t entry);
  void grow();

  std::deque<Signature> entries_;                 // a vector would copy them all when it grows
  std::array<std::vector<Slot>, kBands> tables_;  // open addressing, a quarter to half full
};

}  // namespace tritonforge::dataset
