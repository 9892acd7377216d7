#pragma once
// One training step: what the trainer is asked for (POST /step), and what it answers.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"
#include "contract/sequence_batch.h"

namespace tritonforge {

enum class StepKind { kSft, kRl };
constexpr std::array<std::string_view, 2> names_of(StepKind) { return {"sft", "rl"}; }

struct StepRequest {
  StepKind kind = StepKind::kSft;
  int64_t step = 0;                      // from 1; one more than the last
  std::string lease_id, buffer;          // rl: the buffer's URL, from where the trainer fetches the lease's sequences
  int64_t weight_version = -1;           // rl: under which the engines know the weights that the step begins with
  std::vector<TrainSequence> sequences;  // sft; empty: they were sent ahead (POST /prepare)
};
Json to_json(const StepRequest& request);                  // without sequences: SFT's travel in binary
StepRequest step_request_from_json(const Json& body);      // either kind; throws kUsage naming the field
StepRequest sft_step_from_binary(std::string_view bytes);  // throws kUsage, see batch_from_binary

// Towards the sampler and the reference, of an RL step with at least one target, or with a sequence that was too old.
struct PolicyMetrics {
  double clip_fraction = 0, importance_mean = 0, advantage_mean = 0, on_policy_fraction = 0;
  double kl = 0;               // towards the reference; 0 without one
  double masked_fraction = 0;  // tokens that off-policy sequence masking left out
  double stale_sequences = 0;  // left out: a token was more weight versions behind than the run allows
  double kl_rollout = 0;       // k3 estimate of KL(sampler || trainer)
  // |trainer's log-prob at the weights before the step - sampler's| over the tokens sampled from those weights (over
  // all where there are none).
  double train_rollout_logprob_abs_diff = 0;  // mean
  double train_rollout_logprob_abs_diff_p99 = 0, train_rollout_logprob_abs_diff_max = 0;

  bool operator==(const PolicyMetrics&) const = default;
};

// The parts of a step, in their order: what is not there yet of its sequences, fetched and read; waiting for a shared
// device; packing, where that was not done ahead, and copying; log-probs of the reference and, where there are several
// updates, of the weights before them; then for every micro-batch three; and the optimizer.
enum class StepPart { kFetch, kWait, kPack, kScores, kForward, kLoss, kBackward, kUpdate };
constexpr std::array<std::string_view, 8> names_of(StepPart) {
  return {"fetch", "wait", "pack", "scores", "forward", "loss", "backward", "update"};
}
constexpr std::array<const char*, 8> kPartFigures = {"seconds_fetch",    "seconds_wait",    "seconds_pack",
                                                     "seconds_scores",   "seconds_forward", "seconds_loss",
                                                     "seconds_backward", "seconds_update"};

// What one step was: it goes to the log, the reply, /metrics and the checkpoint. Losses and norms are means over the
// step's updates.
struct StepMetrics {
  int64_t step = 0;  // 0: there was none yet
  StepKind kind = StepKind::kSft;
  double loss = 0, grad_norm = 0, lr = 0, entropy = 0;
  double tokens = 0, target_tokens = 0;  // forwarded; predicted with loss
  double shared_tokens = 0;              // not forwarded again, as another sequence begins with the same
  double sequences = 0, micro_batches = 0, skipped_updates = 0;  // skipped: a gradient that is not finite, or no target
  double seconds = 0, tokens_per_s = 0;
  std::array<double, kPartFigures.size()> part_seconds{};  // of the device, by StepPart
  double seconds_communication = 0;  // of those, of rank 0's device: it stood still for other ranks
  double tflops = 0;                 // 1e12 floating-point operations a second by the model's formula (train/flops.h)
  double mfu = 0;                    // their share of the device's data sheet; 0 where that is not known
  double of_product_rate = 0;        // their share of what one large product reached when the trainer was started
  double memory_gib = 0;             // in use: of the GPU by everybody, or the most that this process had of the host's
  std::optional<PolicyMetrics> policy;
  std::optional<BatchFigures> batch;  // of the lease

  bool operator==(const StepMetrics&) const = default;
};

// The one table of their names: calls visit(name, figure) for each figure that is there. Metrics: StepMetrics, const or
// not.
template <typename Metrics, typename Visit>
void for_each_figure(Metrics& m, Visit&& visit) {
  visit("loss", m.loss);
  visit("grad_norm", m.grad_norm);
  visit("lr", m.lr);
  visit("entropy", m.entropy);
  visit("tokens", m.tokens);
  visit("target_tokens", m.target_tokens);
  visit("shared_tokens", m.shared_tokens);
  visit("sequences", m.sequences);
  visit("micro_batches", m.micro_batches);
  visit("skipped_updates", m.skipped_updates);
  visit("seconds", m.seconds);
  visit("tokens_per_s", m.tokens_per_s);
  for (size_t part = 0; part < kPartFigures.size(); ++part) visit(kPartFigures[part], m.part_seconds[part]);
  visit("seconds_communication", m.seconds_communication);
  visit("tflops", m.tflops);
  visit("mfu", m.mfu);
  visit("of_product_rate", m.of_product_rate);
  visit("memory_gib", m.memory_gib);
  if (m.policy) {
    visit("clip_fraction", m.policy->clip_fraction);
    visit("kl", m.policy->kl);
    visit("kl_rollout", m.policy->kl_rollout);
    visit("importance_mean", m.policy->importance_mean);
    visit("advantage_mean", m.policy->advantage_mean);
    visit("on_policy_fraction", m.policy->on_policy_fraction);
    visit("masked_fraction", m.policy->masked_fraction);
    visit("stale_sequences", m.policy->stale_sequences);
    visit("train_rollout_logprob_abs_diff", m.policy->train_rollout_logprob_abs_diff);
    visit("train_rollout_logprob_abs_diff_p99", m.policy->train_rollout_logprob_abs_diff_p99);
    visit("train_rollout_logprob_abs_diff_max", m.policy->train_rollout_logprob_abs_diff_max);
  }
  if (m.batch) {
    visit("groups", m.batch->groups);
    visit("trajectories", m.batch->trajectories);
    visit("zero_variance_groups", m.batch->zero_variance_groups);
    visit("reward_mean", m.batch->reward_mean);
  }
}

// {name: figure} for each that is there; one that is not finite is null.
Json figures_json(const StepMetrics& metrics);
// Reads what figures_json wrote: null is NaN, a figure that is absent stays 0. Throws kUsage naming the field.
void read_figures(const Json& figures, StepMetrics& metrics, const std::string& where);

// {"step", "kind", every figure}.
Json to_json(const StepMetrics& metrics);

// A step that was trained, and what went with it.
struct StepResult {
  StepMetrics metrics;
  std::string checkpoint;              // folder of the one that was finished since the step before, behind the steps
  std::string checkpoint_error;        // why one could not be, "step 3: ...": the steps count all the same
  bool repeated = false;               // trained before: nothing was done now
  std::vector<std::string> set_aside;  // sequences that cannot be trained on, each with its reason
  bool ahead = false;                  // its sequences had come before it began
};
Json to_json(const StepResult& result);
StepResult step_result_from_json(const Json& json);  // throws kUsage naming the field

// Where the trainer stands (GET /status).
struct TrainerStatus {
  int64_t step = 0;              // steps trained
  int64_t checkpoint_step = -1;  // the newest checkpoint's; -1: none
};
TrainerStatus trainer_status_from_json(const Json& json);  // throws kUsage naming the field

}  // namespace tritonforge
