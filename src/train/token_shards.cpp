#include "train/token_shards.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "train/to_device.h"

namespace tritonforge::train {
namespace {

int64_t size_of(const parallel::Group* group) { return group != nullptr ? group->size() : 1; }
int64_t rank_of(const parallel::Group* group) { return group != nullptr ? group->rank() : 0; }

}  // namespace

TokenShards::TokenShards(const parallel::Groups& groups, const model::ModelConfig& part, int64_t unit)
    : tp_(groups.tp),
      cp_(groups.cp),
      form_(groups.cp_form),
      tp_size_(size_of(tp_)),
      tp_rank_(rank_of(tp_)),
      cp_size_(size_of(cp_)),
      cp_rank_(rank_of(cp_)),
      unit_(unit),
      attention_(attention_of(part, cp_size_, form_)) {}

model::ModelConfig TokenShards::attention_of(const model::ModelConfig& part, int64_t cp, parallel::CpForm form) {
  if (form == parallel::CpForm::kRing) return part;
  if (part.num_heads % cp != 0 || (part.num_kv_heads % cp != 0 && cp % part.num_kv_heads != 0)) {
    fail(ErrorKind::kUsage,
         "parallel.cp {}: {} heads and {} of keys and values a tensor-parallel rank cannot be shared "
         "out to it; with cp_form ring they need not be",
         cp, part.num_heads, part.num_kv_heads);
  }
  model::ModelConfig attention = part;
  attention.num_heads /= cp;
  attention.num_kv_heads = std::max<int64_t>(1, attention.num_kv_heads / cp);
  return attention;
}

TokenShards::Rows TokenShards::rows_of(int64_t tokens, int64_t unit, int64_t tp, int64_t cp, parallel::CpForm form) {
  const int64_t multiple = std::lcm(unit, tp), each = (tokens + cp - 1) / cp,
                shard = (each + multiple - 1) / multiple * multiple;
  return {shard * cp, form == parallel::CpForm::kRing ? shard : shard * cp, shard, shard / tp};
}

void TokenShards::begin(const MicroBatch& batch) {
  tokens_ = batch.tokens;
  targets_ = batch.target_count;
  rows_ = rows_of(tokens_);
  TF_CHECK(ring() == nullptr || !batch.shares_prefixes(), "a ring computes whole sequences");
  parents_ = batch.parents;
  before_ = batch.before;
  zigzag_.emplace(batch.cu_seqlens, ring() != nullptr ? cp_size_ : 1);
  if (ring() != nullptr) {
    shard_tokens_ = zigzag_->tokens_of(cp_rank_);
    shard_places_ = to_device(shard_tokens_, batch.positions.device());
  } else {
    const int64_t first = std::min(tokens_, cp_rank_ * rows_.shard);
    shard_tokens_.resize(static_cast<size_t>(std::min(rows_.shard, tokens_ - first)));
    std::iota(shard_tokens_.begin(), shard_tokens_.end(), first);
  }
  share_out_targets(batch);
}

// Both are ascending: targets by the token that predicts each, and the shard's tokens.
void TokenShards::share_out_targets(const MicroBatch& batch) {
  std::vector<int64_t> places;
  target_rows_.clear();
  for (int64_t target = 0, row = 0; target < targets_; ++target) {
    const int64_t token = batch.host_rows[static_cast<size_t>(target)];
    while (row < std::ssize(shard_tokens_) && shard_tokens_[static_cast<size_t>(row)] < token) ++row;
    if (row == std::ssize(shard_tokens_)) break;
    if (shard_tokens_[static_cast<size_t>(row)] != token) continue;
    places.push_back(target);
    target_rows_.push_back(row);
  }
  const auto count = std::ssize(places);
  if (ring() != nullptr) shard_targets_ = {0, count, to_device(places, batch.targets.device())};
  else shard_targets_ = {places.empty() ? 0 : places.front(), count};
  const auto first = std::ranges::lower_bound(target_rows_, own_begin()),
             end = std::ranges::lower_bound(target_rows_, own_begin() + rows_.own);
  own_targets_ = {first - target_rows_.begin(), end - first};
}

at::Tensor TokenShards::attended_positions(const MicroBatch& batch) const {
  return ring() != nullptr ? batch.positions.index_select(0, shard_places_) : batch.positions;
}

parallel::PendingPtr TokenShards::gather(const at::Tensor& x, std::string_view what) const {
  return tp_ == nullptr ? nullptr : tp_->all_gather(x.view({-1}), what);
}

parallel::PendingPtr TokenShards::sum(const at::Tensor& x, std::string_view what) const {
  return tp_ == nullptr ? nullptr : tp_->reduce_scatter(x.view({-1}), what);
}

void TokenShards::sum_all(const at::Tensor& x, std::string_view what) const {
  if (tp_ != nullptr && x.numel() > 0) tp_->all_reduce(x.view({-1}), what)->wait();
}

at::Tensor TokenShards::gather_all(const at::Tensor& x, std::string_view what) const {
  if (tp_ == nullptr) return x.unsqueeze(0);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), tp_size_);
  const at::Tensor all = at::empty(sizes, x.options());
  all[tp_rank_].copy_(x);
  if (all.numel() > 0) tp_->all_gather(all.view({-1}), what)->wait();
  return all;
}

