#include "engine/block_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::engine {

BlockPool::BlockPool(int64_t num_blocks, int64_t block_size, bool reuse_prefixes, int64_t host_places)
    : block_size_(block_size),
      reuse_prefixes_(reuse_prefixes),
      blocks_(static_cast<size_t>(num_blocks)),
      places_(static_cast<size_t>(host_places)) {
  TF_CHECK(num_blocks >= 2 && block_size >= 1, "a pool of {} blocks of {}", num_blocks, block_size);
  free_.reserve(blocks_.size());
  for (auto block = static_cast<int32_t>(num_blocks) - 1; block >= 1; --block) free_.push_back(block);
  for (auto place = static_cast<int32_t>(host_places) - 1; place >= 0; --place) free_places_.push_back(place);
}

int32_t BlockPool::allocate() {
  int32_t block;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    std::list<int32_t>& oldest = idle_.empty() ? awaited_ : idle_;
    TF_CHECK(!oldest.empty(), "no block is available");
    block = oldest.front();
    oldest.pop_front();
    const bool has_place = !free_places_.empty() || !away_.empty();
    if (blocks_[block].is_awaited && has_place) send_away(block);
    else withdraw(block);
  }
  blocks_[block].references = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  Block& entry = blocks_[block];
  if (entry.references++ == 0) {
    TF_CHECK(entry.is_published, "block {} is free", block);
    idle_list(entry).erase(entry.idle_at);
    entry.is_awaited = false;
  }
}

void BlockPool::release(int32_t block, bool awaited) {
  Block& entry = blocks_[block];
  TF_CHECK(entry.references > 0, "block {} released once too often", block);
  if (--entry.references > 0) return;
  if (entry.is_published) {
    entry.is_awaited = awaited;
    std::list<int32_t>& list = idle_list(entry);
    entry.idle_at = list.insert(list.end(), block);
  } else {
    free_.push_back(block);
  }
}

// Where no place is free, the block that is away for longest is forgotten: the last one of its sequence, or of one
// that never came back.
void BlockPool::send_away(int32_t block) {
  if (free_places_.empty()) {
    const int32_t oldest = away_.front();
    away_.pop_front();
    published_.erase(places_[oldest].as.key);
    free_places_.push_back(oldest);
  }
  const int32_t place = free_places_.back();
  free_places_.pop_back();
  Block& entry = blocks_[block];
  entry.is_published = entry.is_awaited = false;
  places_[place].as = std::move(entry.as);
  places_[place].away_at = away_.insert(away_.end(), place);
  published_[places_[place].as.key] = -1 - place;
  moves_.push_back({block, place, /*to_host=*/true});
}

uint64_t BlockPool::key_of(uint64_t parent, std::span<const int64_t> tokens) {
  uint64_t key = Rng::mix(parent + 0x9E3779B97F4A7C15ull);
  for (const int64_t token : tokens) key = Rng::mix(key ^ (static_cast<uint64_t>(token) + 0x632BE59BD9B4E019ull));
  return key;
}

std::optional<int32_t> BlockPool::find(uint64_t parent, std::span<const int64_t> tokens, uint64_t key) const {
  const auto found = published_.find(key);
  if (found == published_.end()) return std::nullopt;
  return published_at(found->second).is(parent, tokens) ? std::optional(found->second) : std::nullopt;
}

BlockPool::Prefix BlockPool::match(std::span<const int64_t> tokens, int64_t max_blocks) {
  Prefix prefix{.blocks = {}, .tip = root_};
  if (!reuse_prefixes_) return prefix;
  max_blocks = std::min<int64_t>(max_blocks, static_cast<int64_t>(tokens.size()) / block_size_);
  for (int64_t i = 0; i < max_blocks; ++i) {
    const auto part = tokens.subspan(i * block_size_, block_size_);
    const std::optional<int32_t> found = find(prefix.tip, part, key_of(prefix.tip, part));
    if (!found) break;
    if (*found >= 0) retain(*found);
    else ++prefix.away;
    prefix.blocks.push_back(*found);
    prefix.tip = published_at(*found).serial;
  }
  return prefix;
}

