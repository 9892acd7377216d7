#pragma once
// Who owns which block of the KV cache, and which full blocks can be used again. Bookkeeping only: no tensors.
//
// A block holds the keys and values of `block_size` consecutive tokens. Blocks are reference counted. A full block can
// be published under (what precedes it, its tokens); a later sequence with the same beginning finds and shares it.
// "What precedes it" is the serial of the published block before it, or the root of the present weights: an update
// of the weights changes the root, so nothing computed by old weights is ever found again. Tokens are compared, not
// only hashed. Block 0 is never handed out: padded rows of a batch write there.
//
// Where the host's memory has places for blocks, too, a published block that somebody will come back for is copied
// there before it is handed out as another, and is found there as if it had stayed. What has to be copied is asked for
// with take_moves(), and has to be done before anything is written into a block that was handed out.
#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tritonforge::engine {

// One copy of a block's keys and values: to a place of the host's, or from there.
struct BlockMove {
  int32_t block, place;
  bool to_host;
};

class BlockPool {
 public:
  BlockPool(int64_t num_blocks, int64_t block_size, bool reuse_prefixes, int64_t host_places = 0);
  int64_t block_size() const { return block_size_; }
  int64_t capacity() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t available() const { return static_cast<int64_t>(free_.size() + idle_.size() + awaited_.size()); }
  int64_t cached() const { return static_cast<int64_t>(published_.size()); }
  int64_t on_host() const { return static_cast<int64_t>(away_.size()); }

  // A block with one reference. Takes a free one, else forgets the published block that was idle for longest, else
  // the one that is awaited for longest, which goes to the host. The caller has seen available() > 0.
  int32_t allocate();
  void retain(int32_t block);
  // A sequence releases its last block first, so that prefixes live longest. awaited: it will ask for it again.
  void release(int32_t block, bool awaited = false);

  // The longest published prefix of `tokens`, in whole blocks, at most max_blocks; each that is in the pool with a
  // reference taken. To be given to bring_back() or let_go().
  struct Prefix {
    std::vector<int32_t> blocks;  // -1 - place where it is on the host
    int64_t away = 0;             // those
    uint64_t tip = 0;             // serial to publish the next block after
  };
  Prefix match(std::span<const int64_t> tokens, int64_t max_blocks);
  void let_go(const Prefix& prefix);
  // The prefix's blocks, each with a reference: what is on the host comes back. The caller has seen available() >=
  // prefix.away.
  std::vector<int32_t> bring_back(const Prefix& prefix);
  // The copies that became due since the last call, in the order in which they have to be done.
  std::vector<BlockMove> take_moves() { return std::exchange(moves_, {}); }
  uint64_t root() const { return root_; }
  // Makes a full block findable; returns the serial for its successor. Where an equal one is there already, that one
  // stays the findable one.
  uint64_t publish(uint64_t parent, std::span<const int64_t> tokens, int32_t block);
  // Nothing published so far is found again (new weights, or a cache flush).
  void invalidate_prefixes();

  // Throws where a count does not add up; for tests.
  void check() const;

 private:
  struct Published {  // under what a block is found
    uint64_t key = 0, parent = 0, serial = 0;
    std::vector<int64_t> tokens;
    bool is(uint64_t before, std::span<const int64_t> own) const {
      return parent == before && std::ranges::equal(tokens, own);
    }
  };
  struct Block {
    int32_t references = 0;
    bool is_published = false, is_awaited = false;
    Published as;                            // of a published block
    std::list<int32_t>::iterator idle_at{};  // valid while published and unreferenced
  };
  struct Place {
    Published as;
    std::list<int32_t>::iterator away_at{};  // valid while it holds a block
  };
  static uint64_t key_of(uint64_t parent, std::span<const int64_t> tokens);
  // Of a block of the pool, or -1 - place; nothing where there is none.
  std::optional<int32_t> find(uint64_t parent, std::span<const int64_t> tokens, uint64_t key) const;
  const Published& published_at(int32_t at) const { return at < 0 ? places_[-1 - at].as : blocks_[at].as; }
  std::list<int32_t>& idle_list(const Block& block) { return block.is_awaited ? awaited_ : idle_; }
  void withdraw(int32_t block);
  void send_away(int32_t block);
  void check_places() const;

  int64_t block_size_;
  bool reuse_prefixes_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;
  std::list<int32_t> idle_, awaited_;  // published, unreferenced, oldest first
  std::vector<Place> places_;
  std::vector<int32_t> free_places_;
  std::list<int32_t> away_;                          // places that hold a block, oldest first
  std::unordered_map<uint64_t, int32_t> published_;  // key -> block, or -1 - place
  std::vector<BlockMove> moves_;
  uint64_t next_serial_ = 1, root_ = 0;
};

}  // namespace tritonforge::engine
