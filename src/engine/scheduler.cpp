#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "engine/drafts.h"

namespace tritonforge::engine {
namespace {

// Blocks that each running sequence has to grow by before another one is begun: what is begun with less room is the
// newest, so it is soon put back and computed again (bench/schedule).
constexpr int64_t kRoomToGrow = 2;

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, BlockPool& pool)
    : options_(options), pool_(pool), max_running_(options.max_running) {
  TF_CHECK(options.max_running >= 1 && options.max_step_tokens >= options.max_running, "{} sequences in {} tokens",
           options.max_running, options.max_step_tokens);
}

void Scheduler::add(Sequence* sequence) {
  TF_CHECK(!sequence->tokens.empty(), "a sequence without tokens");
  sequence->arrival = next_arrival_++;
  waiting_.push_back(sequence);
}

void Scheduler::remove(Sequence* sequence) {
  release_blocks(sequence);
  std::erase(running_, sequence);
  std::erase(waiting_, sequence);
}

const Plan& Scheduler::schedule() {
  plan_.chunks.clear();
  plan_.tokens = plan_.samples = plan_.preempted = 0;
  const auto decoding = std::ranges::count_if(
      running_, [](const Sequence* s) { return s->length() - s->computed == 1 && !complete(s); });
  int64_t prompt_budget = options_.max_step_tokens - decoding;
  schedule_running(prompt_budget);
  if (plan_.preempted == 0) admit_waiting(prompt_budget);
  if (options_.draft_tokens > 0) add_drafts();
  const auto awaits = [](const Sequence* s) { return s->pending > 0; };
  TF_CHECK(plan_.tokens > 0 || idle() || std::ranges::any_of(running_, awaits) || std::ranges::any_of(waiting_, awaits),
           "{} running and {} waiting sequences, and nothing to do", running(), waiting());
  return plan_;
}

void Scheduler::schedule_running(int64_t& prompt_budget) {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i];
    if (complete(sequence)) continue;
    const int64_t missing = sequence->length() - sequence->computed;
    int64_t count = missing == 1 ? 1 : std::min(missing, prompt_budget);
    if (count == 0) continue;
    if (!reserve(i, sequence->computed + count)) {
      // It is the newest by now. What blocks it got may carry a part of its prompt; else it makes room.
      count = std::min(count, static_cast<int64_t>(sequence->blocks.size()) * pool_.block_size() - sequence->computed);
      if (count <= 0) {
        preempt_newest();
        break;
      }
    }
    if (missing > 1) prompt_budget -= count;
    plan_chunk(sequence, count);
  }
}

bool Scheduler::reserve(size_t index, int64_t end) {
  Sequence* sequence = running_[index];
  const auto needed = static_cast<size_t>(blocks_for(end));
  while (sequence->blocks.size() < needed) {
    if (pool_.available() == 0) {
      if (running_.size() == index + 1) {
        TF_CHECK(index > 0, "one sequence of {} tokens does not fit the pool", end);
        return false;
      }
      preempt_newest();
      continue;
    }
    sequence->blocks.push_back(pool_.allocate());
  }
  return true;
}

void Scheduler::preempt_newest() {
  Sequence* victim = running_.back();
  running_.pop_back();
  release_blocks(victim);
  victim->computed = 0;
  ++victim->preemptions;
  ++plan_.preempted;
  waiting_.push_front(victim);
}

void Scheduler::preempt_all() {
  while (!running_.empty()) preempt_newest();
}

void Scheduler::limit_running(int64_t sequences) {
  max_running_ = std::clamp<int64_t>(sequences, 1, options_.max_running);
}

