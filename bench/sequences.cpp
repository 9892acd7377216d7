// libs: tf_rollout
// A lease on its way to the trainer, in JSON and in binary: 32 prompts of 2,048 tokens x 8 samples of 2,012 tokens, the
// shape of a large RL step. Each row is the best of some rounds on one core.
//   sequences [groups] [rounds]
#include <fmt/format.h>

#include <cstdlib>
#include <functional>

#include "base/clock.h"
#include "base/rng.h"
#include "rollout/stored_lease.h"

using namespace tritonforge;

namespace {

constexpr int64_t kSamples = 8, kPrompt = 2048, kResponse = 2012, kVocabulary = 151936;

rollout::StoredLease stored_lease(int64_t groups) {
  rollout::StoredLease lease{"rl-step-1", {}};
  Rng rng(1);
  const auto token = [&] { return static_cast<int64_t>(rng.below(kVocabulary)); };
  for (int64_t g = 0; g < groups; ++g) {
    auto& group = lease.groups.emplace_back();
    group.id = fmt::format("rl-1-{}", g);
    group.problem_id = "p";
    rollout::GroupCredit credit;
    for (int64_t s = 0; s < kSamples; ++s) {
      Trajectory trajectory;
      trajectory.id = fmt::format("{}.{}", group.id, s);
      trajectory.group_id = group.id;
      trajectory.problem_id = "p";
      trajectory.turn_returns = {rng.uniform()};
      Turn& turn = trajectory.turns.emplace_back();
      for (int64_t i = 0; i < kPrompt; ++i) turn.prompt_tokens.push_back(token());
      for (int64_t i = 0; i < kResponse; ++i) {
        turn.response_tokens.push_back(token());
        turn.log_probs.push_back(static_cast<float>(-4 * rng.uniform()));
        turn.weight_versions.push_back(3);
      }
      turn.status = TurnStatus::kCompleted;
      const rollout::TrajectoryRow row(trajectory);
      group.rows.push_back({static_cast<size_t>(s), {row.body, row.record}});
      credit.advantages.push_back(trajectory.turn_returns);
      credit.carries_loss.push_back({true});
    }
    group.credit = text_of(credit);
  }
  return lease;
}

double best_of(int64_t rounds, const std::function<void()>& work) {
  double best = 1e30;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t groups = argc > 1 ? std::atoll(argv[1]) : 32, rounds = argc > 2 ? std::atoll(argv[2]) : 5;
  const rollout::StoredLease lease = stored_lease(groups);
  const std::string json = text_of(lease), binary = to_binary(batch_of(lease));
  const SequenceBatch expected = batch_from_binary(binary);
  if (batch_of_lease_json(parse_json(json, "lease")) != expected) {
    fmt::print(stderr, "the two forms differ\n");
    return 1;
  }
  const auto row = [](const char* what, double json_s, double binary_s, size_t json_bytes, size_t binary_bytes) {
    fmt::print("{:<28} JSON {:7.3f} s {:8.1f} MB/s   binary {:7.3f} s {:8.1f} MB/s   {:6.1f} x\n", what, json_s,
               static_cast<double>(json_bytes) / json_s / 1e6, binary_s,
               static_cast<double>(binary_bytes) / binary_s / 1e6, json_s / binary_s);
  };
  fmt::print("{} sequences, {} tokens: JSON {:.1f} MB, binary {:.1f} MB ({:.2f} x)\n", expected.sequences.size(),
             groups * kSamples * (kPrompt + kResponse), static_cast<double>(json.size()) / 1e6,
             static_cast<double>(binary.size()) / 1e6,
             static_cast<double>(json.size()) / static_cast<double>(binary.size()));
  row("buffer: rows to body", best_of(rounds, [&] { text_of(lease); }),
      best_of(rounds, [&] { to_binary(batch_of(lease)); }), json.size(), binary.size());
  row("trainer: body to sequences", best_of(rounds, [&] { batch_of_lease_json(parse_json(json, "lease")); }),
      best_of(rounds, [&] { batch_from_binary(binary); }), json.size(), binary.size());
  const Json document = parse_json(json, "lease");
  row("writing alone", best_of(rounds, [&] { document.dump(); }), best_of(rounds, [&] { to_binary(expected); }),
      json.size(), binary.size());
}
