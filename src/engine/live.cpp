#include "engine/live.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::engine {
namespace {

// Of the machine's entropy: two requests without a seed do not sample the same. std::random_device looks each time for
// what the processor has; that took 40 us of each request.
uint64_t random_seed() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
    fail(ErrorKind::kMachine, "getrandom: {}", std::strerror(errno));
  return seed;
}

}  // namespace

LiveRequest::LiveRequest(Request from, const tokenizer::Tokenizer* tokenizer, const std::vector<int64_t>& end_tokens,
                         int64_t max_context)
    : request(std::move(from)), tokenizer_(tokenizer), stop_ids_(request.sampling.stop_token_ids) {
  const SamplingParams& sampling = request.sampling;
  if (!sampling.ignore_eos) stop_ids_.insert(stop_ids_.end(), end_tokens.begin(), end_tokens.end());
  // A special token never shows in the text, so a stop string that is one is looked for among the ids.
  std::vector<std::string> stops;
  for (const auto& stop : sampling.stop) {
    const auto id = tokenizer != nullptr ? tokenizer->id_of(stop) : std::nullopt;
    if (id && tokenizer->is_special(*id)) stop_ids_.push_back(*id);
    else stops.push_back(stop);
  }
  output.id = request.id;
  output.prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  output.samples.resize(static_cast<size_t>(sampling.n));
  unfinished = sampling.n;
  const uint64_t seed = sampling.seed ? *sampling.seed : random_seed();
  for (int64_t i = 0; i < sampling.n; ++i) {
    auto sample = std::make_unique<LiveSample>();
    sample->request = this;
    sample->index = i;
    Sequence& sequence = sample->sequence;
    sequence.sample = sample.get();
    sequence.tokens = request.prompt_ids;
    sequence.tokens.reserve(request.prompt_ids.size() +
                            static_cast<size_t>(std::min<int64_t>(sampling.max_new_tokens, 4096)));
    sequence.prompt_tokens = output.prompt_tokens;
    sequence.max_length = std::min(max_context, output.prompt_tokens + std::min(sampling.max_new_tokens, max_context));
    sample->row = {.temperature = static_cast<float>(sampling.temperature),
                   .top_p = static_cast<float>(sampling.top_p),
                   .min_p = static_cast<float>(sampling.min_p),
                   .top_k = sampling.top_k,
                   .seed = i == 0 ? seed : Rng::derive(seed, static_cast<uint64_t>(i))};
    if (LogitRules::needed(sampling)) sample->rules.emplace(sampling, stop_ids_);
    sequence.may_draft = !sample->rules && !request.log_probs.any();
    if (unscored_from(*sample) < unscored_end()) sequence.reusable = unscored_from(*sample);
    if (tokenizer != nullptr && (!stops.empty() || request.stream)) {
      sample->text.emplace(*tokenizer, stops, sampling.skip_special_tokens, sampling.no_stop_trim);
    }
    samples.push_back(std::move(sample));
  }
}

void LiveRequest::accept(LiveSample& sample, int64_t token, float log_prob, int64_t weight_version,
                         const TokenScores* scores) {
  const SamplingParams& sampling = request.sampling;
  Sample& out = sample.out();
  if (output.first_token_s == 0) output.first_token_s = seconds_since(submitted);
  changed = true;
  if (sampling.max_new_tokens == 0) return end(sample, FinishReason::kLength);
  sample.sequence.tokens.push_back(token);
  out.output_ids.push_back(token);
  out.log_probs.push_back(log_prob);
  out.weight_versions.push_back(weight_version);
  if (scores != nullptr && request.log_probs.top > 0) out.top_log_probs.push_back(scores->top);
  if (scores != nullptr && !request.log_probs.ids.empty()) out.ids_log_probs.push_back(scores->ids);
  if (sample.rules) sample.rules->accept(token);
  if (std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end()) {
    out.matched_token = token;
    if (sample.text && sampling.no_stop_trim) sample.text->feed(token);
    return end(sample, FinishReason::kStop);
  }
  if (sample.text && sample.text->feed(token)) return end(sample, FinishReason::kStop);
  if (std::ssize(sample.sequence.tokens) >= sample.sequence.max_length) end(sample, FinishReason::kLength);
}

// The first sample's chunks give them for all.
int64_t LiveRequest::unscored_from(const LiveSample& sample) const {
  const int64_t from = request.log_probs.prompt_from;
  if (from < 0 || sample.index > 0) return unscored_end();
  return std::max<int64_t>(from - 1, 0) + scored_;
}

void LiveRequest::accept_prompt(LiveSample& sample, const std::vector<TokenScores>& scores) {
  PromptLogProbs& prompt = output.prompt;
  for (const TokenScores& each : scores) {
    prompt.log_probs.push_back(each.log_prob);
    if (request.log_probs.top > 0) prompt.top.push_back(each.top);
    if (!request.log_probs.ids.empty()) prompt.ids.push_back(each.ids);
    ++scored_;
  }
  if (unscored_from(sample) >= unscored_end()) sample.sequence.reusable = std::numeric_limits<int64_t>::max();
}

void LiveRequest::end(LiveSample& sample, FinishReason reason, std::string why) {
  Sample& out = sample.out();
  if (out.finish != FinishReason::kNone) return;
  out.finish = reason;
  out.abort_message = std::move(why);
  changed = true;
  --unfinished;
  if (sample.text) {
    sample.text->finish();
    out.text = sample.text->text();
    out.matched_text = sample.text->matched();
    if (!out.matched_text.empty() && out.matched_token < 0 && reason == FinishReason::kLength)
      out.finish = FinishReason::kStop;
  } else if (tokenizer_ != nullptr) {
    std::vector<int64_t> ids = out.output_ids;
    if (out.matched_token >= 0 && !request.sampling.no_stop_trim) ids.pop_back();
    out.text = tokenizer_->decode(ids, request.sampling.skip_special_tokens);
  }
}

Output LiveRequest::take() {
  Output part{.id = output.id,
              .prompt_tokens = output.prompt_tokens,
              .cached_tokens = std::max<int64_t>(0, samples[0]->sequence.cached_tokens),
              .prompt = std::exchange(output.prompt, {}),
              .finished = finished(),
              .latency_s = seconds_since(submitted),
              .first_token_s = output.first_token_s};
  for (const auto& sample : samples) {
    Sample& out = sample->out();
    Sample& taken = part.samples.emplace_back(std::exchange(out, Sample{.finish = out.finish}));
    if (!sample->text) continue;
    const std::string_view settled = sample->finished() ? sample->text->text() : sample->text->settled();
    taken.text = settled.substr(std::min(sample->text_taken, settled.size()));
    sample->text_taken = settled.size();
  }
  return part;
}

}  // namespace tritonforge::engine
