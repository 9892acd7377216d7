// data and sft: the pairs are checked again, tokenised with exact masks, and trained on in steps of a token budget.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/rng.h"
#include "dataset/outputs/packed.h"
#include "dataset/pair.h"
#include "dataset/sources/chat.h"
#include "dataset/text_lines.h"
#include "orchestrate/inputs.h"
#include "orchestrate/stages.h"
#include "rollout/prompts.h"
#include "tokenizer/chat_codec.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::orchestrate {
namespace {

using tokenizer::MaskedTokens;

std::vector<size_t> shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Rng(seed).shuffle(order);
  return order;
}

// The conversation that RL will hold, with the taught answers; wrong attempts carry no loss.
MaskedTokens tokens_of(const dataset::Pair& pair, const tokenizer::ChatCodec& codec, const RolloutSection& rollout) {
  std::vector<tokenizer::TaughtMessage> conversation;
  for (const auto& message : rollout::first_messages(rollout.prompt, dataset::problem_of(pair, /*number=*/0)))
    conversation.push_back({message});
  for (const auto& refinement : pair.refinements) {
    conversation.push_back({rollout::answer_message(refinement.wrong)});
    conversation.push_back({{.role = "user", .content = refinement.feedback}});
  }
  conversation.push_back({rollout::answer_message(pair.solution), /*learned=*/true});
  return tokenizer::taught_tokens(codec, conversation, rollout.enable_thinking);
}

// In memory, or packed by `tritonforge data build` and mapped.
class SftData {
 public:
  explicit SftData(int64_t longest) : longest_(longest) {}
  SftData(int64_t longest, dataset::PackedTokens packed) : longest_(longest) {
    packed_.emplace(std::move(packed));
    for (size_t i = 0; i < packed_->size(); ++i) {
      if (fits(packed_->length(i))) order_.push_back(i);
    }
  }

  void add(MaskedTokens example) {
    if (!fits(static_cast<int64_t>(example.tokens.size()))) return;
    order_.push_back(order_.size());
    examples_.push_back(std::move(example));
  }

  size_t size() const { return order_.size(); }
  int64_t length(size_t i) const {
    return packed_ ? packed_->length(order_[i]) : static_cast<int64_t>(examples_[i].tokens.size());
  }
  MaskedTokens example(size_t i) const { return packed_ ? packed_->example(order_[i]) : examples_[i]; }
  int64_t too_long = 0, tokens = 0;

 private:
  bool fits(int64_t length) {
    const bool fitting = length <= longest_;
    too_long += !fitting;
    tokens += fitting ? length : 0;
    return fitting;
  }

  int64_t longest_;
  std::optional<dataset::PackedTokens> packed_;
  std::vector<MaskedTokens> examples_;
  std::vector<size_t> order_;  // what is not too long
};

void add_text(SftData& data, const RecipeConfig& config, const tokenizer::Tokenizer& tokenizer) {
  const auto end = tokenizer.id_of("<|endoftext|>");
  for (const std::string& text : dataset::read_text_lines(resolve_path(config.data.text))) {
    MaskedTokens example;
    example.tokens = tokenizer.encode(text);
    if (end) example.tokens.push_back(*end);
    example.loss_mask.assign(example.tokens.size(), 1);
    if (!example.loss_mask.empty()) example.loss_mask[0] = 0;
    data.add(std::move(example));
  }
}

// Conversations of anybody's, each tokenised as RL would hold it.
void add_conversations(SftData& data, const fs::path& path, const tokenizer::ChatCodec& codec, bool enable_thinking) {
  dataset::ChatOptions options;
  options.path = path;
  const auto source = dataset::make_chat(options);
  int64_t dropped = 0;
  while (const auto row = source->next()) {
    if (row->dropped) {
      if (++dropped <= 3) log::warn("data.conversations: {}: {}; left out", row->place, row->dropped->reason);
    } else {
      data.add(tokenizer::taught_tokens(codec, row->messages, enable_thinking));
    }
  }
  if (dropped > 0) log::warn("data.conversations: {} conversations were left out", dropped);
}

SftData packed(const RecipeConfig& config, const fs::path& stem, const fs::path& base) {
  dataset::PackedTokens tokens(stem);
  if (tokens.tokenizer() != dataset::checksum_of_tokenizer(base) ||
      tokens.enable_thinking() != config.rollout.enable_thinking) {
    fail(ErrorKind::kUsage,
         "data.conversations: {} was packed with another tokenizer than model.path's or another enable_thinking: build "
         "it again, or name its jsonl",
         stem.string());
  }
  return SftData(config.sft.max_sequence, std::move(tokens));
}

SftData tokenized(const RecipeConfig& config, const fs::path& base) {
  SftData data(config.sft.max_sequence);
  if (!config.data.text.empty()) {
    add_text(data, config, tokenizer::Tokenizer::load(base));
  } else if (!config.data.conversations.empty()) {
    const auto [path, is_packed] = conversations(config);
    if (is_packed) return packed(config, path, base);
    add_conversations(data, path, *tokenizer::load_chat_codec(base), config.rollout.enable_thinking);
  } else {
    const auto codec = tokenizer::load_chat_codec(base);
    for (const dataset::Pair& pair : training_pairs(config)) data.add(tokens_of(pair, *codec, config.rollout));
  }
  return data;
}

