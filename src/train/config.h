#pragma once
// Everything that decides a training run, validated before any work and stored beside every checkpoint.
#include <cstdint>
#include <string>

#include "base/options.h"
#include "base/url.h"
#include "parallel/dims.h"

namespace tritonforge::train {

// Schulman, "Approximating KL divergence".
enum class KlType { kK1, kK2, kK3 };
constexpr std::array<std::string_view, 3> names_of(KlType) { return {"k1", "k2", "k3"}; }

// What is done with the ratio of policy and old policy, and of what the importance weight is: train/losses.h.
enum class Objective { kClip, kGspo, kCispo };
constexpr std::array<std::string_view, 3> names_of(Objective) { return {"clip", "gspo", "cispo"}; }
enum class Tis { kToken, kSequence };
constexpr std::array<std::string_view, 2> names_of(Tis) { return {"token", "sequence"}; }

// Whose log-probs are the ratio's denominator.
enum class RatioBase { kTrainer, kSampler };
constexpr std::array<std::string_view, 2> names_of(RatioBase) { return {"trainer", "sampler"}; }

enum class Aggregation { kTokenMean, kSeqMeanTokenSum, kSeqMeanTokenMean, kConstant };
constexpr std::array<std::string_view, 4> names_of(Aggregation) {
  return {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "constant"};
}

// What the optimizer keeps of a weight, and how (train/flat_adamw.h).
enum class OptimizerState { kFp32, kBf16Sr, kCpu };
constexpr std::array<std::string_view, 3> names_of(OptimizerState) { return {"fp32", "bf16_sr", "cpu"}; }

enum class Schedule { kCosine, kConstant };
constexpr std::array<std::string_view, 2> names_of(Schedule) { return {"cosine", "constant"}; }

struct LossConfig {
  Objective objective = Objective::kClip;
  double clip_low = 0.2, clip_high = 0.28;
  double negative_weight = 1;
  bool normalize_advantages = false;
  double kl_coef = 0;
  KlType kl_type = KlType::kK3;
  double entropy_coef = 0;
  Tis tis = Tis::kToken;
  double tis_cap = 2;
  bool tis_on_policy = false;
  double mask_divergence = 0;
  RatioBase ratio_base = RatioBase::kTrainer;
  Aggregation aggregation = Aggregation::kTokenMean;
  int64_t constant_tokens = 1024;

  template <typename Visitor>
  void describe(Visitor& v) {
    v("objective", objective, "what is done with the ratio of policy and old policy (train/losses.h)");
    v("clip_low", clip_low, in(0, 1), "lower clip of the ratio: 1 - clip_low");
    v("clip_high", clip_high, at_least(0), "upper clip of the ratio: 1 + clip_high (DAPO's is above clip_low)");
    v("negative_weight", negative_weight, at_least(0),
      "factor of negative advantages: 1 = GRPO, 0 = only what did better than its group is learned from (RAFT)");
    v("normalize_advantages", normalize_advantages,
      "advantages less their mean, over their deviation, of all tokens of the step (REINFORCE++)");
    v("kl_coef", kl_coef, at_least(0), "weight of the KL towards the reference model; 0 loads no reference");
    v("kl_type", kl_type, "KL estimator: k1 as a penalty in the advantage, k2 and k3 in the loss");
    v("entropy_coef", entropy_coef, at_least(0), "weight of the entropy bonus");
    v("tis", tis, "importance weight towards the sampler: of each token, or of a sequence's tokens together");
    v("tis_cap", tis_cap, at_least(0),
      "its cap (truncated importance sampling): corrects tokens of older weights; 0 = off");
    v("tis_on_policy", tis_on_policy,
      "corrects tokens of the current weights, too, for how sampler and trainer differ");
    v("mask_divergence", mask_divergence, at_least(0),
      "leaves out sequences with a negative advantage whose mean log-ratio of sampler and policy is above; 0 = off");
    v("ratio_base", ratio_base, "denominator of the ratio: trainer is recomputed");
    v("aggregation", aggregation,
      "over tokens and sequences; constant divides by sequences * constant_tokens (Dr.GRPO)");
    v("constant_tokens", constant_tokens, at_least(1), "divisor per sequence where aggregation is constant");
  }
  void validate() const;  // throws kUsage naming the field
};

struct TrainConfig {
  std::string model;
  bool init_random = false;
  std::string reference_model;
  std::string dtype = "bfloat16", device = "cpu";
  int64_t threads = 0, seed = 0;

  double lr = 1e-5, min_lr = 1e-6;
  Schedule schedule = Schedule::kCosine;
  int64_t warmup_steps = 0, total_steps = 1000;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.98, eps = 1e-8;
  double clip_grad = 1.0;
  OptimizerState optimizer_state = OptimizerState::kFp32;

  int64_t max_tokens_per_micro_batch = 8192;
  int64_t optimizer_steps_per_batch = 1;
  int64_t max_staleness = -1;
  bool share_prefixes = true;
  bool autograd = false, deterministic = false;
  int64_t recompute_layers = -1, recompute_qkv_layers = 0;
  int64_t lm_head_chunk = 1024;
  LossConfig loss;

  std::string checkpoint;
  int64_t checkpoint_interval = 0, keep_checkpoints = 2, stop_interval = 1;
  double watchdog_s = 600;
  std::string run_id;  // "" = from the checkpoint's path
  double buffer_timeout_s = 120;
  parallel::ParallelDims parallel;

