#include "contract/sequence_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/binary.h"

namespace tritonforge {
namespace {

constexpr std::string_view kMagic = "TFSQ";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kSampled = 1;
constexpr size_t kLeastSequence = 3 * sizeof(uint32_t) + sizeof(double);  // bytes of one without id and tokens

std::string name_of(const TrainSequence& sequence, size_t index) {
  return sequence.trajectory_id.empty() ? fmt::format("sequences[{}]", index)
                                        : fmt::format("sequences[{}] ({})", index, sequence.trajectory_id);
}

// What the sampler said of the tokens with loss.
struct Sampled {
  std::vector<float> log_probs, advantages;
  std::vector<int64_t> weight_versions;
  bool any = false;  // something was sampled
};

Sampled sampled_of(const TrainSequence& s, size_t index) {
  Sampled sampled;
  for (size_t t = 0; t < s.tokens.size(); ++t) {
    const bool figures = s.old_log_probs[t] != 0 || s.advantages[t] != 0 || s.weight_versions[t] != -1;
    if (figures && !s.loss_mask[t])
      fail(ErrorKind::kUsage, "{}: token {} carries no loss, but figures of the sampler", name_of(s, index), t);
    sampled.any |= figures;
    if (!s.loss_mask[t]) continue;
    sampled.log_probs.push_back(s.old_log_probs[t]);
    sampled.advantages.push_back(s.advantages[t]);
    sampled.weight_versions.push_back(s.weight_versions[t]);
  }
  return sampled;
}

void write(BinaryWriter& out, const TrainSequence& s, size_t index) {
  const size_t n = s.tokens.size();
  const bool same = s.loss_mask.size() == n && s.old_log_probs.size() == n && s.advantages.size() == n &&
                    s.weight_versions.size() == n;
  if (!same) fail(ErrorKind::kUsage, "{}: its arrays differ in length", name_of(s, index));
  std::vector<int32_t> tokens;
  tokens.reserve(n);
  for (const int64_t token : s.tokens) {
    if (token < 0 || token > std::numeric_limits<int32_t>::max())
      fail(ErrorKind::kUsage, "{}: {} is no token id", name_of(s, index), token);
    tokens.push_back(static_cast<int32_t>(token));
  }
  const Sampled sampled = sampled_of(s, index);
  out.value(static_cast<uint32_t>(n));
  out.value(static_cast<uint32_t>(s.trajectory_id.size()));
  out.value(sampled.any ? kSampled : 0u);
  out.value(s.temperature);
  out.text(s.trajectory_id);
  out.array(std::span<const int32_t>(tokens));
  out.array(std::span<const uint8_t>(s.loss_mask));
  if (!sampled.any) return;
  out.array(std::span<const float>(sampled.log_probs));
  out.array(std::span<const float>(sampled.advantages));
  out.array(std::span<const int64_t>(sampled.weight_versions));
}

TrainSequence read(BinaryReader& in, size_t index) {
  TrainSequence s;
  std::string where = name_of(s, index);
  // Head.
  const auto n = in.value<uint32_t>(where), id_bytes = in.value<uint32_t>(where), flags = in.value<uint32_t>(where);
  if ((flags & ~kSampled) != 0) fail(ErrorKind::kUsage, "{}: unknown flags {:#x}", where, flags);
  s.temperature = in.value<double>(where);
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    fail(ErrorKind::kUsage, "{}: temperature {} is not a temperature", where, s.temperature);
  s.trajectory_id = in.text(id_bytes, where);
  where = name_of(s, index);
  // Tokens, and which of them carry loss.
  const auto tokens = in.array<int32_t>(n, where);
  s.loss_mask = in.array<uint8_t>(n, where);
  s.tokens.assign(tokens.begin(), tokens.end());
  for (size_t t = 0; t < n; ++t) {
    if (s.tokens[t] < 0) fail(ErrorKind::kUsage, "{}: token {} at {} is negative", where, s.tokens[t], t);
    if (s.loss_mask[t] > 1) fail(ErrorKind::kUsage, "{}: loss_mask holds {}, not 0 or 1", where, s.loss_mask[t]);
  }
  // What the sampler said of those.
  s.old_log_probs.assign(n, 0.0f);
  s.advantages.assign(n, 0.0f);
  s.weight_versions.assign(n, -1);
  if ((flags & kSampled) == 0) return s;
  const auto targets = static_cast<size_t>(std::count(s.loss_mask.begin(), s.loss_mask.end(), 1));
  const auto log_probs = in.array<float>(targets, where), advantages = in.array<float>(targets, where);
  const auto versions = in.array<int64_t>(targets, where);
  for (size_t t = 0, target = 0; t < n; ++t) {
    if (!s.loss_mask[t]) continue;
    s.old_log_probs[t] = log_probs[target];
    s.advantages[t] = advantages[target];
    s.weight_versions[t] = versions[target++];
  }
  return s;
}

}  // namespace

SequenceBatch batch_of_groups(const std::vector<TrainGroup>& groups) {
  SequenceBatch batch;
  double reward = 0, judged = 0;
  for (const TrainGroup& group : groups) {
    const double counts = group.replayed ? 0 : 1;
    for (const Trajectory& trajectory : group.trajectories) {
      batch.figures.trajectories += counts;
      if (ended_by_failure(trajectory)) continue;
      reward += counts * trajectory.reward;
      judged += counts;
      if (!group.teaches) continue;
      for (TrainSequence& sequence : to_train_sequences(trajectory)) batch.sequences.push_back(std::move(sequence));
    }
    batch.figures.groups += counts;
    batch.figures.zero_variance_groups += group.teaches ? 0 : counts;
  }
  if (judged > 0) batch.figures.reward_mean = reward / judged;
  return batch;
}

SequenceBatch batch_of_lease_json(const Json& lease) {
  const std::string where = "the buffer's lease";
  std::set<std::string> dropped;
  for (const Json& group : require_list(lease, "dropped", where))
    dropped.insert(require<std::string>(group, "group_id", where + ": a dropped group"));
  std::vector<TrainGroup> groups;
  for (const Json& json : require_list(lease, "groups", where)) {
    TrainGroup& group = groups.emplace_back();
    group.replayed = optional_field(json, "replayed", false, where + ": a group");
    group.teaches = !dropped.contains(require<std::string>(json, "group_id", where + ": a group"));
    for (const Json& trajectory : require_list(json, "trajectories", where + ": a group"))
      group.trajectories.push_back(trajectory_from_json(trajectory));
  }
  return batch_of_groups(groups);
}

std::string to_binary(const SequenceBatch& batch) {
  size_t tokens = 0;
  for (const TrainSequence& sequence : batch.sequences) tokens += sequence.tokens.size();
  BinaryWriter out;
  out.reserve(64 + batch.sequences.size() * 64 + tokens * 21);
  out.text(kMagic);
  out.value(kVersion);
  out.value(batch.step);
  for (const double figure : {batch.figures.groups, batch.figures.trajectories, batch.figures.zero_variance_groups,
                              batch.figures.reward_mean})
    out.value(figure);
  out.value(static_cast<uint64_t>(batch.sequences.size()));
  for (size_t i = 0; i < batch.sequences.size(); ++i) write(out, batch.sequences[i], i);
  return out.take();
}

SequenceBatch batch_from_binary(std::string_view bytes) {
  const std::string where = "training sequences";
  BinaryReader in(bytes);
  if (in.text(kMagic.size(), where) != kMagic) fail(ErrorKind::kUsage, "{}: do not begin with '{}'", where, kMagic);
  if (const auto version = in.value<uint32_t>(where); version != kVersion)
    fail(ErrorKind::kUsage, "{}: version {}, this program reads {}", where, version, kVersion);
  SequenceBatch batch;
  batch.step = in.value<int64_t>(where);
  for (double* figure : {&batch.figures.groups, &batch.figures.trajectories, &batch.figures.zero_variance_groups,
                         &batch.figures.reward_mean})
    *figure = in.value<double>(where);
  const auto count = in.value<uint64_t>(where);
  if (count > in.left() / kLeastSequence)
    fail(ErrorKind::kUsage, "{}: {} of them cannot be in {} bytes", where, count, in.left());
  batch.sequences.reserve(count);
  for (size_t i = 0; i < count; ++i) batch.sequences.push_back(read(in, i));
  if (in.left() > 0) fail(ErrorKind::kUsage, "{}: {} bytes are left over", where, in.left());
  return batch;
}

}  // namespace tritonforge
