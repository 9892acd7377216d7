#include "train/gpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ranges>

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

void Attention::begin(const Zigzag& zigzag, int64_t rank, int64_t rows, std::vector<int64_t> parents,
                      std::vector<int64_t> before) {
  const std::vector<Zigzag::Chunks>& own = zigzag.of(rank);
  parents_ = std::move(parents);
  before_ = std::move(before);
  parents_.resize(own.size(), -1);
  before_.resize(own.size(), 0);
  // As many pages as the rank with the most tokens of a sequence needs.
  first_pages_.clear();
  tokens_ = pages_ = table_width_ = 0;
  for (size_t s = 0; s < own.size(); ++s) {
    int64_t most = 0;
    for (int64_t other = 0; other < zigzag.ranks(); ++other) most = std::max(most, zigzag.of(other)[s].tokens());
    TF_CHECK(before_[s] % kPage == 0, "a segment that begins at token {}: pages are of {}", before_[s], kPage);
    const int64_t pages = (most + kPage - 1) / kPage;
    first_pages_.push_back(narrow(pages_));
    pages_ += pages;
    table_width_ = std::max(table_width_, before_[s] / kPage + pages);
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
  for (const Sequence& sequence : sequences)
    writer.append(narrow(sequence.keys > 0 ? before_[sequence.of] + sequence.keys : 0));
  keys.tables = writer.place();
  for (const Sequence& sequence : sequences) {
    for (const int32_t page : table_of(sequence.of)) writer.append(page);
  }
  // Of the backward kernel.
  const int64_t tile_tokens = kTileRows / (heads_ / kv_heads_);
  keys.tile_list = writer.place();
  for (const auto& [query, queries, key, count] : spans) {
    for (int64_t t = 0; count > 0 && t < queries; t += tile_tokens, ++keys.tiles)
      writer.append(AttentionBackwardTile{narrow(query + t), narrow(std::min(tile_tokens, queries - t))});
  }
  const std::vector<AttentionBackwardItem> items = items_of(spans, full);
  keys.item_list = writer.place();
  for (const AttentionBackwardItem& item : items) writer.append(item);
  keys.items = std::ssize(items);
  return keys;
}

// A sequence's pages behind those of what it goes on from.
std::vector<int32_t> Attention::table_of(size_t sequence) const {
  std::vector<int32_t> table(static_cast<size_t>(table_width_));
  std::vector<size_t> path{sequence};
  while (parents_[path.back()] >= 0) path.push_back(static_cast<size_t>(parents_[path.back()]));
  for (const size_t s : path | std::views::reverse)
    std::iota(table.begin() + before_[s] / kPage, table.end(), first_pages_[s]);
  return table;
}

// Blocks of keys whose sums others wait for come first, and of those the ones that are seen by the most queries. What
// ends a sequence behind shared keys follows in the order in which these are done with its queries, the last one first.
std::vector<AttentionBackwardItem> Attention::items_of(const std::vector<Zigzag::Span>& spans, bool full) const {
  const int64_t tile_tokens = kTileRows / (heads_ / kv_heads_), block_keys = tritonforge::gpu::kAttentionKeys;
  const auto parts = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
  std::vector<int64_t> tile(spans.size() + 1), blocks_before(spans.size());
  for (size_t s = 0; s < spans.size(); ++s) {
    tile[s + 1] = tile[s] + (spans[s].keys > 0 ? parts(spans[s].queries, tile_tokens) : 0);
    if (parents_[s] < 0) continue;
    const auto parent = static_cast<size_t>(parents_[s]);
    blocks_before[s] = blocks_before[parent] + parts(spans[parent].keys, block_keys);
  }
  std::vector<AttentionBackwardItem> items, behind;
  for (size_t s = spans.size(); s-- > 0;) {
    const auto& [query, queries, key, count] = spans[s];
    if (queries == 0) continue;
    size_t end = s + 1;  // of all that goes on from it
    while (end < spans.size() && parents_[end] >= static_cast<int64_t>(s)) ++end;
    for (int64_t block = 0; block * block_keys < count; ++block) {
      (parents_[s] >= 0 && end == s + 1 ? behind : items)
          .push_back({.row = narrow(query),
                      .tokens = narrow(queries),
                      .key_row = narrow(key),
                      .keys = narrow(count),
                      .page = first_pages_[s],
                      .block = narrow(block),
                      .tile = narrow(tile[s]),
                      .tiles = narrow(tile[end] - tile[s]),
                      .order = narrow(blocks_before[s] + block),
                      .full = full ? 1 : 0});
    }
  }
  const auto seen_by = [&](const AttentionBackwardItem& item) {
    return item.full ? int64_t{item.tiles} : item.tiles - item.block * block_keys / tile_tokens;
  };
  std::ranges::stable_sort(items, std::greater(), seen_by);
  items.insert(items.end(), behind.begin(), behind.end());
  return items;
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
