#include "train/sharding.h"

#include "base/error.h"

namespace tritonforge::train {

std::vector<ArenaPart> arena_segments(const model::Model& model) {
  std::vector<int64_t> begins{0};
  for (const model::LayerWeights& layer : model.layers()) begins.push_back(layer.input_norm.storage_offset());
  begins.push_back(model.final_norm().storage_offset());
  begins.push_back(model.arena().numel());
  std::vector<ArenaPart> segments;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    TF_CHECK(begins[i] < begins[i + 1], "segment {} of the arena begins at {} and ends at {}", i, begins[i],
             begins[i + 1]);
    segments.push_back({begins[i], begins[i + 1] - begins[i]});
  }
  return segments;
}

Sharding::Sharding(const model::Model& model, Gradients& gradients, parallel::Group* group)
    : model_(model), gradients_(gradients), group_(group), segments_(arena_segments(model)) {
  if (group_ == nullptr) {
    own_ = {{0, model.arena().numel()}};
    return;
  }
  for (const ArenaPart& segment : segments_) {
    const parallel::Share share = parallel::share_of(segment.count, group_->size(), group_->rank());
    own_.push_back({segment.begin + share.begin, share.count});
  }
  sums_.resize(segments_.size());
  shares_.resize(segments_.size());
}

void Sharding::gradients_are_ready(size_t segment) {
  if (group_ == nullptr) return;
  TF_CHECK(sums_[segment] == nullptr, "the sum of segment {} begins twice", segment);
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
  if (group_ == nullptr) return;
  // Where the rank had no micro-batch, and in the same order everywhere: that of the backward pass.
  for (size_t i = segments_.size(); i-- > 0;) {
    if (sums_[i] == nullptr) gradients_are_ready(i);
  }
  for (parallel::PendingPtr& sum : sums_) {
    sum->wait();
    sum.reset();
  }
  if (!embedded_sums_.defined()) return;
  at::Tensor table = gradients_.sums.embed_tokens();
  table.index_copy_(0, embedded_, embedded_sums_);
  embedded_sums_.reset();
}

void Sharding::sum(const at::Tensor& scalar, std::string_view what) {
  if (group_ != nullptr) group_->all_reduce(scalar.view({-1}), what)->wait();
}

void Sharding::share_weights(size_t segment) {
  if (group_ == nullptr) return;
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
