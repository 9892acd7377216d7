#include "engine/block_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::engine {

BlockPool::BlockPool(int64_t num_blocks, int64_t block_size, bool reuse_prefixes)
    : block_size_(block_size), reuse_prefixes_(reuse_prefixes), blocks_(static_cast<size_t>(num_blocks)) {
  TF_CHECK(num_blocks >= 2 && block_size >= 1, "a pool of {} blocks of {}", num_blocks, block_size);
  free_.reserve(blocks_.size());
  for (auto block = static_cast<int32_t>(num_blocks) - 1; block >= 1; --block) free_.push_back(block);
}

int32_t BlockPool::allocate() {
  int32_t block;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    TF_CHECK(!idle_.empty(), "no block is available");
    block = idle_.front();
    idle_.pop_front();
    withdraw(block);
  }
  blocks_[block].references = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  Block& entry = blocks_[block];
  if (entry.references++ == 0) {
    TF_CHECK(entry.is_published, "block {} is free", block);
    idle_.erase(entry.idle_at);
  }
}

void BlockPool::release(int32_t block) {
  Block& entry = blocks_[block];
  TF_CHECK(entry.references > 0, "block {} released once too often", block);
  if (--entry.references > 0) return;
  if (entry.is_published) {
    entry.idle_at = idle_.insert(idle_.end(), block);
  } else {
    free_.push_back(block);
  }
}

uint64_t BlockPool::key_of(uint64_t parent, std::span<const int64_t> tokens) {
  uint64_t key = Rng::mix(parent + 0x9E3779B97F4A7C15ull);
  for (const int64_t token : tokens) key = Rng::mix(key ^ (static_cast<uint64_t>(token) + 0x632BE59BD9B4E019ull));
  return key;
}

int32_t BlockPool::find(uint64_t parent, std::span<const int64_t> tokens, uint64_t key) const {
  const auto found = published_.find(key);
  if (found == published_.end()) return -1;
  const Block& entry = blocks_[found->second];
  return entry.parent == parent && std::ranges::equal(entry.tokens, tokens) ? found->second : -1;
}

BlockPool::Prefix BlockPool::match(std::span<const int64_t> tokens, int64_t max_blocks) {
  Prefix prefix{{}, root_};
  if (!reuse_prefixes_) return prefix;
  max_blocks = std::min<int64_t>(max_blocks, static_cast<int64_t>(tokens.size()) / block_size_);
  for (int64_t i = 0; i < max_blocks; ++i) {
    const auto part = tokens.subspan(i * block_size_, block_size_);
    const int32_t block = find(prefix.tip, part, key_of(prefix.tip, part));
    if (block < 0) break;
    retain(block);
    prefix.blocks.push_back(block);
    prefix.tip = blocks_[block].serial;
  }
  return prefix;
}

uint64_t BlockPool::publish(uint64_t parent, std::span<const int64_t> tokens, int32_t block) {
  if (!reuse_prefixes_) return parent;
  const uint64_t key = key_of(parent, tokens);
  if (const int32_t known = find(parent, tokens, key); known >= 0) return blocks_[known].serial;
  Block& entry = blocks_[block];
  TF_CHECK(entry.references > 0 && !entry.is_published, "block {} cannot be published", block);
  const uint64_t serial = next_serial_++;
  // A different block under the same 64-bit key: this one stays private, and so does what follows it.
  if (!published_.try_emplace(key, block).second) return serial;
  entry.is_published = true;
  entry.key = key;
  entry.parent = parent;
  entry.serial = serial;
  entry.tokens.assign(tokens.begin(), tokens.end());
  return serial;
}

void BlockPool::withdraw(int32_t block) {
  Block& entry = blocks_[block];
  published_.erase(entry.key);
  entry.is_published = false;
}

void BlockPool::invalidate_prefixes() {
  for (const int32_t block : idle_) free_.push_back(block);
  idle_.clear();
  for (const auto& [key, block] : published_) blocks_[block].is_published = false;
  published_.clear();
  root_ = next_serial_++;
}

void BlockPool::check() const {
  std::vector<bool> seen(blocks_.size());
  const auto once = [&](int32_t block) {
    TF_CHECK(block > 0 && !seen[block] && blocks_[block].references == 0, "block {} is listed twice or in use", block);
    seen[block] = true;
  };
  for (const int32_t block : free_) {
    once(block);
    TF_CHECK(!blocks_[block].is_published, "block {} is free and published", block);
  }
  for (const int32_t block : idle_) {
    once(block);
    TF_CHECK(blocks_[block].is_published, "block {} is idle and not published", block);
  }
  for (size_t i = 1; i < blocks_.size(); ++i) {
    TF_CHECK(seen[i] == (blocks_[i].references == 0), "block {} leaked", i);
  }
  for (const auto& [key, block] : published_) {
    TF_CHECK(blocks_[block].is_published && blocks_[block].key == key, "block {} is published under another key",
             block);
  }
}

}  // namespace tritonforge::engine
