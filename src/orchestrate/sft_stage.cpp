// data and sft: the pairs are checked again, tokenised with exact masks, and trained on in steps of a token budget.
#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <sstream>

#include "base/log.h"
#include "base/rng.h"
#include "dataset/pair.h"
#include "orchestrate/stages.h"
#include "rollout/prompts.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/loss_mask.h"

namespace tritonforge::orchestrate {
namespace {

std::vector<size_t> shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Rng(seed).shuffle(order);
  return order;
}

std::vector<dataset::Pair> training_pairs(const RecipeConfig& config) {
  auto pairs = dataset::read_pairs(resolve_path(config.data.pairs));
  std::erase_if(pairs, [](const dataset::Pair& pair) { return pair.split != "train"; });
  if (pairs.empty()) fail(ErrorKind::kUsage, "data.pairs: {} holds no pair of the split 'train'", config.data.pairs);
  return pairs;
}

// The conversation that RL will hold, with the taught answers; a wrong first attempt carries no loss.
tokenizer::MaskedTokens tokens_of(const dataset::Pair& pair, const tokenizer::Tokenizer& tokenizer,
                                  tokenizer::ChatFormat format, PromptStyle style) {
  std::vector<tokenizer::Message> messages = rollout::first_messages(style, dataset::problem_of(pair, /*number=*/0));
  std::vector<bool> train(messages.size(), false);
  const auto add = [&](tokenizer::Message message, bool trained) {
    messages.push_back(std::move(message));
    train.push_back(trained);
  };
  if (pair.refinement) {
    add(rollout::answer_message(pair.refinement->wrong), false);
    add({.role = "user", .content = pair.refinement->feedback}, false);
  }
  add(rollout::answer_message(pair.solution), true);
  return tokenizer::tokenize_conversation(tokenizer, format, messages, train);
}

struct SftData {
  std::vector<tokenizer::MaskedTokens> examples;
  int64_t too_long = 0, tokens = 0;

  void add(tokenizer::MaskedTokens example, int64_t longest) {
    if (static_cast<int64_t>(example.tokens.size()) > longest) {
      ++too_long;
      return;
    }
    tokens += static_cast<int64_t>(example.tokens.size());
    examples.push_back(std::move(example));
  }
};

void add_text(SftData& data, const RecipeConfig& config, const tokenizer::Tokenizer& tokenizer) {
  const fs::path path = resolve_path(config.data.text);
  const auto end = tokenizer.id_of("<|endoftext|>");
  std::istringstream lines(read_file(path));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", path.string(), ++number);
    tokenizer::MaskedTokens example;
    example.tokens = tokenizer.encode(require<std::string>(parse_json(line, where), "text", where));
    if (end) example.tokens.push_back(*end);
    example.loss_mask.assign(example.tokens.size(), 1);
    if (!example.loss_mask.empty()) example.loss_mask[0] = 0;
    data.add(std::move(example), config.sft.max_sequence);
  }
}

SftData tokenized(const RecipeConfig& config, const tokenizer::Tokenizer& tokenizer) {
  SftData data;
  if (!config.data.text.empty()) {
    add_text(data, config, tokenizer);
  } else {
    const tokenizer::ChatFormat format = tokenizer::recognise_chat_format(tokenizer.chat_template());
    const PromptStyle style = config.rollout.prompt;
    for (const dataset::Pair& pair : training_pairs(config))
      data.add(tokens_of(pair, tokenizer, format, style), config.sft.max_sequence);
  }
  if (data.examples.empty())
    fail(ErrorKind::kUsage, "sft.max_sequence: every example is longer than {} tokens", config.sft.max_sequence);
  return data;
}

// Which examples each step trains on: epoch after epoch of a seeded shuffle, cut by the token budget. A function of
// the data and the seed, so that a resumed run goes on with the same steps.
std::vector<std::vector<size_t>> plan_steps(const SftData& data, const SftSection& sft, uint64_t seed) {
  std::vector<std::vector<size_t>> steps;
  std::vector<size_t> current;
  int64_t budget = 0;
  for (uint64_t epoch = 0;; ++epoch) {
    for (const size_t index : shuffled(data.examples.size(), Rng::derive(Rng::derive(seed, "sft"), epoch))) {
      const auto length = static_cast<int64_t>(data.examples[index].tokens.size());
      if (!current.empty() && budget + length > sft.tokens_per_step) {
        steps.push_back(std::exchange(current, {}));
        budget = 0;
        if (static_cast<int64_t>(steps.size()) == sft.steps) return steps;
      }
      current.push_back(index);
      budget += length;
    }
  }
}

}  // namespace