TargetScores TokenShards::of_all_targets(const TargetScores& shard) const {
  if (cp_ == nullptr) return shard;
  const at::Tensor all = at::zeros({2, targets_}, shard.log_probs.options());
  const TargetScores scores{all[0], all[1]};
  for (const auto& [to, from] : {std::pair{scores.log_probs, shard.log_probs}, {scores.entropy, shard.entropy}}) {
    if (shard_targets_.places.defined()) at::Tensor(to).index_copy_(0, shard_targets_.places, from);
    else to.narrow(0, shard_targets_.begin, shard_targets_.count).copy_(from);
  }
  if (targets_ > 0) cp_->all_reduce(all.view({-1}), "scores of targets")->wait();
  return scores;
}

std::vector<TokenShards::Heads> TokenShards::shares_of(std::initializer_list<int64_t> heads) const {
  const int64_t d = attention_.head_dim;
  std::vector<Heads> shares;
  int64_t begin = 0, part_begin = 0;
  for (const int64_t count : heads) {
    const int64_t each = std::max<int64_t>(1, count / cp_size_), copies = std::max<int64_t>(1, cp_size_ / count);
    shares.push_back({each * d, copies, begin, part_begin});
    begin += count * d;
    part_begin += each * d;
  }
  shares.push_back({0, 1, begin, part_begin});  // the end of both
  return shares;
}

// What goes to rank r, or comes from it, is [r] of [ranks, shard, columns of a part].
at::Tensor TokenShards::to_heads(const at::Tensor& x, std::initializer_list<int64_t> heads,
                                 std::string_view what) const {
  if (!exchanges_heads()) return x;
  const std::vector<Heads> shares = shares_of(heads);
  const at::Tensor sent = at::empty({cp_size_, rows_.shard, shares.back().part_begin}, x.options());
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    const Heads& share = shares[i];
    const int64_t different = cp_size_ / share.copies;
    const at::Tensor from = x.narrow(1, share.begin, different * share.each)
                                .view({rows_.shard, different, 1, share.each})
                                .expand({rows_.shard, different, share.copies, share.each})
                                .permute({1, 2, 0, 3});
    sent.narrow(2, share.part_begin, share.each).view({different, share.copies, rows_.shard, share.each}).copy_(from);
  }
  const at::Tensor received = at::empty({rows_.all, shares.back().part_begin}, x.options());
  cp_->all_to_all(received, sent, what)->wait();
  return received;
}

at::Tensor TokenShards::to_tokens(const at::Tensor& x, std::initializer_list<int64_t> heads,
                                  std::string_view what) const {
  if (!exchanges_heads()) return x;
  const std::vector<Heads> shares = shares_of(heads);
  const at::Tensor received = at::empty({cp_size_, rows_.shard, shares.back().part_begin}, x.options());
  cp_->all_to_all(received, x, what)->wait();
  const at::Tensor whole = at::empty({rows_.shard, shares.back().begin}, x.options());
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    const Heads& share = shares[i];
    const int64_t different = cp_size_ / share.copies;
    const at::Tensor from = received.narrow(2, share.part_begin, share.each)
                                .view({different, share.copies, rows_.shard, share.each});
    whole.narrow(1, share.begin, different * share.each)
        .view({rows_.shard, different, share.each})
        .copy_((share.copies > 1 ? from.sum(1) : from.select(1, 0)).transpose(0, 1));
  }
  return whole;
}

}  // namespace tritonforge::train
