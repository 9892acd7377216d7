#include "train/step_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tritonforge::train {
namespace {

std::vector<float> read_all(const std::vector<at::Tensor>& parts) {
  if (parts.empty()) return {};
  std::vector<at::Tensor> flat;
  for (const at::Tensor& part : parts) flat.push_back(part.reshape({-1}));
  const at::Tensor joined = at::cat(flat).to(at::kCPU, at::kFloat).contiguous();
  return {joined.data_ptr<float>(), joined.data_ptr<float>() + joined.numel()};
}

// Every list with all ranks' values, in their order.
void join(std::vector<std::vector<float>*> lists, parallel::Group& ranks) {
  const int64_t count = std::ssize(lists), rank = ranks.rank();
  at::Tensor sizes = at::zeros({ranks.size(), count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) sizes[rank][i] = std::ssize(*lists[static_cast<size_t>(i)]);
  ranks.all_reduce(sizes.view({-1}), "sizes of the figures")->wait();
  // One rank's values at a place each, the others' zeros.
  at::Tensor values = at::zeros({sizes.sum().item<int64_t>()}, at::kFloat);
  const at::Tensor ends = sizes.t().contiguous().view({-1}).cumsum(0);  // list by list, rank by rank
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<float>& list = *lists[static_cast<size_t>(i)];
    const int64_t end = ends[i * ranks.size() + rank].item<int64_t>();
    std::ranges::copy(list, values.mutable_data_ptr<float>() + end - std::ssize(list));
  }
  ranks.all_reduce(values, "figures")->wait();
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t end = ends[(i + 1) * ranks.size() - 1].item<int64_t>();
    lists[static_cast<size_t>(i)]->assign(values.const_data_ptr<float>() + begin, values.const_data_ptr<float>() + end);
    begin = end;
  }
}

double sum(const std::vector<float>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }
double mean(const std::vector<float>& values) {
  return values.empty() ? 0.0 : sum(values) / static_cast<double>(values.size());
}

}  // namespace

void StepRecord::add_common(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& loss) {
  tokens_ += batch.tokens;
  targets_ += batch.target_count;
  shared_ += batch.shared_tokens;
  micro_batches_ += 1;
  losses_.push_back(loss.detach());
  entropy_.push_back(scores.entropy.detach());
}

void StepRecord::add_sft(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& loss) {
  add_common(batch, scores, loss);
}

void StepRecord::add_rl(const MicroBatch& batch, const TargetScores& scores, const at::Tensor& start_log_probs,
                        const PolicyLoss& loss) {
  add_common(batch, scores, loss.loss);
  difference_.push_back(start_log_probs - batch.sampler_log_probs);
  on_policy_.push_back(batch.on_policy);
  clipped_.push_back(loss.clipped);
  importance_.push_back(loss.importance);
  masked_.push_back(loss.masked);
  advantage_.push_back(batch.advantages);
  if (loss.kl.defined()) kl_.push_back(loss.kl);
}

void StepRecord::add_update(const AdamW::Applied& applied) {
  norms_.push_back(applied.gradient_norm);
  skipped_.push_back(applied.skipped);
}

StepMetrics StepRecord::read(parallel::Group* ranks, bool speaks) {
  std::vector<float> losses = read_all(losses_), entropy = read_all(entropy_), difference = read_all(difference_),
                     on_policy = read_all(on_policy_), kl = read_all(kl_), clipped = read_all(clipped_),
                     importance = read_all(importance_), advantage = read_all(advantage_), masked = read_all(masked_);
  // In fp64, which counts beyond 2^24 one by one.
  const at::Tensor totals = at::tensor({static_cast<double>(tokens_), static_cast<double>(targets_),
                                        static_cast<double>(shared_), static_cast<double>(micro_batches_), flops_},
                                       at::kDouble);
  if (ranks != nullptr) {
    const std::vector<std::vector<float>*> lists{&losses,  &entropy,    &difference, &on_policy, &kl,
                                                 &clipped, &importance, &advantage,  &masked};
    if (!speaks) {
      for (std::vector<float>* list : lists) list->clear();
      totals.zero_();
    }
    join(lists, *ranks);
    ranks->all_reduce(totals, "counts of the step")->wait();
  }
  const double* counts = totals.const_data_ptr<double>();
  flops_ = counts[4];

  StepMetrics metrics;
  metrics.loss = sum(losses) / static_cast<double>(std::max<size_t>(norms_.size(), 1));
  metrics.grad_norm = mean(read_all(norms_));
  metrics.skipped_updates = norms_.empty() ? 1.0 : sum(read_all(skipped_));
  metrics.tokens = counts[0];
  metrics.target_tokens = counts[1];
  metrics.shared_tokens = counts[2];
  metrics.micro_batches = counts[3];
  metrics.entropy = mean(entropy);
  if (difference.empty() && stale_ == 0) return metrics;
  PolicyMetrics& policy = metrics.policy.emplace();
  policy.stale_sequences = static_cast<double>(stale_);
  if (difference.empty()) return metrics;

  // Towards the sampler.
  const bool any_on_policy = std::any_of(on_policy.begin(), on_policy.end(), [](float f) { return f != 0; });
  std::vector<float> absolute;
  double kl_rollout = 0;
  for (size_t i = 0; i < difference.size(); ++i) {
    kl_rollout += std::expm1(difference[i]) - difference[i];
    if (!any_on_policy || on_policy[i] != 0) absolute.push_back(std::fabs(difference[i]));
  }
  // A NaN has no place in an order; it shows in the mean.
  std::sort(absolute.begin(), absolute.end(),
            [](float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
  policy.train_rollout_logprob_abs_diff = mean(absolute);
  policy.train_rollout_logprob_abs_diff_p99 =
      absolute[static_cast<size_t>(std::ceil(0.99 * static_cast<double>(absolute.size()))) - 1];
  policy.train_rollout_logprob_abs_diff_max = absolute.back();
  policy.on_policy_fraction = mean(on_policy);
  policy.kl_rollout = kl_rollout / static_cast<double>(difference.size());
  policy.kl = mean(kl);
  policy.clip_fraction = mean(clipped);
  policy.importance_mean = mean(importance);
  policy.advantage_mean = mean(advantage);
  policy.masked_fraction = mean(masked);
  return metrics;
}

}  // namespace tritonforge::train
