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

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

}  // namespace

// Numbers for the device, each list at a multiple of sixteen bytes.
class Attention::Writer {
 public:
  Numbers place() {
    numbers.resize((numbers.size() + 3) / 4 * 4);
    return {std::ssize(numbers)};
  }
  template <typename T>
  void append(const T& value) {
    static_assert(sizeof(T) % sizeof(int32_t) == 0);
    const size_t at = numbers.size();
    numbers.resize(at + sizeof(T) / sizeof(int32_t));
    std::memcpy(&numbers[at], &value, sizeof(T));
  }
  std::vector<int32_t> numbers;
};

Attention::Attention(const model::ModelConfig& config, at::Device device)
    : api_(tritonforge::gpu::open_cuda_library()),
      heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))),
      device_(device),
      counters_(at::zeros({2}, at::TensorOptions().dtype(at::kInt).device(device))) {}

void Attention::begin(const Zigzag& zigzag, int64_t rank, int64_t rows) {
  const std::vector<Zigzag::Chunks>& own = zigzag.of(rank);
  // As many pages as the rank with the most tokens of a sequence needs.
  first_pages_.clear();
  tokens_ = pages_ = table_width_ = 0;
  for (size_t s = 0; s < own.size(); ++s) {
    int64_t most = 0;
    for (int64_t other = 0; other < zigzag.ranks(); ++other) most = std::max(most, zigzag.of(other)[s].tokens());
    const int64_t pages = (most + kPage - 1) / kPage;
    first_pages_.push_back(narrow(pages_));
    pages_ += pages;
    table_width_ = std::max(table_width_, pages);
    tokens_ += own[s].tokens();
  }
  Writer writer;
  // Padded rows write to a page behind all others.
  slot_numbers_ = writer.place();
  for (size_t s = 0; s < own.size(); ++s) {
    for (int32_t t = 0; t < own[s].tokens(); ++t) writer.append(first_pages_[s] * narrow(kPage) + t);
  }
  for (int64_t row = tokens_; row < rows; ++row) writer.append(narrow(pages_ * kPage));
  keys_.clear();
  for (int64_t from = 0; from < zigzag.ranks(); ++from)
    keys_.push_back(write(writer, zigzag.spans(rank, from), /*full=*/from != rank));
  ++pages_;
  numbers_ = to_device(writer.numbers, device_);
}

Attention::Keys Attention::write(Writer& writer, const std::vector<Zigzag::Span>& spans, bool full) const {
  // The forward kernel's sequences follow each other: between those of spans stand queries without keys.
  struct Sequence {
    int64_t queries, keys;
    size_t of;
  };
  std::vector<Sequence> sequences;
  Keys keys{.full = full};
  int64_t next = 0;
  for (size_t s = 0; s < spans.size(); ++s) {
    const auto& [query, queries, key, count] = spans[s];
    if (queries == 0 || count == 0) continue;
    if (query > next) sequences.push_back({query - next, 0, s});
    sequences.push_back({queries, count, s});
    next = query + queries;
    keys.longest = std::max(keys.longest, queries);
  }
  keys.sequences = std::ssize(sequences);
  keys.starts = writer.place();
  int32_t start = 0;
  writer.append(start);
  for (const Sequence& sequence : sequences) writer.append(start += narrow(sequence.queries));
  keys.lengths = writer.place();
  for (const Sequence& sequence : sequences) writer.append(narrow(sequence.keys));
  keys.tables = writer.place();
  for (const Sequence& sequence : sequences) {
    for (int64_t page = 0; page < table_width_; ++page) writer.append(first_pages_[sequence.of] + narrow(page));
  }
  // Of the backward kernel.
  const int64_t tile_tokens = kTileRows / (heads_ / kv_heads_), block_keys = tritonforge::gpu::kAttentionKeys;
  std::vector<AttentionBackwardItem> items;
  keys.tile_list = writer.place();
  for (size_t s = 0; s < spans.size(); ++s) {
    const auto& [query, queries, key, count] = spans[s];
    if (queries == 0 || count == 0) continue;
    for (int64_t block = 0; block * block_keys < count; ++block) {
      items.push_back({.row = narrow(query),
                       .tokens = narrow(queries),
                       .key_row = narrow(key),
                       .keys = narrow(count),
                       .page = first_pages_[s],
                       .block = narrow(block),
                       .tile = narrow(keys.tiles),
                       .full = full ? 1 : 0});
    }
    for (int64_t t = 0; t < queries; t += tile_tokens, ++keys.tiles)
      writer.append(AttentionBackwardTile{narrow(query + t), narrow(std::min(tile_tokens, queries - t))});
  }
  // Who sees the most queries first; of one sequence that is their order.
  const auto seen = [&](const AttentionBackwardItem& item) {
    return item.full ? int64_t{item.tokens} : item.keys - item.block * block_keys;
  };
  std::ranges::stable_sort(items, std::greater(), seen);
  keys.item_list = writer.place();
  for (const AttentionBackwardItem& item : items) writer.append(item);
  keys.items = std::ssize(items);
  return keys;
}

void Attention::forward(const Operands& o, int64_t from) {
  const Keys& keys = keys_[static_cast<size_t>(from)];
  const tritonforge::gpu::PrefillAttentionArgs args{.q = bits(o.q),
                                                    .out = bits(o.out),
                                                    .cache = {bits(o.keys), bits(o.values)},
                                                    .block_tables = number(keys.tables),
                                                    .query_starts = number(keys.starts),
                                                    .lengths = number(keys.lengths),
                                                    .tokens = tokens_,
                                                    .sequences = keys.sequences,
                                                    .table_width = table_width_,
                                                    .heads = heads_,
                                                    .kv_heads = kv_heads_,
                                                    .head_dim = head_dim_,
                                                    .longest_query = keys.longest,
                                                    .scale = scale_,
                                                    .workspace = counters_.mutable_data_ptr<int32_t>(),
                                                    .statistics = o.statistics.mutable_data_ptr<float>(),
                                                    .full = keys.full};
  check_cuda(api_.prefill_attention(&args, kStream));
}

void Attention::backward(const Operands& o, int64_t from, const at::Tensor& d_out, const at::Tensor& dq,
                         const at::Tensor& dk, const at::Tensor& dv) {
  const Keys& keys = keys_[static_cast<size_t>(from)];
  tritonforge::gpu::AttentionBackwardArgs args{
      .q = bits(o.q),
      .out = bits(o.out),
      .d_out = bits(d_out),
      .keys = bits(o.keys),
      .values = bits(o.values),
      .statistics = o.statistics.const_data_ptr<float>(),
      .dq = bits(dq),
      .dk = bits(dk),
      .dv = bits(dv),
      .items = reinterpret_cast<const AttentionBackwardItem*>(number(keys.item_list)),
      .tiles = reinterpret_cast<const AttentionBackwardTile*>(number(keys.tile_list)),
      .item_count = keys.items,
      .tile_count = keys.tiles,
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
