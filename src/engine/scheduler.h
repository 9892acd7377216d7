#pragma once
// Decides what the next step computes: continuous batching with chunked prefill. No tensors.
//
// Order is arrival order throughout. Every running sequence that decodes gets one token; what is left of the budget
// goes to prompts, in chunks, oldest first; then waiting sequences are admitted from the front of the queue, as long as
// blocks are left for what the running ones grow by. Where blocks run out, the newest sequence is preempted: its blocks
// go, to the host where it has places for them, and what of it is found nowhere later is computed again. Rows that are
// left then may verify drafts of what decoding sequences say next. The oldest sequence can take every block and any one
// sequence fits the pool, so every step advances.
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "engine/block_pool.h"

namespace tritonforge::engine {

struct LiveSample;

struct Sequence {
  std::vector<int64_t> tokens;  // prompt, then what was sampled
  int64_t prompt_tokens = 0;
  LiveSample* sample = nullptr;  // what it is the sequence of; the scheduler only carries it
  // A length at which it ends for certain. Nothing is planned beyond it.
  int64_t max_length = std::numeric_limits<int64_t>::max();
  // Tokens that were drawn and not yet read from the device (steps that run ahead); the newest of them is row
  // `pending_row` of the latest step's draws. The engine keeps both.
  int64_t pending = 0, pending_row = 0;
  int64_t length() const { return static_cast<int64_t>(tokens.size()) + pending; }
  // Leading tokens that may come from the prefix cache: beyond them the hidden states are asked for.
  int64_t reusable = std::numeric_limits<int64_t>::max();
  bool may_draft = true;  // false: its logits are edited or asked for, one draw after the other
  // What may come after them, where this step's plan takes drafts in.
  std::vector<int64_t> drafts;
  int64_t token_at(int64_t position) const {  // 0 where it is pending
    const auto at = static_cast<size_t>(position);
    if (at < tokens.size()) return tokens[at];
    return at - tokens.size() < drafts.size() ? drafts[at - tokens.size()] : 0;
  }

  // The scheduler's own.
  uint64_t arrival = 0;
  int64_t computed = 0;  // tokens whose keys and values are in the cache
  std::vector<int32_t> blocks;
  uint64_t prefix_tip = 0;
  int64_t published = 0;       // leading blocks that are published or shared
  bool can_publish = true;     // false once prefixes were forgotten since its cache was begun
  bool mixes_weights = false;  // its cache holds keys and values of older weights
  int64_t cached_tokens = -1;  // found in the prefix cache at first admission
  int64_t preemptions = 0;
  bool started() const { return cached_tokens >= 0; }
};

struct SchedulerOptions {
  int64_t max_running = 256;       // sequences in one step
  int64_t max_step_tokens = 1024;  // tokens in one step; at least max_running
  int64_t draft_tokens = 0;        // drafts in a step for one sequence; above 0 no token is pending at schedule()
};

// A chunk of one sequence: tokens [start, start + count), the last `drafts` of them drafts. `samples`: it reaches the
// end, so a token is drawn after its last own token and after each draft.
struct Chunk {
  Sequence* sequence;
  int64_t start, count;
  bool samples;
  int64_t drafts = 0;
  int64_t draws() const { return samples ? 1 + drafts : 0; }
  bool decodes() const { return count - drafts == 1; }
};
struct Plan {
  std::vector<Chunk> chunks;
  std::vector<BlockMove> moves;                    // due before anything is written into the cache
  int64_t tokens = 0, samples = 0, preempted = 0;  // samples: draws
};

class Scheduler {
 public:
  Scheduler(SchedulerOptions options, BlockPool& pool);
  // The pool must be able to hold the longest the sequence may become (the engine bounds the context by it).
  void add(Sequence* sequence);
  // Finished or aborted: releases its blocks.
  void remove(Sequence* sequence);
  // The same object every time, valid until the next call. Empty only where there is no sequence, or none can go on
  // before a pending token is read.
  const Plan& schedule();
  // The planned tokens are now in the cache. Drafts count once they are confirmed, in their order.
  void commit(const Plan& plan);
  void confirm_draft(Sequence* sequence) { ++sequence->computed; }
  // What is cached is not found again; running sequences keep their caches and publish no more.
  void forget_prefixes();
  // New weights: the same, and what running sequences have cached is of older ones.
  void weights_changed();
  // From drain() to undrain() no sequence is begun; drained() once none is under way.
  void drain() { draining_ = true; }
  void undrain() { draining_ = false; }
  bool draining() const { return draining_; }
  bool drained() const { return running_.empty() && (waiting_.empty() || !waiting_.front()->started()); }
  // All running ones give back their blocks and wait, in their order; they are computed again when they are admitted.
  void preempt_all();
  // Sequences in one step from now on; at least 1, at most what it was made for. Those that run already stay.
  void limit_running(int64_t sequences);
  const Sequence* oldest() const { return running_.empty() ? nullptr : running_.front(); }

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  // Nothing is there that a step could go on with.
  bool idle() const { return draining_ ? drained() : running_.empty() && waiting_.empty(); }

 private:
  // It only waits for a token that ends it.
  static bool complete(const Sequence* s) { return s->pending > 0 && s->length() >= s->max_length; }
  void schedule_running(int64_t& prompt_budget);
  void admit_waiting(int64_t& prompt_budget);
  void add_drafts();
  // Blocks for tokens [0, end), preempting sequences newer than position `index` of running_; false if that is not
  // enough.
  bool reserve(size_t index, int64_t end);
  void preempt_newest();
  void plan_chunk(Sequence* sequence, int64_t count);
  void release_blocks(Sequence* sequence, bool awaited = false);
  int64_t blocks_for(int64_t tokens) const { return (tokens + pool_.block_size() - 1) / pool_.block_size(); }

  const SchedulerOptions options_;
  BlockPool& pool_;
  int64_t max_running_;
  bool draining_ = false;
  std::vector<Sequence*> running_;  // arrival order; all older than any in waiting_
  std::deque<Sequence*> waiting_;   // arrival order
  Plan plan_;
  uint64_t next_arrival_ = 1;
};

}  // namespace tritonforge::engine
