#include "train/packing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/sample.h"
#include "train/to_device.h"

namespace tritonforge::train {
int64_t target_count(const TrainSequence& sequence) {
  return std::count_if(sequence.loss_mask.begin(), sequence.loss_mask.end(), [](uint8_t m) { return m != 0; });
}

std::vector<std::vector<size_t>> pack_lengths(const std::vector<int64_t>& lengths, int64_t capacity) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> bins;
  std::vector<int64_t> room;
  for (const size_t index : order) {
    TF_CHECK(lengths[index] <= capacity, "a sequence of {} tokens in a micro-batch of {}", lengths[index], capacity);
    const auto fit = std::find_if(room.begin(), room.end(), [&](int64_t r) { return r >= lengths[index]; });
    const auto bin = static_cast<size_t>(fit - room.begin());
    if (fit == room.end()) {
      room.push_back(capacity);
      bins.emplace_back();
    }
    room[bin] -= lengths[index];
    bins[bin].push_back(index);
  }
  return bins;
}

namespace {

// The most expensive first, each into the cheapest bin with room; empty where one finds none.
std::vector<std::vector<size_t>> even_bins(const std::vector<int64_t>& lengths, const std::vector<double>& costs,
                                           const std::vector<size_t>& order, int64_t capacity, size_t count) {
  std::vector<std::vector<size_t>> bins(count);
  std::vector<double> cost(count);
  std::vector<int64_t> room(count, capacity);
  for (const size_t index : order) {
    size_t cheapest = count;
    for (size_t bin = 0; bin < count; ++bin) {
      if (room[bin] >= lengths[index] && (cheapest == count || cost[bin] < cost[cheapest])) cheapest = bin;
    }
    if (cheapest == count) return {};
    bins[cheapest].push_back(index);
    cost[cheapest] += costs[index];
    room[cheapest] -= lengths[index];
  }
  return bins;
}

}  // namespace

std::vector<std::vector<std::vector<size_t>>> share_out(const std::vector<int64_t>& lengths,
                                                        const std::vector<double>& costs, int64_t capacity,
                                                        int64_t ranks) {
  std::vector<std::vector<size_t>> bins = pack_lengths(lengths, capacity);
  if (ranks == 1) return {std::move(bins)};
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  const auto step = static_cast<size_t>(ranks);
  size_t count = (bins.size() + step - 1) / step * step;
  while ((bins = even_bins(lengths, costs, order, capacity, count)).empty() && !lengths.empty()) count += step;
  std::erase_if(bins, [](const auto& bin) { return bin.empty(); });
  const auto cost_of = [&](const std::vector<size_t>& bin) {
    return std::accumulate(bin.begin(), bin.end(), 0.0, [&](double sum, size_t index) { return sum + costs[index]; });
  };
  std::stable_sort(bins.begin(), bins.end(), [&](const auto& a, const auto& b) { return cost_of(a) > cost_of(b); });
  // One each in a round, there and back: who had the most expensive one has the cheapest of the next.
  std::vector<std::vector<std::vector<size_t>>> shares(step);
  for (size_t i = 0; i < bins.size(); ++i) {
    const size_t place = i % step;
    shares[i / step % 2 == 0 ? place : step - 1 - place].push_back(std::move(bins[i]));
  }
  return shares;
}

