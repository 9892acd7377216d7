#include "train/gpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "train/to_device.h"

namespace tritonforge::train::gpu {
namespace {

using tritonforge::gpu::AttentionBackwardItem;
using tritonforge::gpu::AttentionBackwardTile;
using tritonforge::gpu::kPage;

constexpr int64_t kTileRows = 64;

template <typename T>
void append(std::vector<int32_t>& to, const T& value) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  const size_t at = to.size();
  to.resize(at + sizeof(T) / sizeof(int32_t));
  std::memcpy(&to[at], &value, sizeof(T));
}

}  // namespace

Attention::Attention(const model::ModelConfig& config, at::Device device)
    : api_(tritonforge::gpu::open_cuda_library()),
      heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))),
      device_(device),
      counters_(at::zeros({2}, at::TensorOptions().dtype(at::kInt).device(device))) {}

void Attention::begin(const MicroBatch& batch, int64_t rows) {
  tokens_ = batch.tokens;
  sequences_ = std::ssize(batch.cu_seqlens) - 1;
  pages_ = longest_ = item_count_ = tile_count_ = 0;
  const int64_t tile_tokens = kTileRows / (heads_ / kv_heads_), keys = tritonforge::gpu::kAttentionKeys;
  struct Sequence {
    int32_t row, length, page, tile;
  };
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t row = batch.cu_seqlens[static_cast<size_t>(i)],
                  length = batch.cu_seqlens[static_cast<size_t>(i) + 1] - row;
    sequences.push_back({static_cast<int32_t>(row), static_cast<int32_t>(length), static_cast<int32_t>(pages_),
                         static_cast<int32_t>(tile_count_)});
    longest_ = std::max(longest_, length);
    pages_ += (length + kPage - 1) / kPage;
    tile_count_ += (length + tile_tokens - 1) / tile_tokens;
  }
  table_width_ = (longest_ + kPage - 1) / kPage;

  std::vector<int32_t> numbers;
  const auto place = [&](Numbers& at) {
    numbers.resize((numbers.size() + 3) / 4 * 4);
    at.begin = std::ssize(numbers);
  };
  place(starts_);
  numbers.insert(numbers.end(), batch.cu_seqlens.begin(), batch.cu_seqlens.end());
  place(lengths_);
  for (const Sequence& s : sequences) numbers.push_back(s.length);
  place(tables_);
  for (const Sequence& s : sequences) {
    for (int64_t page = 0; page < table_width_; ++page) numbers.push_back(s.page + static_cast<int32_t>(page));
  }
  // Padded rows write to a page behind all others.
  place(slot_numbers_);
  for (const Sequence& s : sequences) {
    for (int32_t t = 0; t < s.length; ++t) numbers.push_back(s.page * kPage + t);
  }
  numbers.resize(numbers.size() + static_cast<size_t>(rows - tokens_), static_cast<int32_t>(pages_ * kPage));
  place(tiles_);
  for (const Sequence& s : sequences) {
    for (int32_t t = 0; t < s.length; t += static_cast<int32_t>(tile_tokens))
      append(numbers, AttentionBackwardTile{s.row + t, std::min(static_cast<int32_t>(tile_tokens), s.length - t)});
  }
  place(items_);
  std::vector<AttentionBackwardItem> items;
  for (const Sequence& s : sequences) {
    for (int32_t block = 0; block * keys < s.length; ++block) items.push_back({s.row, s.length, s.page, block, s.tile});
  }
  // Who sees the most queries first; of one sequence that is their order.
  const auto seen = [&](const AttentionBackwardItem& item) { return item.length - item.block * keys; };
  std::ranges::stable_sort(items, std::greater(), seen);
  for (const AttentionBackwardItem& item : items) append(numbers, item);
  item_count_ = std::ssize(items);
  ++pages_;

  numbers_ = to_device(numbers, device_);
}

void Attention::forward(const Operands& o) {
  const tritonforge::gpu::PrefillAttentionArgs args{.q = bits(o.q),
                                                    .out = bits(o.out),
                                                    .cache = {bits(o.keys), bits(o.values)},
                                                    .block_tables = number(tables_),
                                                    .query_starts = number(starts_),
                                                    .lengths = number(lengths_),
                                                    .tokens = tokens_,
                                                    .sequences = sequences_,
                                                    .table_width = table_width_,
                                                    .heads = heads_,
                                                    .kv_heads = kv_heads_,
                                                    .head_dim = head_dim_,
                                                    .longest_query = longest_,
                                                    .scale = scale_,
                                                    .workspace = counters_.mutable_data_ptr<int32_t>(),
                                                    .statistics = o.statistics.mutable_data_ptr<float>()};
  check_cuda(api_.prefill_attention(&args, kStream));
}

void Attention::backward(const Operands& o, const at::Tensor& d_out, const at::Tensor& dq, const at::Tensor& dk,
                         const at::Tensor& dv) {
  tritonforge::gpu::AttentionBackwardArgs args{.q = bits(o.q),
                                               .out = bits(o.out),
                                               .d_out = bits(d_out),
                                               .keys = bits(o.keys),
                                               .values = bits(o.values),
                                               .statistics = o.statistics.const_data_ptr<float>(),
                                               .dq = bits(dq),
                                               .dk = bits(dk),
                                               .dv = bits(dv),
                                               .items = reinterpret_cast<const AttentionBackwardItem*>(number(items_)),
                                               .tiles = reinterpret_cast<const AttentionBackwardTile*>(number(tiles_)),
                                               .item_count = item_count_,
                                               .tile_count = tile_count_,
                                               .tokens = tokens_,
                                               .pages = pages_,
                                               .heads = heads_,
                                               .kv_heads = kv_heads_,
                                               .head_dim = head_dim_,
                                               .scale = scale_};
  const auto bytes = static_cast<int64_t>(api_.attention_backward_workspace(&args));
  if (!workspace_.defined() || workspace_.numel() < bytes)
    workspace_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
  args.workspace = workspace_.mutable_data_ptr();
  check_cuda(api_.attention_backward(&args, kStream));
}

}  // namespace tritonforge::train::gpu
