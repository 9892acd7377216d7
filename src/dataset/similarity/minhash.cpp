#include "dataset/similarity/minhash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/rng.h"

namespace tritonforge::dataset {

Signature signature_of(std::span<const uint64_t> form) {
  constexpr uint32_t kEmpty = ~0u;
  constexpr int kPartBits = std::countr_zero(kHashes);
  std::array<uint32_t, kHashes> least;
  least.fill(kEmpty);
  const size_t length = std::min(kShingle, std::max<size_t>(1, form.size()));  // a shorter text is one shingle
  for (size_t i = 0; i + length <= form.size(); ++i) {
    uint64_t hash = length;
    for (size_t j = 0; j < length; ++j) hash = std::rotl(hash * 0x9E3779B97F4A7C15ull, 29) ^ form[i + j];
    hash = Rng::mix(hash);
    uint32_t& part = least[hash >> (64 - kPartBits)];
    part = std::min(part, static_cast<uint32_t>(hash));
  }
  Signature out{};
  for (size_t i = 0; i < kHashes; ++i) {
    size_t from = i, steps = 0;
    while (least[from] == kEmpty && steps < kHashes) from = (from + 1) % kHashes, ++steps;
    out[i] = static_cast<uint16_t>(Rng::derive(least[from], steps));
  }
  return out;
}

double similarity(const Signature& a, const Signature& b) {
  size_t same = 0;
  for (size_t i = 0; i < kHashes; ++i) same += a[i] == b[i];
  return static_cast<double>(same) / kHashes;
}

uint64_t NearIndex::band_of(const Signature& signature, size_t band) {
  static_assert(kBandRows == 4 && sizeof(Signature::value_type) == 2);
  uint64_t rows;
  std::memcpy(&rows, signature.data() + band * kBandRows, sizeof rows);
  return Rng::mix(rows);
}

std::optional<NearIndex::Match> NearIndex::find(const Signature& signature, double threshold) const {
  std::optional<Match> best;
  for (size_t band = 0; band < kBands && !entries_.empty(); ++band) {
    const auto& table = tables_[band];
    const uint64_t hash = band_of(signature, band);
    for (size_t at = hash >> 32 & (table.size() - 1); table[at].entry != kFree; at = (at + 1) & (table.size() - 1)) {
      const Slot& slot = table[at];
      if (slot.tag != static_cast<uint32_t>(hash) || (best && slot.entry == best->entry)) continue;
      const double like = similarity(signature, entries_[slot.entry]);
      const bool better = !best || like > best->similarity || (like == best->similarity && slot.entry < best->entry);
      if (like >= threshold && better) best = {slot.entry, like};
    }
  }
  return best;
}

uint32_t NearIndex::add(const Signature& signature) {
  const auto entry = static_cast<uint32_t>(entries_.size());
  entries_.push_back(signature);
  if (entries_.size() * 2 > tables_[0].size()) {
    grow();
    return entry;
  }
  for (size_t band = 0; band < kBands; ++band) insert(band, entry);
  return entry;
}

void NearIndex::insert(size_t band, uint32_t entry) {
  auto& table = tables_[band];
  const uint64_t hash = band_of(entries_[entry], band);
  size_t at = hash >> 32 & (table.size() - 1), steps = 0;
  // A band that hundreds share (boilerplate) would make a run of the table: others of their bands tell them apart.
  while (table[at].entry != kFree) {
    if (table[at].tag == static_cast<uint32_t>(hash) && ++steps >= kMostOfABand) return;
    at = (at + 1) & (table.size() - 1);
  }
  table[at] = {static_cast<uint32_t>(hash), entry};
}

void NearIndex::grow() {
  const size_t size = std::bit_ceil(std::max<size_t>(64, entries_.size() * 3));
  for (size_t band = 0; band < kBands; ++band) {
    tables_[band].assign(size, Slot{});
    for (uint32_t entry = 0; entry < entries_.size(); ++entry) insert(band, entry);
  }
}

}  // namespace tritonforge::dataset
