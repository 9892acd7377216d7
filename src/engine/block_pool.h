#pragma once
// Who owns which block of the KV cache, and which full blocks can be used again. Bookkeeping only: no tensors.
//
// A block holds the keys and values of `block_size` consecutive tokens. Blocks are reference counted. A full block can
// be published under (what precedes it, its tokens); a later sequence with the same beginning finds and shares it.
// "What precedes it" is the serial of the published block before it, or the root of the present weights: an update
// of the weights changes the root, so nothing computed by old weights is ever found again. Tokens are compared, not
// only hashed. Block 0 is never handed out: padded rows of a batch write there.
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace tritonforge::engine {

class BlockPool {
 public:
  BlockPool(int64_t num_blocks, int64_t block_size, bool reuse_prefixes);
  int64_t block_size() const { return block_size_; }
  int64_t capacity() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t available() const { return static_cast<int64_t>(free_.size() + idle_.size()); }
  int64_t cached() const { return static_cast<int64_t>(published_.size()); }

  // A block with one reference. Takes a free one, else forgets the published block that was idle for longest.
  // The caller has seen available() > 0.
  int32_t allocate();
  void retain(int32_t block);
  void release(int32_t block);  // a sequence releases its last block first, so that prefixes live longest

  // The longest published prefix of `tokens`, in whole blocks, at most max_blocks; each with a reference taken.
  struct Prefix {
    std::vector<int32_t> blocks;
    uint64_t tip;  // serial to publish the next block after
  };
  Prefix match(std::span<const int64_t> tokens, int64_t max_blocks);
  uint64_t root() const { return root_; }
  // Makes a full block findable; returns the serial for its successor. Where an equal one is there already, that one
  // stays the findable one.
  uint64_t publish(uint64_t parent, std::span<const int64_t> tokens, int32_t block);
  // Nothing published so far is found again (new weights, or a cache flush).
  void invalidate_prefixes();

  // Throws where a count does not add up; for tests.
  void check() const;

 private:
  struct Block {
    int32_t references = 0;
    bool is_published = false;
    uint64_t key = 0, parent = 0, serial = 0;
    std::vector<int64_t> tokens;             // of a published block
    std::list<int32_t>::iterator idle_at{};  // valid while published and unreferenced
  };
  static uint64_t key_of(uint64_t parent, std::span<const int64_t> tokens);
  int32_t find(uint64_t parent, std::span<const int64_t> tokens, uint64_t key) const;  // -1: none
  void withdraw(int32_t block);

  int64_t block_size_;
  bool reuse_prefixes_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;
  std::list<int32_t> idle_;  // published, unreferenced, oldest first
  std::unordered_map<uint64_t, int32_t> published_;
  uint64_t next_serial_ = 1, root_ = 0;
};

}  // namespace tritonforge::engine
