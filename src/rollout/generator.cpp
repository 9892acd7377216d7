#include "rollout/generator.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "rollout/credit.h"
#include "rollout/extract.h"
#include "rollout/prompts.h"

namespace tritonforge::rollout {
namespace {

// A later turn with less room than this cannot hold an answer.
constexpr int64_t kLeastRoom = 64;

class Counted {
 public:
  explicit Counted(std::atomic<int64_t>& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }

 private:
  std::atomic<int64_t>& counter_;
};

class Leaving {
 public:
  explicit Leaving(Gate& gate) : gate_(gate) {}
  ~Leaving() { gate_.leave(); }

 private:
  Gate& gate_;
};

void fail_turn(Turn& turn, Fault fault, const std::string& reason) {
  turn.status = TurnStatus::kFailed;
  turn.verdict = Verdict{};
  turn.verdict.fault = fault;
  turn.verdict.diagnostics = reason;
  turn.reward = 0;
}

double reward_of(const Turn& turn, const Reward& reward, const RolloutOptions& options) {
  const double value = reward(turn.verdict);
  if (options.overlong != Overlong::kPenalty) return value;
  // What was cut, by the context too, is as long as can be.
  const int64_t longest = options.sampling.max_new_tokens;
  const auto tokens = static_cast<int64_t>(turn.response_tokens.size());
  return value +
         overlong_penalty(turn.status == TurnStatus::kTruncated ? longest : tokens, longest, options.overlong_cache);
}

Verdict no_code_verdict(Extracted status, bool cut, int64_t tokens) {
  Verdict verdict;
  if (cut) {
    verdict.fault = Fault::kTruncated;
    const std::string after = tokens > 0 ? fmt::format(" after {} tokens", tokens) : "";
    verdict.diagnostics = fmt::format("the answer was cut{}, before its code block was complete", after);
  } else {
    verdict.fault = Fault::kNoCode;
    verdict.diagnostics = status == Extracted::kTruncated ? "the code block is not closed"
                                                          : "the answer has no ```python block";
  }
  return verdict;
}

}  // namespace

std::string trajectory_id(const std::string& group_id, int64_t sample) {
  return fmt::format("{}.{}", group_id, sample);
}

bool reached_goal(const Turn& turn, const RolloutOptions& options) {
  if (turn.verdict.cheated() || !turn.verdict.correct) return false;
  return turn.verdict.stage != Stage::kTimed || turn.verdict.speedup >= options.stop_speedup;
}

void credit_trajectory(Trajectory& trajectory, const RolloutOptions& options) {
  std::vector<double> rewards;
  for (const Turn& turn : trajectory.turns) rewards.push_back(turn.reward);
  if (ended_by_failure(trajectory)) rewards.assign(rewards.size(), 0.0);  // what was still to come is not known
  trajectory.turn_returns = turn_returns(rewards, options.credit, options.gamma);
  trajectory.reward = trajectory.turn_returns.empty() ? 0 : trajectory.turn_returns[0];
}

Trajectory failed_trajectory(const GroupSpec& group, int64_t sample, Fault fault, const std::string& reason) {
  Trajectory trajectory;
  trajectory.id = trajectory_id(group.id, sample);
  trajectory.problem_id = group.problem_id;
  trajectory.group_id = group.id;
  fail_turn(trajectory.turns.emplace_back(), fault, reason);
  credit_trajectory(trajectory, group.options);
  return trajectory;
}

bool Generator::answer_turn(const Dialogue& dialogue, Turn& turn, const std::string& id, uint64_t seed,
                            std::stop_token stop) const {
  const auto start = Clock::now();
  turn.generate_begun = unix_seconds();
  const Counted counted(activity_.generating);
  const auto error = dialogue.answer(turn, id, seed, stop);
  turn.generate_s = seconds_since(start);
  if (error) {
    if (stop.stop_requested()) return false;
    fail_turn(turn, Fault::kEngineFailed, error->what());
    return true;
  }
  activity_.sampled_tokens += static_cast<int64_t>(turn.response_tokens.size());
  return true;
}

bool Generator::judge_turn(const GroupSpec& group, Turn& turn, const std::string& id, const Reward& reward,
                           std::stop_token stop) const {
  const bool truncated = turn.status == TurnStatus::kTruncated;
  Extraction found = extract_code(turn.text);
  const bool cut = truncated && !found.fenced;  // nobody can tell whether unfenced code is whole
  if (found.status != Extracted::kFound || cut) {
    turn.verdict = no_code_verdict(found.status, truncated, static_cast<int64_t>(turn.response_tokens.size()));
    turn.reward = reward_of(turn, reward, group.options);
    return true;
  }
  turn.code = std::move(found.code);

  evaluations_.enter();  // at a stop, too: an answer that is whole is worth its verdict
  const auto start = Clock::now();
  turn.evaluate_begun = unix_seconds();
  auto verdict = [&] {
    const Counted counted(activity_.evaluating);
    const Leaving leaving(evaluations_);
    return peers_.evaluate(group, id, turn.code, stop);
  }();
  turn.evaluate_s = seconds_since(start);
  if (!verdict.ok()) {
    if (stop.stop_requested()) return false;
    fail_turn(turn, Fault::kEvaluatorFailed, verdict.error().what());
    return true;
  }
  if (verdict->fault == Fault::kProblemError) {
    fail_turn(turn, Fault::kProblemError, verdict->diagnostics);
    return true;
  }
  turn.verdict = std::move(*verdict);
  turn.reward = reward_of(turn, reward, group.options);
  return true;
}

// A disk that takes nothing costs the turn a repetition after a restart, and nothing else: the trajectory waits for it.
void Generator::keep(const GroupSpec& group, int64_t sample, int64_t index, const Turn& turn, bool judged) const {
  if (keeper_ == nullptr || !group.options.keep_turns || turn.status == TurnStatus::kFailed) return;
  try {
    keeper_->keep_turn(group.id, sample, index, {turn, judged});
  } catch (const Error& error) {
    log::warn("turn {} of {} is not kept: {}", index, trajectory_id(group.id, sample), error.what());
  }
}

std::optional<Trajectory> Generator::run(const GroupSpec& group, int64_t sample, std::stop_token stop) const {
  const RolloutOptions& options = group.options;
  const Reward reward = Reward::named(options.reward, options.speed_resolution);
  const uint64_t seed = Rng::derive(group.seed, static_cast<uint64_t>(sample));
  Trajectory trajectory;
  trajectory.id = trajectory_id(group.id, sample);
  trajectory.problem_id = group.problem_id;
  trajectory.group_id = group.id;
  trajectory.temperature = options.sampling.temperature > 0 ? options.sampling.temperature : 1.0;

  auto kept = keeper_ != nullptr && options.keep_turns ? keeper_->kept_turns(group.id, sample)
                                                       : std::vector<KeptTurn>();
  if (sample == 0 && kept.empty()) peers_.prepare(group, trajectory.id);
  const auto dialogue = open_dialogue(group, peers_, codec_);
  for (int64_t index = 0; index < options.max_turns; ++index) {
    if (stop.stop_requested()) return std::nullopt;
    const std::string id = fmt::format("{}-{}", trajectory.id, index);  // of this turn's requests
    const int64_t room = dialogue->room();
    if (index > 0 && room < std::min(kLeastRoom, options.sampling.max_new_tokens)) break;
    Turn& turn = trajectory.turns.emplace_back();
    dialogue->open_turn(turn);
    const auto at = static_cast<size_t>(index);
    // A turn before it could not be kept, was judged otherwise this time, or is another process's: it goes on from
    // none.
    if (at < kept.size() && kept[at].turn.prompt_tokens != turn.prompt_tokens) kept.resize(at);
    const bool answered = at < kept.size();
    const bool judged = answered && kept[at].judged;
    if (answered) turn = std::move(kept[at].turn);
    if (room < 1) {
      fail_turn(
          turn, Fault::kPromptTooLong,
          fmt::format("the prompt has {} tokens, max_context is {}", dialogue->prompt_tokens(), options.max_context));
    } else if (!answered) {
      if (!answer_turn(*dialogue, turn, id, Rng::derive(seed, static_cast<uint64_t>(index)), stop)) return std::nullopt;
      keep(group, sample, index, turn, /*judged=*/false);
    }
    if (turn.status != TurnStatus::kFailed && !judged) {
      if (!judge_turn(group, turn, id, reward, stop)) return std::nullopt;
      if (!turn.code.empty()) keep(group, sample, index, turn, /*judged=*/true);  // else nobody was asked
    }
    ++activity_.turns;
    if (turn.status == TurnStatus::kFailed) {
      ++activity_.failed_turns;
      log::warn("trajectory {} failed in turn {}: {}: {}", trajectory.id, index, name_of(turn.verdict.fault),
                turn.verdict.diagnostics);
      break;
    }
    if (reached_goal(turn, options) || index + 1 == options.max_turns) break;
    const auto feedback = feedback_message(options.prompt, turn.verdict);
    turn.feedback = feedback.content;
    dialogue->follow(turn, feedback);
  }
  credit_trajectory(trajectory, options);
  return trajectory;
}

}  // namespace tritonforge::rollout