SftData usable(const RecipeConfig& config, const fs::path& base) {
  SftData data = tokenized(config, base);
  if (data.size() > 0) return data;
  if (data.too_long > 0)
    fail(ErrorKind::kUsage, "sft.max_sequence: every example is longer than {} tokens", config.sft.max_sequence);
  if (!config.data.text.empty()) fail(ErrorKind::kUsage, "data.text: no example in {}", config.data.text);
  fail(ErrorKind::kUsage, "data.conversations: no example in {}", conversations(config).path.string());
}

// Which examples each step trains on: epoch after epoch of a seeded shuffle, cut by the tokens and by the number
// of sequences, whichever comes first. A function of the data, the seed and the recipe's bounds, so that a resumed run
// goes on with the same steps.
std::vector<std::vector<size_t>> plan_steps(const SftData& data, const SftSection& sft, uint64_t seed) {
  std::vector<std::vector<size_t>> steps;
  std::vector<size_t> current;
  int64_t budget = 0;
  dataset::SampleOrder order(data.size(), Rng::derive(seed, "sft"));
  for (uint64_t position = 0;; ++position) {
    const size_t index = order.at(position);
    const bool full = budget + data.length(index) > sft.tokens_per_step ||
                      (sft.sequences_per_step > 0 && std::ssize(current) == sft.sequences_per_step);
    if (!current.empty() && full) {
      steps.push_back(std::exchange(current, {}));
      budget = 0;
      if (static_cast<int64_t>(steps.size()) == sft.steps) return steps;
    }
    current.push_back(index);
    budget += data.length(index);
  }
}

StepRequest step_request(const SftData& data, const std::vector<size_t>& examples, int64_t step) {
  StepRequest request;
  request.kind = StepKind::kSft;
  request.step = step;
  for (const size_t index : examples) {
    TrainSequence& sequence = request.sequences.emplace_back();
    MaskedTokens example = data.example(index);
    sequence.tokens = std::move(example.tokens);
    sequence.loss_mask = std::move(example.loss_mask);
    sequence.old_log_probs.assign(sequence.tokens.size(), 0.0f);
    sequence.advantages.assign(sequence.tokens.size(), 0.0f);
    sequence.weight_versions.assign(sequence.tokens.size(), -1);
  }
  return request;
}

}  // namespace

void verify_pairs(RunContext& run) {
  const auto pairs = training_pairs(run.config);
  auto order = shuffled(pairs.size(), Rng::derive(static_cast<uint64_t>(run.config.seed), "verify pairs"));
  run.record.begin_stage("data");
  order.resize(std::min<size_t>(order.size(), static_cast<size_t>(run.config.data.verify)));
  const EvaluationOptions options = run.config.pair_request();
  const auto verify = [&](size_t i) {
    const dataset::Pair& pair = pairs[order[i]];
    const Verdict verdict = run.evaluator.judge({.id = pair.id, .source = pair.problem}, pair.solution,
                                                Rng::derive(static_cast<uint64_t>(run.config.seed), i) >> 1, options);
    if (!verdict.correct) {
      fail(ErrorKind::kCorrupt, "data.pairs: {} holds a pair that the evaluator does not accept: {}: {} {}",
           run.config.data.pairs, pair.id, name_of(verdict.fault), verdict.diagnostics);
    }
  };
  std::atomic<size_t> next{0};
  std::mutex mutex;  // the next two
  int64_t done = 0;
  std::exception_ptr first;
  const auto worker = [&] {
    for (size_t i = next++; i < order.size(); i = next++) {
      try {
        verify(i);
        const std::lock_guard lock(mutex);
        run.record.set_progress("data", ++done, std::ssize(order));
      } catch (...) {
        next = order.size();  // nobody takes another one
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int64_t i = 0; i < run.config.evaluator.workers; ++i) workers.emplace_back(worker);
  }
  if (first) std::rethrow_exception(first);
}

void run_sft(RunContext& run) {
  const auto& sft = run.config.sft;
  const fs::path base = resolve_path(run.config.model.path);
  const SftData data = usable(run.config, base);
  const auto steps = plan_steps(data, sft, static_cast<uint64_t>(run.config.seed));
  log::info("sft: {} examples, {} tokens; {} left out as longer than {}", data.size(), data.tokens, data.too_long,
            sft.max_sequence);
  run.record.begin_stage("sft");
  run.start_trainer("sft", sft.train, base, sft.steps);

  const auto request_of = [&](int64_t step) { return step_request(data, steps[static_cast<size_t>(step - 1)], step); };
  run.trainer.go_on([&](int64_t next) {
    for (int64_t step = run.record.first_step("sft", next); step <= sft.steps; ++step) {
      run.record.set_progress("sft", step - 1, sft.steps);
      run.record.add_sft_step(run.trainer.step_of_many(step, sft.steps, request_of));
    }
    run.record.set_progress("sft", sft.steps, sft.steps);
    run.trainer.finish(run.record.folder() / "models" / "sft");
  });
  run.stop_trainer();
}

}  // namespace tritonforge::orchestrate
