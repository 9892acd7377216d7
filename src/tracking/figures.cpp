#include "tracking/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tritonforge::tracking {
namespace {

// clang-format off
constexpr FigureName kNames[] = {
    {"loss", "train/loss", "train/loss", "loss of the step, all its terms"},
    {"entropy", "train/entropy_loss", "train/entropy_loss", "mean entropy of the distributions over the next token"},
    {"clip_fraction", "train/pg_clipfrac", "train/pg_clipfrac", "share of tokens whose ratio was clipped"},
    {"kl", "train/kl_loss", "train/kl_loss", "KL towards the reference model"},
    {"kl_rollout", "train/kl_rollout", "near train/ppo_kl: k3 estimate, from the sampler's log-probabilities",
     "KL of the sampler's distribution from the trainer's"},
    {"grad_norm", "train/grad_norm", "train/grad_norm", "norm of the gradient before clipping"},
    {"lr", "train/lr-pg_0", "train/lr-pg_0", "learning rate; there is one group of parameters"},
    {"importance_mean", "train/importance_mean", "", "mean ratio of the new policy to the sampler's"},
    {"on_policy_fraction", "train/on_policy_fraction", "", "share of tokens sampled from the weights of this step"},
    {"masked_fraction", "train/masked_fraction", "", "share of tokens left out by off-policy sequence masking"},
    {"stale_sequences", "train/stale_sequences", "", "sequences left out as too old"},
    {"train_rollout_logprob_abs_diff", "train/train_rollout_logprob_abs_diff", "",
     "mean difference of trainer's and sampler's log-probability of a token"},
    {"train_rollout_logprob_abs_diff_p99", "train/train_rollout_logprob_abs_diff_p99", "", "its 99th percentile"},
    {"train_rollout_logprob_abs_diff_max", "train/train_rollout_logprob_abs_diff_max", "", "its maximum"},
    {"tokens", "train/tokens", "", "tokens that the step computed"},
    {"target_tokens", "train/target_tokens", "", "tokens with loss"},
    {"shared_tokens", "train/shared_tokens", "", "tokens not computed again, as another sequence begins with the same"},
    {"sequences", "train/sequences", "", "sequences of the step"},
    {"micro_batches", "train/micro_batches", "", "micro-batches of the step"},
    {"skipped_updates", "train/skipped_updates", "", "updates without a finite gradient, or without a target"},
    {"reward_mean", "rollout/raw_reward", "rollout/raw_reward", "mean reward of the step's trajectories"},
    {"advantage_mean", "rollout/advantages", "rollout/advantages", "mean advantage of the tokens"},
    {"trajectories", "rollout/no_filter/total_samples", "rollout/no_filter/total_samples",
     "trajectories generated for the step"},
    {"", "rollout/response_lengths", "rollout/response_lengths",
     "response tokens a trajectory: response_tokens / trajectories"},
    {"response_tokens", "rollout/response_tokens", "", "response tokens of the step, all together"},
    {"failed", "rollout/failed", "", "trajectories that a failure of the system ended"},
    {"groups", "rollout/groups", "", "groups of the step"},
    {"zero_variance_groups", "rollout/zero_variance_groups", "", "groups whose rewards are all equal"},
    {"dropped", "rollout/dropped", "", "groups that taught nothing and were not sent"},
    {"replayed", "rollout/replayed", "", "groups of earlier steps that the step trained on again"},
    {"turns_mean", "multi_turn/multi_turn_metric/round_number_mean", "multi_turn/multi_turn_metric/round_number_mean",
     "turns a trajectory"},
    {"pass_rate", "passrate/correctness_pass@1", "passrate/correctness_pass@1", "share of correct trajectories"},
    {"compile_rate", "passrate/compilation_pass@1", "passrate/compilation_pass@1",
     "share of trajectories that compile"},
    {"pass_rate_first_turn", "passrate/correctness_first_turn", "", "share that is correct in the first turn"},
    {"collect_s", "perf/train_wait_time", "perf/train_wait_time", "seconds the step waited for its groups"},
    {"train_s", "perf/train_time", "perf/train_time", "seconds of the training step, its request included"},
    {"sync_s", "perf/update_weights_time", "perf/update_weights_time", "seconds until the engines had the new weights"},
    {"seconds", "perf/total_train_time", "perf/total_train_time", "seconds of the whole step"},
    {"", "perf/wait_time_ratio", "perf/wait_time_ratio", "share of the step spent waiting: collect_s / seconds"},
    {"idle_actor", "perf/idle_actor", "", "share of the step in which the trainer stood idle"},
    {"idle_rollout", "perf/idle_rollout", "", "the same of the engines, their mean"},
    {"idle_eval", "perf/idle_eval", "", "the same of the evaluator's workers"},
    {"seconds_fetch", "perf/data_fetch_time", "", "seconds of fetching and reading what had not come ahead"},
    {"seconds_wait", "perf/device_wait_time", "", "seconds waiting for a shared device, or for a publication to end"},
    {"seconds_pack", "perf/data_preprocess_time", "perf/data_preprocess_time",
     "seconds of copying, and of packing what had not come ahead"},
    {"seconds_scores", "perf/log_probs_time",
     "near perf/log_probs_time: with perf/ref_log_probs_time, which is not told apart",
     "seconds of log-probabilities of the reference and of the weights before"},
    {"", "perf/actor_train_time", "perf/actor_train_time", "seconds of forward, loss, backward and update"},
    {"seconds_forward", "perf/forward_time", "", "seconds of the forward passes"},
    {"seconds_loss", "perf/loss_time", "", "seconds of the losses"},
    {"seconds_backward", "perf/backward_time", "", "seconds of the backward passes"},
    {"seconds_update", "perf/update_time", "", "seconds of the optimizer"},
    {"tflops", "perf/actor_train_tflops", "perf/actor_train_tflops", "1e12 operations a second, by the model's formula"},
    {"mfu", "perf/mfu", "", "their share of the device's data sheet"},
    {"of_product_rate", "perf/of_product_rate", "", "their share of one large product's rate on this device"},
    {"memory_gib", "perf/memory_gib", "", "memory in use"},
    {"tokens_per_s", "perf/tokens_per_s", "", "tokens computed a second"},
    {"generate_request_s", "perf/generate_request_time", "", "seconds of all requests to the engines, added up"},
    {"evaluate_request_s", "perf/evaluate_request_time", "", "seconds of all requests to the evaluator, added up"},
};
// clang-format on

std::optional<double> number(const Json& line, std::string_view figure) {
  const auto found = line.find(figure);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> computed(std::string_view key, const Json& line) {
  const auto ratio = [&](std::string_view part, std::string_view whole) -> std::optional<double> {
    const auto a = number(line, part), b = number(line, whole);
    return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
  };
  if (key == "rollout/response_lengths") return ratio("response_tokens", "trajectories");
  if (key == "perf/wait_time_ratio") return ratio("collect_s", "seconds");
  TF_CHECK(key == "perf/actor_train_time", "nothing computes {}", key);
  double sum = 0;
  for (const char* part : {"seconds_forward", "seconds_loss", "seconds_backward", "seconds_update"}) {
    const auto seconds = number(line, part);
    if (!seconds) return std::nullopt;
    sum += *seconds;
  }
  return sum;
}

}  // namespace

std::span<const FigureName> figure_names() { return kNames; }

std::string sft_key(std::string_view key) { return "sft/" + std::string(key.substr(key.rfind('/') + 1)); }

std::string_view axis_of(std::string_view key) {
  if (key.starts_with("sft/")) return "sft/step";
  if (key.starts_with("eval/")) return "eval/step";
  return key.starts_with("train/") ? "train/step" : "rollout/step";
}

Point point_of_step(const Json& line) {
  const std::string where = "steps.jsonl";
  const bool sft = require<std::string>(line, "stage", where) == "sft";
  Point point{.step = require<int64_t>(line, "step", where),
              .time = optional_field<double>(line, "time", 0, where),
              .values = {}};
  for (const FigureName& name : kNames) {
    const auto value = name.figure.empty() ? computed(name.key, line) : number(line, name.figure);
    if (value) point.values.emplace_back(sft ? sft_key(name.key) : std::string(name.key), *value);
  }
  return point;
}

Point point_of_row(const Json& row, int64_t index, double time) {
  Point point{.step = index, .time = time, .values = {}};
  const std::string prefix = fmt::format("eval/turns_{}/", optional_field<int64_t>(row, "turns", 1, "state.json"));
  for (const char* figure : {"pass_at_1", "compile_rate", "samples", "failed", "geo_mean_speedup", "median_speedup",
                             "torch_compile_geo_mean_speedup", "torch_compile_median_speedup"})
    if (const auto value = number(row, figure)) point.values.emplace_back(prefix + figure, *value);
  for (const std::string baseline : {"", "torch_compile_"}) {
    const auto fast = row.find(baseline + "fast_p");
    if (fast == row.end() || !fast->is_object()) continue;
    for (const auto& [threshold, share] : fast->items())
      if (share.is_number()) point.values.emplace_back(prefix + baseline + "fast_" + threshold, share.get<double>());
  }
  return point;
}

std::string prometheus_name(std::string_view key) {
  std::string name = "tritonforge_run_";
  for (const char c : key) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

std::string metrics_reference() {
  std::string text =
      "# Metrics of a run\n\nPrinted by `tritonforge track --names`. A figure is a field of RUN/steps.jsonl; its key "
      "is "
      "what TensorBoard,\nWeights & Biases and MLflow (`tracking` of a recipe, `tritonforge track RUN`) get it as, "
      "over "
      "`train/step` (train/) or\n`rollout/step` (the rest). A step of SFT has `sft/` and the key's last part, over "
      "`sft/step`. Prometheus gets the last\nstep's from the dashboard's `/metrics`: the key with `tritonforge_run_` "
      "before it and `_` for what is no letter or\ndigit. Rows of a bench are `eval/turns_N/pass_at_1`, "
      "`compile_rate`, `samples`, `failed`, `geo_mean_speedup`,\n`median_speedup` and `fast_P` (against eager; against "
      "torch.compile with `torch_compile_` before the name), over\n`eval/step`: 0 for the first model measured, 1 for "
      "the next. MLflow takes no `@`: `pass@1` is `pass_at_1` there.\n\n"
      "| figure | key | the original TritonForge's | what it is |\n| --- | --- | --- | --- |\n";
  for (const FigureName& name : kNames)
    text += fmt::format("| {} | `{}` | {} | {} |\n",
                        name.figure.empty() ? "(computed)" : fmt::format("`{}`", name.figure), name.key,
                        name.original == name.key ? "the same" : name.original, name.help);
  return text +
         "\nNames of the original that have no counterpart: `train/pg_loss` (a part of `train/loss`, not told apart),\n"
         "`rollout/{total_lengths,truncated,log_probs,ref_log_probs,returns}`, `passrate/pass@k` for k above 1,\n"
         "`multi_turn/*_response_length/*`, `perf/{sleep,wake_up}_time` and the two TFLOP rates of scoring.\n";
}

}  // namespace tritonforge::tracking
