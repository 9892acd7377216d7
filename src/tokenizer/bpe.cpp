#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>

namespace tritonforge::tokenizer {
namespace {

constexpr uint32_t kNone = ~0u;
constexpr uint64_t kNoPair = ~0ull;

uint64_t pair_of(uint32_t left, uint32_t right) { return static_cast<uint64_t>(left) << 32 | right; }
uint64_t scramble(uint64_t x) { return x * 0x9E3779B97F4A7C15ull; }

uint64_t load(const char* at, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, at, size);
  return value;
}

// At most 32 bytes; reads only the word's own bytes.
uint64_t hash_word(std::string_view word) {
  const char* at = word.data();
  const size_t size = word.size();
  uint64_t a, b = 0;
  if (size >= 8) {
    a = load(at, 8);
    b = load(at + size - 8, 8);
    if (size > 16) {
      a ^= scramble(load(at + 8, 8));
      b ^= scramble(load(at + size - 16, 8));
    }
  } else if (size >= 4) {
    a = load(at, 4) << 32 | load(at + size - 4, 4);
  } else {
    a = static_cast<uint64_t>(static_cast<uint8_t>(at[0])) << 16 |
        static_cast<uint64_t>(static_cast<uint8_t>(at[size / 2])) << 8 | static_cast<uint8_t>(at[size - 1]);
  }
  const auto product = static_cast<unsigned __int128>(a ^ 0xA0761D6478BD642Full) * (b ^ 0xE7037ED1A0B428DBull ^ size);
  return scramble(static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64));
}

}  // namespace

BpeModel::BpeModel(const std::array<uint32_t, 256>& byte_ids, const std::vector<BpeMerge>& merges)
    : byte_ids_(byte_ids) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(16, merges.size() * 2));
  slots_.assign(capacity, Slot{kNoPair, {kNone, kNone}});
  shift_ = 64 - std::countr_zero(capacity);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    size_t at = scramble(pair) >> shift_;
    while (slots_[at].pair != kNoPair && slots_[at].pair != pair) at = (at + 1) & (capacity - 1);
    slots_[at] = {pair, {static_cast<uint32_t>(rank), merges[rank].result}};
  }
}

BpeModel::Merged BpeModel::lookup(uint32_t left, uint32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t at = scramble(pair) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair) return slots_[at].merged;
    if (slots_[at].pair == kNoPair) return {kNone, kNone};
  }
}

size_t BpeModel::merge_short(std::string_view word, uint32_t* ids) const {
  Merged pairs[kShort];
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) ids[i] = byte_ids_[static_cast<uint8_t>(word[i])];
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = lookup(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNone) break;
    ids[best] = pairs[best].id;
    --count;
    for (size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
    for (size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = lookup(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = lookup(ids[best], ids[best + 1]);
  }
  return count;
}

void BpeModel::merge_long(std::string_view word, std::vector<int64_t>& out) const {
  struct Symbol {
    uint32_t id;
    int64_t previous, next;  // -1 = none; a symbol that was merged into its left one has id kNone
  };
  struct Candidate {
    uint32_t rank, id;
    int64_t at;
    uint64_t pair;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const auto size = static_cast<int64_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  for (int64_t i = 0; i < size; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < size ? i + 1 : -1};
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int64_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    const uint32_t left = symbols[at].id, right = symbols[symbols[at].next].id;
    const Merged merged = lookup(left, right);
    if (merged.rank != kNone) queue.push({merged.rank, merged.id, at, pair_of(left, right)});
  };
  for (int64_t i = 0; i < size; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.at];
    if (left.id == kNone || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    if (pair_of(left.id, right.id) != top.pair) continue;  // an older offer: one of the two has changed since
    left.id = top.id;
    right.id = kNone;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = top.at;
    offer(left.previous);
    offer(top.at);
  }
  for (int64_t i = 0; i >= 0; i = symbols[i].next) out.push_back(symbols[i].id);
}

void BpeModel::encode_word(std::string_view word, WordCache& cache, std::vector<int64_t>& out) const {
  if (word.size() == 1) {
    out.push_back(byte_ids_[static_cast<uint8_t>(word[0])]);
    return;
  }
  if (word.size() > kShort) return merge_long(word, out);
  uint32_t ids[kShort];
  if (word.size() > WordCache::kLongestWord) {
    const size_t count = merge_short(word, ids);
    out.insert(out.end(), ids, ids + count);
    return;
  }
  WordCache::Slot& slot = cache.slots_[hash_word(word) & (WordCache::kSlots - 1)];
  if (slot.length != word.size() || std::memcmp(slot.word, word.data(), word.size()) != 0) {
    const size_t count = merge_short(word, ids);
    if (count > WordCache::kMostTokens) {
      out.insert(out.end(), ids, ids + count);
      return;
    }
    slot.length = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(count);
    std::memcpy(slot.word, word.data(), word.size());
    std::copy_n(ids, count, slot.ids);
  }
  out.insert(out.end(), slot.ids, slot.ids + slot.count);
}

}  // namespace tritonforge::tokenizer