void BlockPool::let_go(const Prefix& prefix) {
  for (auto block = prefix.blocks.rbegin(); block != prefix.blocks.rend(); ++block) {
    if (*block >= 0) release(*block, /*awaited=*/true);
  }
}

std::vector<int32_t> BlockPool::bring_back(const Prefix& prefix) {
  std::vector<BlockMove> back;
  std::vector<int32_t> blocks = prefix.blocks;
  for (const int32_t at : blocks) {
    if (at < 0) away_.erase(places_[-1 - at].away_at);  // not to be forgotten for what has to leave now
  }
  for (int32_t& at : blocks) {
    if (at >= 0) continue;
    const int32_t place = -1 - at;
    at = allocate();
    Block& entry = blocks_[at];
    entry.is_published = true;
    entry.as = std::move(places_[place].as);
    published_[entry.as.key] = at;
    back.push_back({at, place, /*to_host=*/false});
  }
  for (const BlockMove& move : back) free_places_.push_back(move.place);
  moves_.insert(moves_.end(), back.begin(), back.end());  // behind all that has to leave for them
  return blocks;
}

uint64_t BlockPool::publish(uint64_t parent, std::span<const int64_t> tokens, int32_t block) {
  if (!reuse_prefixes_) return parent;
  const uint64_t key = key_of(parent, tokens);
  if (const auto known = find(parent, tokens, key)) return published_at(*known).serial;
  Block& entry = blocks_[block];
  TF_CHECK(entry.references > 0 && !entry.is_published, "block {} cannot be published", block);
  const uint64_t serial = next_serial_++;
  // A different block under the same 64-bit key: this one stays private, and so does what follows it.
  if (!published_.try_emplace(key, block).second) return serial;
  entry.is_published = true;
  entry.as = {.key = key, .parent = parent, .serial = serial, .tokens = {tokens.begin(), tokens.end()}};
  return serial;
}

void BlockPool::withdraw(int32_t block) {
  Block& entry = blocks_[block];
  published_.erase(entry.as.key);
  entry.is_published = entry.is_awaited = false;
}

void BlockPool::invalidate_prefixes() {
  free_.insert(free_.end(), idle_.begin(), idle_.end());
  free_.insert(free_.end(), awaited_.begin(), awaited_.end());
  idle_.clear();
  awaited_.clear();
  free_places_.insert(free_places_.end(), away_.begin(), away_.end());
  away_.clear();
  for (const auto& [key, at] : published_) {
    if (at >= 0) blocks_[at].is_published = blocks_[at].is_awaited = false;
  }
  published_.clear();
  root_ = next_serial_++;
}

void BlockPool::check() const {
  std::vector<bool> seen(blocks_.size());
  const auto once = [&](int32_t block, bool published, bool awaited) {
    const Block& entry = blocks_[block];
    TF_CHECK(block > 0 && !seen[block] && entry.references == 0, "block {} is listed twice or in use", block);
    seen[block] = true;
    TF_CHECK(entry.is_published == published && entry.is_awaited == awaited, "block {} is in another list", block);
  };
  for (const int32_t block : free_) once(block, false, false);
  for (const int32_t block : idle_) once(block, true, false);
  for (const int32_t block : awaited_) once(block, true, true);
  for (size_t i = 1; i < blocks_.size(); ++i) {
    TF_CHECK(seen[i] == (blocks_[i].references == 0), "block {} leaked", i);
  }
  for (const auto& [key, at] : published_) {
    TF_CHECK((at < 0 || blocks_[at].is_published) && published_at(at).key == key,
             "block {} is published under another key", at);
  }
  check_places();
}

void BlockPool::check_places() const {
  std::vector<bool> seen(places_.size());
  const auto once = [&](int32_t place, bool holds) {
    TF_CHECK(!seen[place], "place {} is listed twice", place);
    seen[place] = true;
    const auto found = published_.find(places_[place].as.key);
    TF_CHECK((found != published_.end() && found->second == -1 - place) == holds, "place {} is in another list", place);
  };
  for (const int32_t place : free_places_) once(place, false);
  for (const int32_t place : away_) once(place, true);
  TF_CHECK(std::ranges::count(seen, true) == std::ssize(places_), "a place leaked");
}

}  // namespace tritonforge::engine
