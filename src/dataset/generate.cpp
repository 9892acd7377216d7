#include "dataset/generate.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "dataset/chain.h"
#include "dataset/mistakes.h"
#include "dataset/special.h"

namespace tritonforge::dataset {
namespace {

constexpr uint64_t kSplitSalt = 20261121;  // the split must not depend on the seed: two sets made apart share it

// Throws kUsage, naming the nearest operator.
void check_family(const std::string& name) {
  if (find_special(name) == nullptr && find_part(name) == nullptr) find_operator(name);
}

// A problem and its solution, with what the mistakes are drawn from.
struct Draw {
  Pair pair;
  std::optional<Composition> composition;
  uint64_t index = 0;
  uint64_t seed = 0;
};

class Generator {
 public:
  Generator(const GenerateOptions& options, const EvaluatePair& evaluate, const ConversationTexts& texts,
            const std::function<void(const Pair&)>& on_pair)
      : options_(options), evaluate_(evaluate), texts_(texts), on_pair_(on_pair) {
    if (options_.families.empty()) {
      const bool compact = options_.style == PairStyle::kCompact;
      families_ = compact ? operators_of(FamilySet::kCompact) : taught_operators();
      if (!compact) {
        for (const auto& special : all_specials()) specials_.push_back(&special);
      }
      if (options_.style == PairStyle::kWide) {
        for (const auto& part : all_parts()) parts_.push_back(&part);
      }
      return;
    }
    for (const auto& name : options_.families) {
      if (const auto* special = find_special(name)) {
        specials_.push_back(special);
      } else if (const auto* part = find_part(name)) {
        parts_.push_back(part);
      } else {
        families_.push_back(&find_operator(name));
      }
    }
  }

  GenerateReport run() {
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.workers; ++i) threads.emplace_back([this] { work(); });
    for (auto& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    report_.seconds = seconds_since(start);
    return report_;
  }

 private:
  // Every family alone comes first, so that each is in the training part however small the set.
  std::optional<Draw> try_draw(uint64_t attempt) {
    Draw draw;
    draw.seed = Rng::derive(options_.seed, attempt);
    Rng rng(draw.seed);
    const bool alone = attempt < families_.size();
    const bool part_alone = !alone && attempt < families_.size() + parts_.size();
    const bool others = !families_.empty() || !specials_.empty();
    const bool chain = !alone && !parts_.empty() && (part_alone || !others || rng.below(10) < 6);
    const bool special = !alone && !chain && !specials_.empty() && (families_.empty() || rng.below(5) < 2);
    if (chain || special) {
      const auto drawn = special ? draw_special(*specials_[rng.below(specials_.size())], rng)
                                 : draw_chain(parts_, rng, part_alone ? parts_[attempt - families_.size()] : nullptr);
      draw.pair.families = drawn.families;
      draw.pair.problem = drawn.problem;
      draw.pair.solution = drawn.solution;
    } else {
      // An only family may not suit the first input drawn; a few tries decide.
      for (int i = 0; i < (alone ? 50 : 1) && !draw.composition; ++i) {
        draw.composition = draw_composition(options_.style, families_, rng, alone ? families_[attempt] : nullptr);
      }
      if (!draw.composition) return std::nullopt;
      draw.pair.families = draw.composition->families();
      draw.pair.problem = problem_source(*draw.composition);
      draw.pair.solution = solution_source(*draw.composition);
    }
    draw.pair.combo = fmt::format("{}", fmt::join(draw.pair.families, "+"));
    draw.pair.style = name_of(options_.style);
    draw.pair.split = split_of(draw.pair.families, options_);
    draw.pair.seed = draw.seed;
    return draw;
  }

  // The next distinct draw; the caller holds the lock.
  Draw next_draw() {
    constexpr int kPatience = 20000;
    for (int barren = 0; barren < kPatience; ++barren) {
      auto draw = try_draw(attempts_++);
      if (!draw || !seen_.insert(draw->pair.problem).second) continue;
      draw->index = drawn_++;
      draw->pair.id = fmt::format("{}_{}_{}", draw->pair.style, options_.seed, draw->index);
      return *std::move(draw);
    }
    fail(ErrorKind::kUsage, "these families make only {} distinct pairs (asked for {})", seen_.size(), options_.count);
  }

