#pragma once
// What the buffer's benchmarks write: three turns of a KernelBench answer (1,200 + 400 tokens and what follows, 5 KB of
// text a turn).
#include <vector>

#include "base/rng.h"
#include "rollout/generator.h"

namespace tritonforge {

inline constexpr int64_t kMockTurns = 3;

inline Trajectory mock_trajectory() {
  constexpr int64_t kPrompt = 1200, kResponse = 400, kFeedback = 150, kVocabulary = 151936;
  Rng rng(1);
  Trajectory t;
  t.problem_id = "problem";
  const auto tokens = [&](std::vector<int64_t>& out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int64_t>(rng.below(kVocabulary)));
  };
  std::vector<int64_t> prompt;
  tokens(prompt, kPrompt);
  for (int64_t i = 0; i < kMockTurns; ++i) {
    Turn& turn = t.turns.emplace_back();
    turn.prompt_tokens = prompt;
    tokens(turn.response_tokens, kResponse);
    for (int64_t k = 0; k < kResponse; ++k) turn.log_probs.push_back(static_cast<float>(-4 * rng.uniform()));
    turn.weight_versions.assign(kResponse, 3);
    turn.text.assign(2500, 'x');
    turn.code.assign(2000, 'y');
    turn.feedback.assign(500, 'z');
    turn.status = TurnStatus::kCompleted;
    turn.reward = rng.uniform();
    prompt.insert(prompt.end(), turn.response_tokens.begin(), turn.response_tokens.end());
    tokens(prompt, kFeedback);
  }
  rollout::credit_trajectory(t, RolloutOptions{});
  return t;
}

}  // namespace tritonforge
