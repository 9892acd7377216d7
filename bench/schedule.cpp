// libs: tf_engine
// The scheduler alone, without a model: how many tokens of a load are computed twice where the KV cache is too small
// for all of it, and what a step's time makes of that. All requests arrive at once and say as many tokens as they may.
//   schedule [tokens of the KV cache] [tokens that the host keeps of those put back]
// The time is a model of one H100 and Qwen3-8B's shape: prompts at 45,100 tokens/s; a step of decodes reads the weights
// (15.1 GB) and keys and values (147 KB a token, shared ones once) at 2.58 TB/s, which its measured steps do
// (docs/performance.md); what leaves for the host or comes back takes 40 GB/s of the bus, and the step waits for it.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "engine/sizing.h"

using namespace tritonforge;
using namespace tritonforge::engine;

namespace {

struct Load {
  const char* name;
  int64_t prompts, samples, prompt, least, most;  // new tokens: between the two
};

// `read_in`: by block, the last step that read it.
double step_seconds(const Plan& plan, int64_t step, std::vector<int64_t>& read_in) {
  constexpr double kPromptRate = 45100, kBandwidth = 2.58e12, kWeights = 15.1e9, kBlock = 147456 * kBlockSize,
                   kBus = 40e9;
  double prompt_tokens = 0, blocks = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (!chunk.decodes()) prompt_tokens += static_cast<double>(chunk.count);
    else
      for (const int32_t block : chunk.sequence->blocks)
        blocks += std::exchange(read_in[static_cast<size_t>(block)], step) != step;
  }
  return prompt_tokens / kPromptRate + (prompt_tokens > 0 ? 0 : kWeights / kBandwidth) + blocks * kBlock / kBandwidth +
         static_cast<double>(plan.moves.size()) * kBlock / kBus;
}

void run(const Load& load, int64_t cache_tokens, int64_t host_tokens) {
  BlockPool pool(cache_tokens / kBlockSize + 1, kBlockSize, /*reuse_prefixes=*/true, host_tokens / kBlockSize);
  Scheduler scheduler({.max_running = 256, .max_step_tokens = 8192}, pool);
  Rng rng(7);
  std::deque<Sequence> sequences;
  std::vector<int64_t> read_in(static_cast<size_t>(cache_tokens / kBlockSize + 1), -1);
  int64_t new_tokens = 0, left = load.prompts * load.samples;
  for (int64_t i = 0; i < left; ++i) {
    Sequence& sequence = sequences.emplace_back();
    for (int64_t t = 0; t < load.prompt; ++t) sequence.tokens.push_back(i / load.samples * load.prompt + t);
    sequence.prompt_tokens = load.prompt;
    const auto more = static_cast<int64_t>(rng.below(static_cast<uint64_t>(load.most - load.least + 1)));
    sequence.max_length = load.prompt + load.least + more;
    new_tokens += load.least + more;
    scheduler.add(&sequence);
  }
  int64_t steps = 0, computed = 0, preempted = 0, moved = 0, token = int64_t{1} << 40;
  double seconds = 0;
  for (; left > 0; ++steps) {
    const Plan& plan = scheduler.schedule();
    seconds += step_seconds(plan, steps, read_in);
    computed += plan.tokens;
    preempted += plan.preempted;
    moved += std::ssize(plan.moves);
    scheduler.commit(plan);
    for (const Chunk& chunk : plan.chunks) {
      if (!chunk.samples) continue;
      chunk.sequence->tokens.push_back(token++);
      if (chunk.sequence->length() < chunk.sequence->max_length) continue;
      scheduler.remove(chunk.sequence);
      --left;
    }
  }
  // Of a prompt all whole blocks but the last may be shared. A last token is never computed.
  const int64_t all = load.prompts * load.samples, shared = (load.prompt - 1) / kBlockSize * kBlockSize;
  const int64_t needed = load.prompts * shared + all * (load.prompt - shared - 1) + new_tokens;
  fmt::print("{}: {} steps, {} put back, {} tokens computed again, {} moved; by the model {:.1f} s, {:.0f} tokens/s\n",
             load.name, steps, preempted, computed - needed, moved * kBlockSize, seconds,
             static_cast<double>(new_tokens) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t cache_tokens = argc > 1 ? std::stoll(argv[1]) : 410000;
  const int64_t host_tokens = argc > 2 ? std::stoll(argv[2]) : 0;
  fmt::print("a KV cache of {} tokens, {} kept on the host\n", cache_tokens, host_tokens);
  run({"W1, 256 x (1024 + 1024)", 256, 1, 1024, 1024, 1024}, cache_tokens, host_tokens);
  run({"W4, 32 * 8 x (2048 + 256 to 4096)", 32, 8, 2048, 256, 4096}, cache_tokens, host_tokens);
}