  void work() {
    try {
      for (;;) {
        std::unique_lock lock(mutex_);
        // What is under way may be refused, and only then another draw is needed.
        changed_.wait(lock,
                      [&] { return failure_ || report_.written >= options_.count || open_draws() < options_.count; });
        if (failure_ || report_.written >= options_.count) return;
        Draw draw = next_draw();
        lock.unlock();
        const bool accepted = complete(draw);
        lock.lock();
        finish(std::move(draw), accepted);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  int64_t open_draws() const { return static_cast<int64_t>(drawn_) - static_cast<int64_t>(report_.rejected.size()); }

  Verdict judge(const std::string& problem, const std::string& candidate) {
    auto verdict = evaluate_(problem, candidate);
    {
      const std::lock_guard lock(mutex_);
      ++report_.evaluations;
    }
    return std::move(verdict).value();
  }

  // Verifies, adds the refinement and the messages; false where the evaluator refuses the solution.
  bool complete(Draw& draw) {
    Pair& pair = draw.pair;
    if (evaluate_) {
      const Verdict verdict = judge(pair.problem, pair.solution);
      if (!is_accepted(verdict)) {
        const std::lock_guard lock(mutex_);
        ++report_.rejected_by[reason_of(verdict)];
        report_.rejected.push_back(refusal_of(pair.combo, verdict));
        return false;
      }
      pair.verified = true;
      add_refinement(draw);
    }
    pair.messages = conversation_of(pair, texts_);
    return true;
  }

  // The solution with a mistake that the evaluator noticed, and what it says to it.
  std::optional<Refinement> noticed(const std::string& problem, const Mistake& mistake) {
    const Verdict verdict = judge(problem, mistake.source);
    if (verdict.fault == Fault::kTimeout || verdict.fault == Fault::kProblemError) return std::nullopt;
    if (!verdict.correct) return Refinement{mistake.kind, mistake.source, texts_.feedback(verdict).content};
    const std::lock_guard lock(mutex_);
    ++report_.harmless_mistakes;
    return std::nullopt;
  }

  void add_refinement(Draw& draw) {
    Rng rng(Rng::derive(draw.seed, "refinement"));
    const bool wide = options_.style == PairStyle::kWide;
    if ((!draw.composition && !wide) || rng.uniform() >= options_.refinements) return;
    auto& refinements = draw.pair.refinements;
    // Some mistakes have no effect (a mask that the values do not need); the verdict tells.
    for (int i = 0; i < 4 && refinements.empty(); ++i) {
      const bool composed = draw.composition && (!wide || rng.below(2) == 0);
      const auto mistake = composed ? draw_mistake(*draw.composition, families_, rng) : spoil(draw.pair.solution, rng);
      if (!mistake || mistake->source == draw.pair.solution) continue;
      if (auto found = noticed(draw.pair.problem, *mistake)) refinements.push_back(*std::move(found));
    }
    // Before it came an attempt with another mistake besides, to which the evaluator says something else.
    if (!wide || refinements.empty() || rng.below(5) >= 2) return;
    const auto mistake = spoil(refinements[0].wrong, rng);
    if (!mistake || mistake->source == draw.pair.solution) return;
    if (auto found = noticed(draw.pair.problem, *mistake); found && found->feedback != refinements[0].feedback)
      refinements.insert(refinements.begin(), *std::move(found));
  }

  // Writes what is next in order; the caller holds the lock.
  void finish(Draw draw, bool accepted) {
    const uint64_t index = draw.index;
    done_.emplace(index, accepted ? std::optional<Pair>(std::move(draw.pair)) : std::nullopt);
    const auto rejected = static_cast<int64_t>(report_.rejected.size());
    if (!accepted && rejected > 5 && rejected * 10 > static_cast<int64_t>(drawn_)) {
      fail(ErrorKind::kInternal, "the evaluator refused {} of {} generated solutions; the last: {}", rejected, drawn_,
           report_.rejected.back());
    }
    while (!done_.empty() && done_.begin()->first == next_to_write_) {
      const auto pair = std::move(done_.begin()->second);
      done_.erase(done_.begin());
      ++next_to_write_;
      if (!pair || report_.written >= options_.count) continue;
      on_pair_(*pair);
      ++report_.written;
      report_.refinements += !pair->refinements.empty();
    }
  }

  const GenerateOptions& options_;
  const EvaluatePair& evaluate_;
  const ConversationTexts& texts_;
  const std::function<void(const Pair&)>& on_pair_;
  std::vector<const Operator*> families_;
  std::vector<const Special*> specials_;
  std::vector<const Part*> parts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> seen_;
  std::map<uint64_t, std::optional<Pair>> done_;
  uint64_t attempts_ = 0, drawn_ = 0, next_to_write_ = 0;
  GenerateReport report_;
  std::exception_ptr failure_;
};

}  // namespace

void GenerateOptions::validate() const {
  if (holdout_fraction + rl_fraction >= 1) {
    fail(ErrorKind::kUsage, "split {} and rl-split {} must be below 1 together", holdout_fraction, rl_fraction);
  }
  for (const auto& family : families) {
    if (find_part(family) != nullptr && style != PairStyle::kWide)
      fail(ErrorKind::kUsage, "family '{}' is of the style 'wide'", family);
    check_family(family);
  }
  for (const auto& entry : holdout) {
    for (size_t at = 0; at <= entry.size();) {
      const size_t plus = std::min(entry.find('+', at), entry.size());
      const auto family = entry.substr(at, plus - at);
      check_family(family);
      at = plus + 1;
    }
  }
}

std::string split_of(const std::vector<std::string>& families, const GenerateOptions& options) {
  const std::string key = combo_key(families);
  for (const auto& entry : options.holdout) {
    std::vector<std::string> parts;
    for (size_t at = 0; at <= entry.size();) {
      const size_t plus = std::min(entry.find('+', at), entry.size());
      parts.push_back(entry.substr(at, plus - at));
      at = plus + 1;
    }
    const bool whole_family = parts.size() == 1 && std::find(families.begin(), families.end(), entry) != families.end();
    if (whole_family || combo_key(parts) == key) return "holdout";
  }
  if (key.find('+') == std::string::npos) return "train";
  const double draw = Rng(Rng::derive(kSplitSalt, key)).uniform();
  if (draw < options.holdout_fraction) return "holdout";
  return draw < options.holdout_fraction + options.rl_fraction ? "rl" : "train";
}

GenerateReport generate_pairs(const GenerateOptions& options, const EvaluatePair& evaluate,
                              const ConversationTexts& texts, const std::function<void(const Pair&)>& on_pair) {
  check_options(options);
  return Generator(options, evaluate, texts, on_pair).run();
}

}  // namespace tritonforge::dataset
