#include "train/sharding.h"

#include <algorithm>

#include "base/error.h"

namespace tritonforge::train {

std::vector<ArenaPart> arena_segments(const model::Model& model) {
  std::vector<int64_t> begins{0};
  for (const model::LayerWeights& layer : model.layers()) begins.push_back(layer.input_norm.storage_offset());
  begins.push_back(model.config().predicts() ? model.final_norm().storage_offset() : model.arena().numel());
  begins.push_back(model.arena().numel());
  std::vector<ArenaPart> segments;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    TF_CHECK(begins[i] <= begins[i + 1], "segment {} of the arena begins at {} and ends at {}", i, begins[i],
             begins[i + 1]);
    segments.push_back({begins[i], begins[i + 1] - begins[i]});
  }
  return segments;
}

namespace {

// `parts` less the elements of `cut`.
std::vector<ArenaPart> without(const std::vector<ArenaPart>& parts, const ArenaPart& cut) {
  std::vector<ArenaPart> left;
  for (const ArenaPart& part : parts) {
    const int64_t end = part.begin + part.count, cut_end = cut.begin + cut.count;
    const int64_t before = std::min(end, cut.begin) - part.begin, after = end - std::max(part.begin, cut_end);
    if (before > 0) left.push_back({part.begin, before});
    if (after > 0) left.push_back({end - after, after});
  }
  return left;
}

}  // namespace

Sharding::Sharding(const model::Model& model, Gradients& gradients, const parallel::Groups& groups)
    : model_(model),
      gradients_(gradients),
      groups_(groups),
      group_(groups.zero),
      tp_(groups.tp),
      segments_(arena_segments(model)) {
  for (const ArenaPart& segment : segments_) {
    if (group_ == nullptr) break;
    const parallel::Share share = parallel::share_of(segment.count, group_->size(), group_->rank());
    own_.push_back({segment.begin + share.begin, share.count});
  }
  if (group_ == nullptr) {
    own_ = {{0, model.arena().numel()}};
  } else {
    group_->lend(model.arena());
    group_->lend(gradients.sums.arena());
  }
  sums_.resize(segments_.size());
  shares_.resize(segments_.size());
  summed_.resize(segments_.size());

  replicas_.resize(segments_.size());
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (tp_ == nullptr || !model::tensor_part(name, tensor.sizes(), tensor_parallel()).replica) continue;
    size_t segment = 0;
    while (tensor.storage_offset() >= segments_[segment].begin + segments_[segment].count) ++segment;
    replicas_[segment].push_back({tensor.storage_offset(), tensor.numel()});
  }
  counted_ = own_;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (counts_elsewhere(name, tensor)) counted_ = without(counted_, {tensor.storage_offset(), tensor.numel()});
  }
}

bool Sharding::counts_elsewhere(const std::string& name, const at::Tensor& tensor) const {
  const model::TensorParallel at = tensor_parallel();
  return (at.rank > 0 && model::tensor_part(name, tensor.sizes(), at).replica) ||
         (name == model::kTable && shares_table() && !model_.config().embeds());
}

bool Sharding::shares_table() const {
  return groups_.onward != nullptr && model_.config().tie_embeddings && model_.config().has_table();
}

model::TensorParallel Sharding::tensor_parallel() const {
  return tp_ == nullptr ? model::TensorParallel{} : model::TensorParallel{tp_->rank(), tp_->size()};
}

void Sharding::sum_replicas(size_t segment) {
  if (replicas_[segment].empty()) return;
  std::vector<at::Tensor> tensors;
  for (const ArenaPart& replica : replicas_[segment])
    tensors.push_back(gradients_.sums.arena().narrow(0, replica.begin, replica.count));
  const at::Tensor joined = at::cat(tensors);
  tp_->all_reduce(joined, fmt::format("gradients of replicas {}", segment))->wait();
  int64_t begin = 0;
  for (at::Tensor& tensor : tensors) {
    tensor.copy_(joined.narrow(0, begin, tensor.numel()));
    begin += tensor.numel();
  }
}

void Sharding::sum_table() {
  const at::Tensor mine = gradients_.sums.embed_tokens().view({-1});
  const int64_t last = groups_.onward->size() - 1;
  if (model_.config().embeds()) {
    const at::Tensor other = at::empty_like(mine);
    groups_.back->receive(other, last, "gradients of the head")->wait();
    mine.add_(other);
    groups_.onward->send(mine, last, "gradients of embedding and head")->wait();
  } else {
    groups_.back->send(mine, 0, "gradients of the head")->wait();
    groups_.onward->receive(mine, 0, "gradients of embedding and head")->wait();
  }
}

void Sharding::gradients_are_ready(size_t segment) {
  if (!groups_.any()) return;
  TF_CHECK(!summed_[segment], "the sum of segment {} begins twice", segment);
  summed_[segment] = true;
  if (segments_[segment].count == 0) return;
  sum_replicas(segment);
  if (segment == 0 && shares_table()) sum_table();
  if (group_ == nullptr) return;
  const model::ModelConfig& config = model_.config();
  // An embedding that is the head, too, has gradients everywhere.
  const bool few = embedded_.defined() && !config.tie_embeddings && 4 * embedded_.numel() <= config.vocab_size;
  if (segment == 0 && few) {
    embedded_sums_ = gradients_.sums.embed_tokens().index_select(0, embedded_);
    sums_[0] = group_->all_reduce(embedded_sums_.view({-1}), "gradients of embedded tokens");
    return;
  }
  sums_[segment] = group_->reduce_scatter(part(gradients_.sums.arena(), segment), fmt::format("gradients {}", segment));
}

void Sharding::sum_gradients() {
  // Where the rank had no micro-batch, and in the same order everywhere: that of the backward pass.
  for (size_t i = segments_.size(); i-- > 0;) {
    if (!summed_[i]) gradients_are_ready(i);
  }
  summed_.assign(segments_.size(), false);
  for (parallel::PendingPtr& sum : sums_) {
    if (sum != nullptr) sum->wait();
    sum.reset();
  }
  if (!embedded_sums_.defined()) return;
  at::Tensor table = gradients_.sums.embed_tokens();
  table.index_copy_(0, embedded_, embedded_sums_);
  embedded_sums_.reset();
}

void Sharding::sum(const at::Tensor& scalar, std::string_view what) {
  for (parallel::Group* group : {group_, tp_, groups_.onward}) {
    if (group != nullptr) group->all_reduce(scalar.view({-1}), what)->wait();
  }
}

void Sharding::share_weights(size_t segment) {
  if (group_ == nullptr || segments_[segment].count == 0) return;
  TF_CHECK(shares_[segment] == nullptr, "the weights of segment {} are shared twice", segment);
  shares_[segment] = group_->all_gather(part(model_.arena(), segment), fmt::format("weights {}", segment));
}

void Sharding::await_weights(size_t segment) {
  if (group_ == nullptr || shares_[segment] == nullptr) return;
  shares_[segment]->wait();
  shares_[segment].reset();
}

void Sharding::await_weights() {
  for (size_t i = 0; i < shares_.size(); ++i) await_weights(i);
}

}  // namespace tritonforge::train
