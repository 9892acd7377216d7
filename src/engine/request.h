#pragma once
// What a client asks for and what it gets. No tensors and no JSON here.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"

namespace tritonforge::engine {

// One sampled token is a function of (seed, position, logits) under these, whatever else is in the batch.
// Order of the cuts: temperature, top_k, top_p over what top_k left, min_p relative to the largest probability.
struct SamplingParams {
  double temperature = 1.0;  // 0 = greedy (its log-probabilities are those at temperature 1)
  double top_p = 1.0;        // (0, 1]: the fewest most likely tokens whose mass reaches top_p
  int64_t top_k = -1;        // -1 = all
  double min_p = 0.0;        // [0, 1]: tokens below min_p * max probability are cut
  // What a token that was generated before loses of its logit (logit_rules.h has the formula).
  double frequency_penalty = 0, presence_penalty = 0, repetition_penalty = 1;
  std::map<int64_t, double> logit_bias;  // added to these tokens' logits, [-100, 100]
  int64_t max_new_tokens = 128;          // 0: the prompt is computed and nothing is sampled
  int64_t min_new_tokens = 0;            // no end and no stop token before
  std::vector<std::string> stop;
  std::vector<int64_t> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;  // in the text; ids always hold everything
  bool no_stop_trim = false;        // keeps the stop string or token in the text
  int64_t n = 1;
  // Sample i of n draws from the stream derive(seed, i) for i > 0. Absent: one of the machine's entropy.
  std::optional<uint64_t> seed;

  template <typename V>
  void describe(V& v) {
    v("temperature", temperature, at_least(0), "0 = greedy");
    v("top_p", top_p, above(0), at_most(1), "mass of the most likely tokens that are kept");
    v("top_k", top_k, at_least(-1), "number of the most likely tokens that are kept; -1 = all");
    v("min_p", min_p, in(0, 1), "tokens below this share of the largest probability are cut");
    v("frequency_penalty", frequency_penalty, in(-2, 2), "taken off a token's logit for each time that it was said");
    v("presence_penalty", presence_penalty, in(-2, 2), "taken off a token's logit once it was said");
    v("repetition_penalty", repetition_penalty, above(0), at_most(2), "scales logits of what was said down; 1 = none");
    v("max_new_tokens", max_new_tokens, at_least(0), "longest answer");
    v("min_new_tokens", min_new_tokens, at_least(0), "tokens before which no end or stop token is drawn");
    v("stop", stop, "a text that ends the answer");
    v("stop_token_ids", stop_token_ids, spelled("stop-token-id"), "a token that ends the answer");
    v("ignore_eos", ignore_eos, "goes on after the model's own end");
    v("skip_special_tokens", skip_special_tokens, "leaves special tokens out of the text");
    v("no_stop_trim", no_stop_trim, "keeps the stop text or token in the text");
    v("n", n, in(1, 1024), "answers to each prompt");
  }
  // Throws kUsage naming the field: "'sampling_params.top_p' must be above 0 and at most 1, not 1.5".
  void validate(int64_t vocab_size) const;
  bool greedy() const { return temperature == 0; }
};

struct TokenLogProb {
  int64_t token;
  float log_prob;
};
using TokenLogProbs = std::vector<TokenLogProb>;

// Log-probabilities that a request wants beside its tokens' own.
struct LogProbsWanted {
  int64_t top = 0;           // of the most likely tokens at each place, at most kMostTop
  std::vector<int64_t> ids;  // of these tokens at each place
  // From this token of the prompt on, the prompt's too (its very first token has none). -1: of none.
  int64_t prompt_from = -1;
  bool beside_tokens() const { return top > 0 || !ids.empty(); }
  bool any() const { return beside_tokens() || prompt_from >= 0; }
  void validate(int64_t vocab_size, int64_t prompt_tokens) const;  // throws kUsage naming SGLang's field
};
constexpr int64_t kMostTop = 128;

enum class FinishReason { kNone, kStop, kLength, kAbort };
std::string_view name_of(FinishReason reason);

// One of the n samples of a request, as far as it has come, or a further part of it.
struct Sample {
  std::vector<int64_t> output_ids;  // with the stop token where one was sampled
  // Of softmax(logits / temperature), after penalties and biases and before any cut.
  std::vector<float> log_probs;
  std::vector<TokenLogProbs> top_log_probs, ids_log_probs;  // one a token, where asked; of the same distribution
  std::vector<int64_t> weight_versions;                     // the weights that computed each token
  std::string text;  // while it runs: no part of what may still become a stop string
  // A token was drawn from keys and values of more than one version: those before an update were kept.
  bool mixed_cache = false;
  FinishReason finish = FinishReason::kNone;
  int64_t matched_token = -1;  // the stop token, or -1
  std::string matched_text;    // the stop string, or ""
  std::string abort_message;   // why, where finish is kAbort
  void append(Sample&& part);
};

// Of the prompt's tokens from max(LogProbsWanted::prompt_from, 1) on: of softmax(logits), whatever the temperature.
struct PromptLogProbs {
  std::vector<float> log_probs;
  std::vector<TokenLogProbs> top, ids;  // where asked
};

struct Output {
  std::string id;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, found in the prefix cache (first sample)
  PromptLogProbs prompt;      // all there before the first token
  std::vector<Sample> samples;
  bool finished = false;
  double latency_s = 0;        // since submission
  double first_token_s = 0;    // until the first token, 0 before it
  int64_t weight_version = 0;  // of the last step
  void append(Output&& part);  // a later part of the same request
};

struct Request {
  std::string id;                // unique among those that run; empty: one is made
  std::string list_id;           // of the list that it is one of: who aborts that aborts it, too
  const void* sender = nullptr;  // whose it is: for Engine::abort_of()
  std::vector<int64_t> prompt_ids;
  SamplingParams sampling;
  LogProbsWanted log_probs;
  Deadline deadline = Deadline::after(3600);  // aborted (not failed) when it passes
  // False: one output, the whole, at the end. True: one after every step with something new, and it holds just that
  // (Output::append joins them).
  bool stream = false;
  // Called from the engine's thread; must be quick and must not call back into the engine except abort().
  std::function<void(Output)> on_output;
};

}  // namespace tritonforge::engine