void verify_pairs(RunContext& run) {
  const auto pairs = training_pairs(run.config);
  auto order = shuffled(pairs.size(), Rng::derive(static_cast<uint64_t>(run.config.seed), "verify pairs"));
  order.resize(std::min<size_t>(order.size(), static_cast<size_t>(run.config.data.verify)));
  std::atomic<size_t> next{0}, done{0};
  std::mutex mutex;
  std::string first_failure;
  const auto worker = [&] {
    for (size_t i = next++; i < order.size(); i = next++) {
      const dataset::Pair& pair = pairs[order[i]];
      const Json body = {{"problem", {{"id", pair.id}, {"source", pair.problem}}},
                         {"candidate", pair.solution},
                         {"seed", Rng::derive(static_cast<uint64_t>(run.config.seed), i) >> 1},
                         {"measure_performance", false},
                         {"mode", run.config.evaluator.mode},
                         {"num_correct_trials", run.config.evaluator.request.num_correct_trials},
                         {"timeout_s", run.config.evaluator.request.timeout_s}};
      const Verdict verdict = verdict_from_json(
          run.call("evaluator", run.evaluator_url + "/v2/evaluations", body, 600));
      std::lock_guard lock(mutex);
      if (!verdict.correct && first_failure.empty())
        first_failure = fmt::format("{}: {} {}", pair.id, name_of(verdict.fault), verdict.diagnostics);
      run.record.set_progress("data", static_cast<int64_t>(++done), static_cast<int64_t>(order.size()));
    }
  };
  std::vector<std::future<void>> workers;
  for (int64_t i = 0; i < run.config.evaluator.workers; ++i) workers.push_back(std::async(std::launch::async, worker));
  for (auto& each : workers) each.get();
  if (!first_failure.empty()) {
    fail(ErrorKind::kCorrupt, "data.pairs: {} holds a pair that the evaluator does not accept: {}",
         run.config.data.pairs, first_failure);
  }
}

void run_sft(RunContext& run) {
  const auto& sft = run.config.sft;
  const fs::path base = resolve_path(run.config.model.path);
  const SftData data = tokenized(run.config, tokenizer::Tokenizer::load(base));
  const auto steps = plan_steps(data, sft, static_cast<uint64_t>(run.config.seed));
  log::info("sft: {} examples, {} tokens; {} left out as longer than {}", data.examples.size(), data.tokens,
            data.too_long, sft.max_sequence);
  run.start_trainer("sft", sft.train, base, sft.steps);
  const auto next_step = [&] { return run.get(run.trainer_url + "/status").at("expected_step").get<int64_t>(); };

  for (int64_t step = next_step(); step <= sft.steps;) {  // counted from 1, as the trainer does
    run.record.set_progress("sft", step - 1, sft.steps);
    Json sequences = Json::array();
    for (const size_t index : steps[static_cast<size_t>(step - 1)]) {
      sequences.push_back({{"tokens", data.examples[index].tokens}, {"loss_mask", data.examples[index].loss_mask}});
    }
    const int restarts = run.supervisor->restarts("trainer");
    try {
      Json metrics = run.call("trainer", run.trainer_url + "/step",
                              {{"kind", "sft"}, {"step", step}, {"sequences", std::move(sequences)}}, 3600);
      metrics["stage"] = "sft";
      run.record.add_step(std::move(metrics));
      ++step;
    } catch (const Error&) {
      if (run.supervisor->restarts("trainer") == restarts) throw;
      run.supervisor->wait_ready("trainer", Deadline::after(600));
      step = next_step();  // from its last checkpoint: the steps since then are trained again
    }
  }
  run.record.set_progress("sft", sft.steps, sft.steps);
  const fs::path model = run.record.folder() / "models" / "sft";
  run.call("trainer", run.trainer_url + "/export", {{"folder", model.string()}}, 1800);
  run.stop_trainer();
}

}  // namespace tritonforge::orchestrate
