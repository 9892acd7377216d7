#pragma once
// Everything that decides a training run, validated before any work and stored beside every checkpoint.
#include <cstdint>
#include <string>

#include "parallel/dims.h"

namespace tritonforge::train {

struct LossConfig {
  double clip_low = 0.2;  // ratio is held in [1 - clip_low, 1 + clip_high] (DAPO's asymmetric clip)
  double clip_high = 0.28;
  double negative_weight = 1;              // of negative advantages; 0 = rejection-sampling fine-tuning (RAFT)
  double kl_coef = 0;                      // towards the reference model, which is loaded only where this is above 0
  std::string kl_type = "k3";              // k1 | k2 | k3 (Schulman, "Approximating KL divergence")
  double entropy_coef = 0;                 // bonus
  double tis_cap = 0;                      // token-level truncated importance sampling; 0 = off
  std::string ratio_base = "trainer";      // whose log-probs are the ratio's denominator: trainer | sampler
  std::string aggregation = "token-mean";  // token-mean | seq-mean-token-sum | seq-mean-token-mean | constant
  int64_t constant_tokens = 1024;          // constant (Dr.GRPO): divisor is sequences * constant_tokens

  template <typename Visitor>
  void describe(Visitor& v) {
    v("clip_low", clip_low, "lower clip of the token ratio: 1 - clip_low");
    v("clip_high", clip_high, "upper clip of the token ratio: 1 + clip_high");
    v("negative_weight", negative_weight,
      "factor of negative advantages: 1 = GRPO, 0 = only what did better than its group is learned from");
    v("kl_coef", kl_coef, "weight of the KL towards the reference model; 0 loads no reference");
    v("kl_type", kl_type, "KL estimator: k1 | k2 | k3");
    v("entropy_coef", entropy_coef, "weight of the entropy bonus");
    v("tis_cap", tis_cap, "cap of the token importance weight towards the sampler; 0 = off");
    v("ratio_base", ratio_base, "denominator of the ratio: trainer (recomputed) | sampler");
    v("aggregation", aggregation, "token-mean | seq-mean-token-sum | seq-mean-token-mean | constant");
    v("constant_tokens", constant_tokens, "divisor per sequence where aggregation is constant");
  }
  void validate() const;
};

struct TrainConfig {
  std::string model;               // Hugging Face folder or GGUF file
  bool init_random = false;        // random weights (by seed) in the shape of the model's config.json
  std::string reference_model;     // "" = the start weights of `model`
  std::string dtype = "bfloat16";  // of weights and activations; bfloat16 has fp32 master weights
  std::string device = "cpu";      // cpu | cuda | cuda:N
  int64_t threads = 0;             // CPU threads; 0 = all cores
  int64_t seed = 0;

  double lr = 1e-5, min_lr = 1e-6;
  std::string schedule = "cosine";  // cosine | constant
  int64_t warmup_steps = 0, total_steps = 1000;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.98, eps = 1e-8;
  double clip_grad = 1.0;  // global norm; 0 = off

  int64_t max_tokens_per_micro_batch = 8192;
  int64_t optimizer_steps_per_batch = 1;  // > 1: the batch is split into that many mini-batches
  int64_t recompute_layers = 0;           // the first n layers keep no activations
  int64_t lm_head_chunk = 1024;           // rows of logits that exist at a time
  LossConfig loss;

  std::string checkpoint;           // folder; "" = none is written
  int64_t checkpoint_interval = 0;  // steps; 0 = only when asked
  int64_t keep_checkpoints = 2;
  std::string run_id;             // names /dev/shm/tritonforge-<run id>; "" = from the checkpoint's path
  double buffer_timeout_s = 120;  // how long a lease is asked for before the step fails
  parallel::ParallelDims parallel;

  template <typename Visitor>
  void describe(Visitor& v) {
    v("model", model, "Hugging Face folder or GGUF file to start from");
    v("init_random", init_random, "start from random weights in the shape of the model's config.json");
    v("reference_model", reference_model, "model of the KL term; empty = the start weights");
    v("dtype", dtype, "float32 | bfloat16 (with fp32 master weights)");
    v("device", device, "cpu | cuda | cuda:N");
    v("threads", threads, "CPU threads; 0 = all cores");
    v("seed", seed, "of random weights and of the split into mini-batches");
    v("lr", lr, "peak learning rate");
    v("min_lr", min_lr, "learning rate at the end of the cosine");
    v("schedule", schedule, "cosine | constant, both after a linear warm-up");
    v("warmup_steps", warmup_steps, "steps of linear warm-up");
    v("total_steps", total_steps, "steps over which the cosine falls");
    v("weight_decay", weight_decay, "decoupled decay; never of norms, biases and other vectors");
    v("beta1", beta1, "AdamW: decay of the first moment");
    v("beta2", beta2, "AdamW: decay of the second moment");
    v("eps", eps, "AdamW: added to the root of the second moment");
    v("clip_grad", clip_grad, "largest global gradient norm; 0 = no clip");
    v("max_tokens_per_micro_batch", max_tokens_per_micro_batch, "tokens packed into one forward pass");
    v("optimizer_steps_per_batch", optimizer_steps_per_batch, "mini-batches, each with its own update");
    v("recompute_layers", recompute_layers, "first layers whose activations are computed again in the backward pass");
    v("lm_head_chunk", lm_head_chunk, "rows of logits that exist at a time");
    v("loss", loss, "the reinforcement learning loss");
    v("checkpoint", checkpoint, "folder of checkpoints; empty = none");
    v("checkpoint_interval", checkpoint_interval, "steps between checkpoints; 0 = only on /save");
    v("keep_checkpoints", keep_checkpoints, "newest checkpoints that are kept");
    v("run_id", run_id, "names the shared-memory folder of published weights");
    v("buffer_timeout_s", buffer_timeout_s, "how long the buffer may take to hand over a lease");
    v("parallel", parallel, "parallel degrees");
  }
  void validate() const;      // throws kUsage naming the field, kUnsupported naming the degree
  void validate_job() const;  // and the model and folders, which a recipe leaves to the orchestrator
};

}  // namespace tritonforge::train