int64_t check_sequences(std::span<const TrainSequence> sequences, const TrainConfig& config, int64_t vocab_size,
                        int64_t max_position) {
  int64_t targets = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TrainSequence& s = sequences[i];
    const std::string name = s.trajectory_id.empty() ? fmt::format("sequences[{}]", i)
                                                     : fmt::format("sequences[{}] ({})", i, s.trajectory_id);
    const size_t n = s.tokens.size();
    if (n == 0) fail(ErrorKind::kUsage, "{} has no tokens", name);
    const auto same = [&](const char* field, size_t size) {
      if (size != n) fail(ErrorKind::kUsage, "{}: {} has {} entries for {} tokens", name, field, size, n);
    };
    same("loss_mask", s.loss_mask.size());
    same("old_log_probs", s.old_log_probs.size());
    same("advantages", s.advantages.size());
    same("weight_versions", s.weight_versions.size());
    if (s.loss_mask[0]) fail(ErrorKind::kUsage, "{}: loss_mask[0] is set, but nothing predicts the first token", name);
    if (static_cast<int64_t>(n) > config.max_tokens_per_micro_batch) {
      fail(ErrorKind::kUsage, "{} has {} tokens; max_tokens_per_micro_batch is {}", name, n,
           config.max_tokens_per_micro_batch);
    }
    if (static_cast<int64_t>(n) > max_position)
      fail(ErrorKind::kUsage, "{} has {} tokens; the model has {} positions", name, n, max_position);
    if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
      fail(ErrorKind::kUsage, "{}: temperature {} is not a temperature", name, s.temperature);
    for (size_t t = 0; t < n; ++t) {
      if (s.tokens[t] < 0 || s.tokens[t] >= vocab_size) {
        fail(ErrorKind::kUsage, "{}: token {} at {} is outside the vocabulary of {}", name, s.tokens[t], t, vocab_size);
      }
      if (s.loss_mask[t] && !(std::isfinite(s.old_log_probs[t]) && std::isfinite(s.advantages[t]))) {
        fail(ErrorKind::kUsage, "{}: log-prob {} or advantage {} at {} is not finite", name, s.old_log_probs[t],
             s.advantages[t], t);
      }
    }
    targets += target_count(s);
  }
  return targets;
}

int64_t forward_length(const TrainSequence& sequence) {
  const auto last = std::find_if(sequence.loss_mask.rbegin(), sequence.loss_mask.rend(),
                                 [](uint8_t m) { return m != 0; });
  return last == sequence.loss_mask.rend() ? 0 : sequence.loss_mask.rend() - last - 1;
}

std::vector<double> loss_weights(std::span<const TrainSequence> sequences, const LossConfig& loss) {
  std::vector<int64_t> counts;
  int64_t tokens = 0, trained = 0;
  for (const TrainSequence& sequence : sequences) {
    counts.push_back(target_count(sequence));
    tokens += counts.back();
    trained += counts.back() > 0;
  }
  std::vector<double> weights;
  for (const int64_t count : counts) {
    double& weight = weights.emplace_back(0.0);
    if (count == 0) continue;  // no target carries it
    switch (loss.aggregation) {
      case Aggregation::kTokenMean: weight = 1.0 / static_cast<double>(tokens); break;
      case Aggregation::kSeqMeanTokenSum: weight = 1.0 / static_cast<double>(trained); break;
      case Aggregation::kSeqMeanTokenMean: weight = 1.0 / static_cast<double>(trained * count); break;
      case Aggregation::kConstant: weight = 1.0 / static_cast<double>(trained * loss.constant_tokens); break;
    }
  }
  return weights;
}

void normalize_advantages(std::span<TrainSequence> sequences) {
  double count = 0, sum = 0, squares = 0;
  const auto each_target = [&](auto visit) {
    for (TrainSequence& s : sequences) {
      for (size_t t = 0; t < s.tokens.size(); ++t) {
        if (s.loss_mask[t]) visit(s.advantages[t]);
      }
    }
  };
  each_target([&](float advantage) {
    count += 1;
    sum += advantage;
  });
  const double mean = count > 0 ? sum / count : 0;
  each_target([&](float advantage) { squares += (advantage - mean) * (advantage - mean); });
  const double scale = 1 / std::sqrt(std::max(count > 0 ? squares / count : 0, 1e-8));
  each_target([&](float& advantage) { advantage = static_cast<float>((advantage - mean) * scale); });
}

bool has_gradient(const TrainSequence& sequence, const LossConfig& loss) {
  if (loss.kl_coef > 0 || loss.entropy_coef > 0) return true;
  for (size_t t = 0; t < sequence.tokens.size(); ++t) {
    const float advantage = sequence.advantages[t];
    if (sequence.loss_mask[t] && (advantage > 0 || (advantage < 0 && loss.negative_weight > 0))) return true;
  }
  return false;
}

int64_t staleness_of(const TrainSequence& sequence, std::span<const int64_t> current_versions) {
  if (current_versions.empty()) return 0;
  const int64_t newest = *std::max_element(current_versions.begin(), current_versions.end());
  int64_t oldest = newest;
  for (size_t t = 0; t < sequence.tokens.size(); ++t) {
    if (sequence.loss_mask[t]) oldest = std::min(oldest, sequence.weight_versions[t]);
  }
  return newest - oldest;
}