void Scheduler::admit_waiting(int64_t& prompt_budget) {
  while (!waiting_.empty() && prompt_budget > 0 && running() < max_running_) {
    Sequence* sequence = waiting_.front();
    if (draining_ && !sequence->started()) return;  // and all behind it: those under way come first
    if (sequence->pending > 0) return;              // preempted a moment ago: its last token is still to be read
    const auto length = static_cast<int64_t>(sequence->tokens.size());
    // The last token is always computed: its logits are needed.
    const int64_t most = std::min((length - 1) / pool_.block_size(), sequence->reusable / pool_.block_size());
    auto prefix = pool_.match(sequence->tokens, most);
    const auto shared = static_cast<int64_t>(prefix.blocks.size());
    if (pool_.available() < blocks_for(length) - shared + kRoomToGrow * running()) {
      for (auto block = prefix.blocks.rbegin(); block != prefix.blocks.rend(); ++block) pool_.release(*block);
      TF_CHECK(!running_.empty(), "a sequence of {} tokens does not fit the empty pool", length);
      return;
    }
    waiting_.pop_front();
    sequence->blocks = std::move(prefix.blocks);
    sequence->prefix_tip = prefix.tip;
    sequence->published = shared;
    sequence->can_publish = true;
    sequence->mixes_weights = false;
    sequence->computed = shared * pool_.block_size();
    if (sequence->cached_tokens < 0) sequence->cached_tokens = std::min(sequence->computed, sequence->prompt_tokens);
    running_.push_back(sequence);
    const int64_t count = std::min(length - sequence->computed, prompt_budget);
    TF_CHECK(reserve(running_.size() - 1, sequence->computed + count), "blocks counted and not there");
    prompt_budget -= count;
    plan_chunk(sequence, count);
  }
}

// A draft costs a row of this step that no sequence needs, and blocks that no running one is about to need.
void Scheduler::add_drafts() {
  int64_t rows = std::ssize(plan_.chunks);  // one token of a prompt takes one, too, and draws nothing
  for (Chunk& chunk : plan_.chunks) {
    Sequence* sequence = chunk.sequence;
    if (!chunk.samples || !chunk.decodes() || !sequence->may_draft) continue;
    // The last token that is drawn is the one at which it ends for certain.
    const int64_t most = std::min({options_.draft_tokens, max_running_ - rows, options_.max_step_tokens - plan_.tokens,
                                   sequence->max_length - sequence->length() - 1});
    look_up_drafts(sequence->tokens, most, sequence->drafts);
    const auto wanted = static_cast<size_t>(blocks_for(sequence->length() + std::ssize(sequence->drafts)));
    while (sequence->blocks.size() < wanted && pool_.available() > running())
      sequence->blocks.push_back(pool_.allocate());
    const int64_t room = std::ssize(sequence->blocks) * pool_.block_size() - sequence->length();
    if (std::ssize(sequence->drafts) > room) sequence->drafts.resize(static_cast<size_t>(room));
    chunk.drafts = std::ssize(sequence->drafts);
    chunk.count += chunk.drafts;
    plan_.tokens += chunk.drafts;
    plan_.samples += chunk.drafts;
    rows += chunk.drafts;
  }
}

// Publishing before the step has run is sound: in every layer a step writes all keys and values before any of its
// sequences reads, so one that is planned later in the same step may share them already.
void Scheduler::plan_chunk(Sequence* sequence, int64_t count) {
  const int64_t start = sequence->computed, end = start + count;
  sequence->drafts.clear();
  const bool samples = end == sequence->length();
  plan_.chunks.push_back({sequence, start, count, samples});
  plan_.tokens += count;
  plan_.samples += samples;
  if (!sequence->can_publish) return;
  // A block that ends in a pending token is published once that is read.
  const int64_t size = pool_.block_size(), full = std::min<int64_t>(end, std::ssize(sequence->tokens)) / size;
  for (; sequence->published < full; ++sequence->published) {
    const auto tokens = std::span(sequence->tokens).subspan(sequence->published * size, size);
    sequence->prefix_tip = pool_.publish(sequence->prefix_tip, tokens, sequence->blocks[sequence->published]);
  }
}

void Scheduler::commit(const Plan& plan) {
  for (const Chunk& chunk : plan.chunks) chunk.sequence->computed = chunk.start + chunk.count - chunk.drafts;
}

void Scheduler::forget_prefixes() {
  pool_.invalidate_prefixes();
  for (Sequence* sequence : running_) sequence->can_publish = false;
}

void Scheduler::weights_changed() {
  forget_prefixes();
  for (Sequence* sequence : running_) sequence->mixes_weights = true;
}

void Scheduler::release_blocks(Sequence* sequence) {
  for (auto block = sequence->blocks.rbegin(); block != sequence->blocks.rend(); ++block) pool_.release(*block);
  sequence->blocks.clear();
}

}  // namespace tritonforge::engine