  template <typename Visitor>
  void describe(Visitor& v) {
    v("model", model, by_run(), "Hugging Face folder or GGUF file to start from");
    v("init_random", init_random, "start from random weights (by seed) in the shape of the model's config.json");
    v("reference_model", reference_model, "model of the KL term; empty = the start weights");
    v("dtype", dtype, by_run(), one_of({"float32", "bfloat16"}),
      "of weights and activations; bfloat16 has fp32 master weights");
    v("device", device, by_run(), "cpu, cuda or cuda:N");
    v("threads", threads, at_least(0), "CPU threads; 0 = all cores, shared out among the ranks of a host");
    v("seed", seed, by_run(), "of random weights and of the split into mini-batches");
    v("lr", lr, at_least(0), "peak learning rate");
    v("min_lr", min_lr, at_least(0), "learning rate at the end of the cosine");
    v("schedule", schedule, "both after a linear warm-up");
    v("warmup_steps", warmup_steps, at_least(0), "steps of linear warm-up");
    v("total_steps", total_steps, by_run(), at_least(1), "steps over which the cosine falls");
    v("weight_decay", weight_decay, at_least(0), "decoupled decay; never of norms, biases and other vectors");
    v("beta1", beta1, at_least(0), below(1), "AdamW: decay of the first moment");
    v("beta2", beta2, at_least(0), below(1), "AdamW: decay of the second moment");
    v("eps", eps, above(0), "AdamW: added to the root of the second moment");
    v("clip_grad", clip_grad, at_least(0), "largest global gradient norm; 0 = no clip");
    v("optimizer_state", optimizer_state,
      "fp32: masters, moments and gradients; bf16_sr (GPU): no masters, moments and gradients in bfloat16, rounded at "
      "random: 8 bytes a weight in all, not 18; cpu: fp32's, masters and moments in the host's memory and updated by "
      "its cores: 6 bytes a weight on the GPU, 12 on the host");
    v("max_tokens_per_micro_batch", max_tokens_per_micro_batch, at_least(1), "tokens packed into one forward pass");
    v("optimizer_steps_per_batch", optimizer_steps_per_batch, at_least(1), "mini-batches, each with its own update");
    v("max_staleness", max_staleness, by_run(), at_least(-1),
      "weight versions that a token may be behind the current one; sequences with an older one are left out; -1 = any");
    v("share_prefixes", share_prefixes,
      "tokens that sequences of a micro-batch begin with together are computed once, where that saves operations");
    v("autograd", autograd,
      "gradients through libtorch's autograd, the reference, also where the trainer has a backward pass of its own");
    v("deterministic", deterministic,
      "two runs on one machine give the same bits: no kernel is chosen by its time, none adds in an order of chance");
    v("recompute_layers", recompute_layers, at_least(-1),
      "first layers whose activations are computed again in the backward pass; -1 = as few as the GPU's memory "
      "demands, "
      "none on the CPU");
    v("recompute_qkv_layers", recompute_qkv_layers, at_least(0),
      "layers after those of which q, k and v are computed again (GPU); chosen, too, where recompute_layers is -1");
    v("lm_head_chunk", lm_head_chunk, at_least(1), "rows of logits that exist at a time");
    v("loss", loss, "the reinforcement learning loss");
    v("checkpoint", checkpoint, by_run(), "folder of checkpoints; empty = none");
    v("checkpoint_interval", checkpoint_interval, at_least(0), "steps between checkpoints; 0 = only on /save");
    v("keep_checkpoints", keep_checkpoints, at_least(1), "newest checkpoints that are kept");
    v("stop_interval", stop_interval, by_run(), at_least(1),
      "steps after whose multiples, and after the last step, a stop saves; after any other it leaves the last "
      "checkpoint");
    v("watchdog_s", watchdog_s, at_least(0),
      "seconds without progress after which a step counts as hung: /health is red and names the part; 0 = never");
    v("run_id", run_id, by_run(), "names the shared-memory folder of published weights");
    v("buffer_timeout_s", buffer_timeout_s, at_least(0.001),
      "seconds that the buffer may take to hand over a lease before the step fails");
    v("parallel", parallel, "parallel degrees");
  }
  void validate() const;  // throws kUsage naming the field, kUnsupported naming the degree
  // Why optimizer_state is not for a model of this dtype there, in one line; empty where it is.
  std::string states_refusal(const std::string& on_device, const std::string& of_dtype) const;
  // Whether a trainer that is stopped after so many steps may be gone on with from there.
  bool may_stop_at(int64_t step) const { return step % stop_interval == 0 || step == total_steps; }
  void validate_job() const;  // every option, and the model and folders, which a recipe leaves to the orchestrator
};

// What a trainer process is started with beside its config.
struct ServiceOptions {
  TrainConfig config;
  bool resume = false;
  bool share_device = false;
  std::string buffer, peer_api_key;
  std::string weights_host, weights_key;
  bool weights_in_parts = false;
  parallel::WorldOptions ranks;

  template <typename Visitor>
  void describe(Visitor& v) {
    v.part(ranks);
    v("resume", resume, "go on from the newest checkpoint of the config's folder, which is refused otherwise");
    v("share_device", share_device,
      "hold the device's lock while a step computes, so that an evaluator can measure alone");
    v("buffer", buffer, in_form(base_url),
      "URL of the rollout buffer to which trained leases are committed until a step names it");
    v("weights_host", weights_host,
      "address at which published weights are served to engines of other hosts, with the key of "
      "TRITONFORGE_WEIGHTS_KEY; empty: nowhere");
    v("weights_in_parts", weights_in_parts,
      "weights are asked of it from all ranks at once alone (\"to\": \"group\"), so that nothing else is served there");
  }
};

}  // namespace tritonforge::train