int64_t tokens_of(std::span<const Segment> segments) {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0},
                         [](int64_t sum, const Segment& s) { return sum + s.end - s.begin; });
}

std::vector<Segment> whole_sequences(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices) {
  std::vector<Segment> segments;
  for (const size_t index : indices) segments.push_back({index, 0, forward_length(sequences[index])});
  return segments;
}

MicroBatch pack_micro_batch(std::span<const TrainSequence> sequences, const std::vector<Segment>& segments,
                            const std::vector<double>& weights, const std::vector<int64_t>& current_versions,
                            bool pinned) {
  std::vector<int64_t> ids, positions, rows, targets, lengths;
  std::vector<float> weight, inverse_temperature, sampler, advantages, on_policy;
  bool any_temperature = false;
  MicroBatch batch;
  batch.cu_seqlens.push_back(0);
  for (const Segment& segment : segments) {
    const TrainSequence& s = sequences[segment.sequence];
    const int64_t start = batch.cu_seqlens.back();
    const float inverse = kernels::inverse_temperature(static_cast<float>(s.temperature));
    if (segment.has_targets) {
      batch.shared_tokens += segment.end;
      if (segment.end > 0) lengths.push_back(target_count(s));
    }
    // Behind a token of older weights, to the end of its answer, the sampler's KV cache holds keys of those, too.
    bool on_current_cache = true;
    for (int64_t t = segment.begin; t < segment.end; ++t) {
      ids.push_back(s.tokens[t]);
      positions.push_back(t);
      const int64_t target = t + 1;
      if (!segment.has_targets || !s.loss_mask[target]) {
        on_current_cache = true;  // the next answer has a new one
        continue;
      }
      rows.push_back(start + t - segment.begin);
      targets.push_back(s.tokens[target]);
      weight.push_back(static_cast<float>(weights[segment.sequence]));
      inverse_temperature.push_back(inverse);
      any_temperature |= inverse != 1.0f;
      sampler.push_back(s.old_log_probs[target]);
      advantages.push_back(s.advantages[target]);
      const bool current = std::find(current_versions.begin(), current_versions.end(), s.weight_versions[target]) !=
                           current_versions.end();
      on_current_cache = on_current_cache && current;
      on_policy.push_back(on_current_cache ? 1.0f : 0.0f);
    }
    batch.cu_seqlens.push_back(start + segment.end - segment.begin);
    batch.parents.push_back(segment.parent);
    batch.before.push_back(segment.begin);
  }
  batch.tokens = static_cast<int64_t>(ids.size());
  batch.target_count = static_cast<int64_t>(rows.size());
  batch.shared_tokens -= batch.tokens;
  batch.ids = on_host(ids, pinned);
  batch.positions = on_host(positions, pinned);
  batch.rows = on_host(rows, pinned);
  batch.targets = on_host(targets, pinned);
  batch.weights = on_host(weight, pinned);
  if (any_temperature) batch.inverse_temperature = on_host(inverse_temperature, pinned);
  batch.sampler_log_probs = on_host(sampler, pinned);
  batch.advantages = on_host(advantages, pinned);
  batch.on_policy = on_host(on_policy, pinned);
  batch.lengths = on_host(lengths, pinned);
  batch.host_ids = std::move(ids);
  batch.host_rows = std::move(rows);
  return batch;
}

MicroBatch to_device(MicroBatch batch, at::Device device) {
  for (at::Tensor* of :
       {&batch.ids, &batch.positions, &batch.rows, &batch.targets, &batch.weights, &batch.inverse_temperature,
        &batch.sampler_log_probs, &batch.advantages, &batch.on_policy, &batch.lengths}) {
    if (of->defined()) *of = of->to(device, /*non_blocking=*/true);
  }
  return batch;
}

MicroBatch make_micro_batch(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices,
                            const std::vector<double>& weights, const std::vector<int64_t>& current_versions,
                            at::Device device) {
  return to_device(
      pack_micro_batch(sequences, whole_sequences(sequences, indices), weights, current_versions, device.is_cuda()),
      device);
}

}  // namespace tritonforge::train
