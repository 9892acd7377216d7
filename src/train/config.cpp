#include "train/config.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tritonforge::train {
namespace {

void check_choice(const char* field, const std::string& value, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    fail(ErrorKind::kUsage, "{}: unknown value '{}'{}", field, value, nearest_hint(value, known));
  }
}

template <typename T>
void check_least(const char* field, T value, T least) {
  if (!(value >= least)) fail(ErrorKind::kUsage, "{} must be at least {}, not {}", field, least, value);
}

void check_fraction(const char* field, double value) {
  if (!(value >= 0 && value < 1)) fail(ErrorKind::kUsage, "{} must be in [0, 1), not {}", field, value);
}

}  // namespace

void LossConfig::validate() const {
  check_fraction("loss.clip_low", clip_low);
  check_least("loss.clip_high", clip_high, 0.0);
  check_least("loss.negative_weight", negative_weight, 0.0);
  check_least("loss.kl_coef", kl_coef, 0.0);
  check_choice("loss.kl_type", kl_type, {"k1", "k2", "k3"});
  check_least("loss.entropy_coef", entropy_coef, 0.0);
  check_least("loss.tis_cap", tis_cap, 0.0);
  check_choice("loss.ratio_base", ratio_base, {"trainer", "sampler"});
  check_choice("loss.aggregation", aggregation,
               {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "constant"});
  check_least<int64_t>("loss.constant_tokens", constant_tokens, 1);
  if (tis_cap > 0 && ratio_base == "sampler") {
    fail(ErrorKind::kUsage,
         "loss.tis_cap: a ratio over the sampler is corrected already; set ratio_base to trainer or tis_cap to 0");
  }
}

void TrainConfig::validate() const {
  check_choice("dtype", dtype, {"float32", "bfloat16"});
  if (device != "cpu" && device != "cuda" && device.rfind("cuda:", 0) != 0) {
    fail(ErrorKind::kUsage, "device: unknown value '{}'{}", device, nearest_hint(device, {"cpu", "cuda", "cuda:0"}));
  }
  check_least<int64_t>("threads", threads, 0);
  check_least("lr", lr, 0.0);
  check_least("min_lr", min_lr, 0.0);
  check_choice("schedule", schedule, {"cosine", "constant"});
  if (schedule == "cosine" && min_lr > lr) fail(ErrorKind::kUsage, "min_lr {} is above lr {}", min_lr, lr);
  check_least<int64_t>("warmup_steps", warmup_steps, 0);
  check_least<int64_t>("total_steps", total_steps, 1);
  check_least("weight_decay", weight_decay, 0.0);
  check_fraction("beta1", beta1);
  check_fraction("beta2", beta2);
  if (!(eps > 0)) fail(ErrorKind::kUsage, "eps must be above 0, not {}", eps);
  check_least("clip_grad", clip_grad, 0.0);
  check_least<int64_t>("max_tokens_per_micro_batch", max_tokens_per_micro_batch, 1);
  check_least<int64_t>("optimizer_steps_per_batch", optimizer_steps_per_batch, 1);
  check_least<int64_t>("recompute_layers", recompute_layers, 0);
  check_least<int64_t>("lm_head_chunk", lm_head_chunk, 1);
  check_least<int64_t>("checkpoint_interval", checkpoint_interval, 0);
  check_least<int64_t>("keep_checkpoints", keep_checkpoints, 1);
  check_least("buffer_timeout_s", buffer_timeout_s, 0.001);
  if (run_id.find('/') != std::string::npos) fail(ErrorKind::kUsage, "run_id '{}' must not contain '/'", run_id);
  if (init_random && loss.kl_coef > 0 && reference_model.empty()) {
    fail(ErrorKind::kUsage, "loss.kl_coef with init_random needs a reference_model");
  }
}

void TrainConfig::validate_job() const {
  validate();
  if (model.empty()) fail(ErrorKind::kUsage, "model is missing: a Hugging Face folder or a GGUF file");
  if (checkpoint_interval > 0 && checkpoint.empty())
    fail(ErrorKind::kUsage, "checkpoint_interval is set but no checkpoint folder");
}

}  // namespace tritonforge::train
