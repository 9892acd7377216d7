// libs: tf_kernels
// Time of every GPU kernel at Qwen3-8B shapes, beside the rate that this card reaches in a plain copy and in an 8192^3
// product, and beside the best library call where there is one. Needs a GPU and libtritonforge_cuda.so (`make gpu`).
//
// A line: median time of one launch over graph replays (a graph holds enough launches to hide the launch cost and walks
// over input sets larger than the L2 cache), the spread between replays, the rate and its share of the card's.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"
#include "kernels/gpu/handles.h"

using namespace tritonforge;
using namespace tritonforge::gpu;

namespace {

constexpr int64_t kHidden = 4096, kInter = 12288, kHeads = 32, kKvHeads = 8, kDim = 128, kVocab = 151936,
                  kQkv = (kHeads + 2 * kKvHeads) * kDim;
constexpr int kReplays = 9;

const CudaApi* api = nullptr;
Stream stream = nullptr;
double copy_rate = 0, matmul_rate = 0;  // bytes/s, FLOP/s of this card

struct Timing {
  double median, spread;  // seconds, (max - min) / median
};

Timing timed(int launches, const std::function<void(int)>& launch) {
  Graph graph = nullptr;
  launch(0);
  check_cuda(api->capture_begin(stream));
  for (int i = 0; i < launches; ++i) launch(i);
  check_cuda(api->capture_end(stream, &graph, nullptr));
  Event begin = nullptr, end = nullptr;
  check_cuda(api->event_create(&begin, 1));
  check_cuda(api->event_create(&end, 1));
  std::vector<double> times;
  for (int replay = -2; replay < kReplays; ++replay) {
    check_cuda(api->event_record(begin, stream));
    check_cuda(api->graph_launch(graph, stream));
    check_cuda(api->event_record(end, stream));
    check_cuda(api->event_synchronize(end));
    float milliseconds = 0;
    check_cuda(api->event_elapsed(begin, end, &milliseconds));
    if (replay >= 0) times.push_back(milliseconds * 1e-3 / launches);
  }
  check_cuda(api->event_destroy(begin));
  check_cuda(api->event_destroy(end));
  check_cuda(api->graph_destroy(graph));
  std::sort(times.begin(), times.end());
  return {times[kReplays / 2], (times.back() - times.front()) / times[kReplays / 2]};
}

Timing timed_on_legacy_stream(int launches,
                              const std::function<void()>& run) {  // where ATen's operations run; without a graph
  Event begin = nullptr, end = nullptr;
  check_cuda(api->event_create(&begin, 1));
  check_cuda(api->event_create(&end, 1));
  std::vector<double> times;
  for (int replay = -1; replay < 5; ++replay) {
    check_cuda(api->event_record(begin, nullptr));
    for (int i = 0; i < launches; ++i) run();
    check_cuda(api->event_record(end, nullptr));
    check_cuda(api->event_synchronize(end));
    float milliseconds = 0;
    check_cuda(api->event_elapsed(begin, end, &milliseconds));
    if (replay >= 0) times.push_back(milliseconds * 1e-3 / launches);
  }
  check_cuda(api->event_destroy(begin));
  check_cuda(api->event_destroy(end));
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], (times.back() - times.front()) / times[times.size() / 2]};
}

void line(const std::string& name, const Timing& t, double bytes, double flops, const std::string& note = "") {
  const bool by_bytes = bytes / copy_rate >= flops / matmul_rate;
  const double rate = (by_bytes ? bytes : flops) / t.median, share = rate / (by_bytes ? copy_rate : matmul_rate);
  fmt::print("{:46} {:9.2f} us  +-{:4.1f} %  {:7.1f} {}  {:5.1f} %  {}\n", name, t.median * 1e6, t.spread * 50,
             rate * 1e-9 / (by_bytes ? 1 : 1e3), by_bytes ? "GB/s   " : "TFLOP/s", share * 100, note);
  std::fflush(stdout);
}

// Random bf16 numbers on the device, handed out in turn and from the start again when they end. Inputs and outputs come
// from two of them, so that inputs stay what they were.
class Arena {
 public:
  explicit Arena(int64_t bytes)
      : memory_(at::randn({bytes / 2}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA))) {}
  Bf16* take(int64_t elements) {
    elements = (elements + 127) / 128 * 128;
    if (at_ + elements > memory_.numel()) at_ = 0;
    at_ += elements;
    return static_cast<Bf16*>(memory_.data_ptr()) + at_ - elements;
  }

 private:
  at::Tensor memory_;
  int64_t at_ = 0;
};
std::unique_ptr<Arena> inputs, outputs;

// A layer's cache of so many blocks. In FP8 random bytes, and scales of 1 that all layers share: a 64th of the bytes.
KvLayer cache_of(Arena& arena, int64_t blocks, bool fp8 = false) {
  const int64_t elements = blocks * kPage * kKvHeads * kDim / (fp8 ? 2 : 1);
  KvLayer cache{arena.take(elements), arena.take(elements)};
  static at::Tensor scales;
  if (!fp8) return cache;
  const int64_t rows = 2 * blocks * kPage * kKvHeads;
  if (!scales.defined() || scales.numel() < rows)
    scales = at::full({rows}, 127, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  cache.scales = scales.data_ptr<uint8_t>();
  return cache;
}

at::Tensor device_ints(const at::Tensor& x) { return x.to(at::kInt).to(at::kCUDA); }
const int32_t* ints(const at::Tensor& x) { return x.const_data_ptr<int32_t>(); }
// As many sets as exceed twice the largest L2 of today, at least 8 launches and at most 64.
int launches_for(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>((int64_t{200} << 20) / std::max<int64_t>(bytes, 1), 8, 64));
}

void rows(int64_t tokens) {
  const at::Tensor weight = at::ones({kHidden}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA));
  auto* w = static_cast<Bf16*>(weight.data_ptr());
  const int64_t norm_bytes = tokens * kHidden * 2;
  line(fmt::format("rms_norm             {:5}", tokens),
       timed(launches_for(2 * norm_bytes),
             [&](int) {
               Bf16* x = inputs->take(tokens * kHidden);
               check_cuda(api->rms_norm(outputs->take(tokens * kHidden), x, w, tokens, kHidden, 1e-6f, stream));
             }),
       2.0 * norm_bytes, 0);
  line(fmt::format("add_rms_norm         {:5}", tokens),
       timed(launches_for(4 * norm_bytes),
             [&](int) {
               Bf16 *x = outputs->take(tokens * kHidden), *delta = inputs->take(tokens * kHidden);
               check_cuda(
                   api->add_rms_norm(outputs->take(tokens * kHidden), x, delta, w, tokens, kHidden, 1e-6f, stream));
             }),
       4.0 * norm_bytes, 0);
  line(fmt::format("swiglu               {:5}", tokens),
       timed(launches_for(6 * tokens * kInter),
             [&](int) {
               Bf16* x = inputs->take(tokens * 2 * kInter);
               check_cuda(api->swiglu(outputs->take(tokens * kInter), x, tokens, kInter, stream));
             }),
       6.0 * tokens * kInter, 0);

  const at::Tensor rope = at::randn({40960, kDim / 2, 2}, at::kCUDA),
                   positions = device_ints(at::randint(0, 40960, {tokens})),
                   slots = device_ints(at::arange(16, 16 + tokens));
  for (const bool fp8 : {false, true}) {
    const double bytes = 4.0 * tokens * kQkv - (fp8 ? 2.0 * tokens * kKvHeads * (kDim - 1) : 0);
    line(fmt::format("rope_cache{:9}  {:5}", fp8 ? ", fp8" : "", tokens),
         timed(launches_for(4 * tokens * kQkv),
               [&](int) {
                 const RopeCacheArgs args{.qkv = inputs->take(tokens * kQkv),
                                          .q = outputs->take(tokens * kHeads * kDim),
                                          .cache = cache_of(*outputs, tokens / kPage + 2, fp8),
                                          .q_norm = w,
                                          .k_norm = w,
                                          .rope = rope.const_data_ptr<float>(),
                                          .positions = ints(positions),
                                          .slots = ints(slots),
                                          .tokens = tokens,
                                          .heads = kHeads,
                                          .kv_heads = kKvHeads,
                                          .head_dim = kDim,
                                          .eps = 1e-6f};
                 check_cuda(api->rope_cache(&args, stream));
               }),
         bytes, 0);
  }
}

// Torch's attention, where it has one of this name: `make` prepares a call, of which `launches` are timed together.
void attention_peer(const std::string& name, int launches, double bytes, double flops, const std::string& note,
                    const std::function<std::function<void()>()>& make) {
  try {
    line(name, timed_on_legacy_stream(launches, make()), bytes, flops, note);
  } catch (const std::exception& error) {
    fmt::print("{:46} not available: {}\n", name, std::string(error.what()).substr(0, 80));
  }
}

// `shared` pages at the start of every `members` neighbours are the same: read by each, once by prefix_attention(), or
// that kernel alone. Bytes: each page of the cache that is read, once.
enum class Prefix { kEach, kOnce, kAlone };
void decode(const std::string& name, const std::vector<int32_t>& lengths, int64_t members = 1, int64_t shared = 0,
            Prefix how = Prefix::kEach, bool fp8 = false) {
  const auto sequences = static_cast<int64_t>(lengths.size());
  int64_t width = 0, blocks = 1, tokens = 0;
  for (const int32_t length : lengths) {
    width = std::max<int64_t>(width, (length + kPage - 1) / kPage);
    blocks += (length + kPage - 1) / kPage;
    tokens += length;
  }
  at::Tensor tables = at::zeros({sequences, width}, at::kInt);
  const at::Tensor order = (at::randperm(blocks - 1) + 1).to(at::kInt);
  int64_t next = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t used = (lengths[static_cast<size_t>(s)] + kPage - 1) / kPage;
    tables[s].slice(0, 0, used).copy_(order.slice(0, next, next + used));
    if (s % members > 0) {
      tables[s].slice(0, 0, shared).copy_(tables[s - 1].slice(0, 0, shared));
      tokens -= shared * kPage;
    }
    next += used;
  }
  const int64_t groups = sequences / members;
  if (how == Prefix::kAlone) tokens = groups * shared * kPage;
  const at::Tensor prefix_pages = device_ints(at::full({sequences}, shared)),
                   group_starts = device_ints(at::arange(0, sequences + 1, members)),
                   rows = device_ints(at::arange(sequences));
  const at::Tensor pieces = at::empty(
      {static_cast<int64_t>(api->prefix_attention_pieces(sequences, kHeads, kKvHeads, kDim))},
      at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  const at::Tensor d_tables = device_ints(tables), d_lengths = device_ints(at::tensor(lengths, at::kInt));
  const at::Tensor workspace = at::zeros(
      {static_cast<int64_t>(api->decode_attention_workspace(sequences, kHeads, kKvHeads, kDim))},
      at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  const double bytes = 2.0 * tokens * kKvHeads * (fp8 ? kDim + 1 : 2 * kDim);
  line(name,
       timed(launches_for(static_cast<int64_t>(bytes)),
             [&](int) {
               const Bf16* q = inputs->take(sequences * kHeads * kDim);
               const KvLayer cache = cache_of(*inputs, blocks, fp8);
               const PrefixAttentionArgs prefix{.q = q,
                                                .cache = cache,
                                                .block_tables = ints(d_tables),
                                                .prefix_pages = ints(prefix_pages),
                                                .group_starts = ints(group_starts),
                                                .members = ints(rows),
                                                .groups = groups,
                                                .table_width = width,
                                                .heads = kHeads,
                                                .kv_heads = kKvHeads,
                                                .head_dim = kDim,
                                                .scale = 1 / std::sqrt(float{kDim}),
                                                .pieces = static_cast<float*>(pieces.data_ptr())};
               const bool once = how != Prefix::kEach;
               if (once) check_cuda(api->prefix_attention(&prefix, stream));
               if (how == Prefix::kAlone) return;
               const DecodeAttentionArgs args{.q = q,
                                              .out = outputs->take(sequences * kHeads * kDim),
                                              .cache = cache,
                                              .block_tables = ints(d_tables),
                                              .lengths = ints(d_lengths),
                                              .prefix_pages = once ? ints(prefix_pages) : nullptr,
                                              .prefix_pieces = once ? prefix.pieces : nullptr,
                                              .sequences = sequences,
                                              .table_width = width,
                                              .heads = kHeads,
                                              .kv_heads = kKvHeads,
                                              .head_dim = kDim,
                                              .scale = 1 / std::sqrt(float{kDim}),
                                              .workspace = workspace.data_ptr()};
               check_cuda(api->decode_attention(&args, stream));
             }),
       bytes, 0);
}

// Sequences of one length, and beside it what libtorch has for them: FlashAttention over keys and values that lie one
// after another, each kv head once.
void decode_beside_torch(int64_t sequences, int64_t length) {
  const std::vector<int32_t> lengths(static_cast<size_t>(sequences), static_cast<int32_t>(length));
  decode(fmt::format("decode_attention {:3} x {}", sequences, length), lengths);
  decode(fmt::format("  in fp8         {:3} x {}", sequences, length), lengths, 1, 0, Prefix::kEach, /*fp8=*/true);
  const double bytes = 4.0 * sequences * length * kKvHeads * kDim;
  const int launches = launches_for(static_cast<int64_t>(bytes));
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
  attention_peer("  torch flash", launches, bytes, 0, "not paged", [&]() -> std::function<void()> {
    const at::Tensor q = at::randn({sequences, 1, kHeads, kDim}, options),
                     kv = at::randn({launches, 2, sequences, length, kKvHeads, kDim}, options);
    int64_t turn = 0;
    return [=]() mutable {
      const at::Tensor now = kv[turn++ % launches];
      at::_flash_attention_forward(q, now[0], now[1], {}, {}, 1, length, 0.0, /*is_causal=*/false,
                                   /*return_debug_mask=*/false);
    };
  });
}

void prefill(int64_t count, int64_t sequences) {
  const int64_t blocks = (count + kPage - 1) / kPage * sequences + 1, width = (count + kPage - 1) / kPage;
  const at::Tensor tables = device_ints(at::randperm(blocks - 1).view({sequences, width}) + 1),
                   lengths = device_ints(at::full({sequences}, count));
  const at::Tensor starts = device_ints(at::arange(0, (sequences + 1) * count, count)),
                   workspace = device_ints(at::zeros({2}));
  const double flops = 2.0 * count * (count + 1) * sequences * kHeads *
                       kDim;  // 4 * d for each of count (count + 1) / 2 pairs
  line(fmt::format("prefill_attention    {:5} x {}", count, sequences),
       timed(8,
             [&](int) {
               const PrefillAttentionArgs args{.q = inputs->take(sequences * count * kHeads * kDim),
                                               .out = outputs->take(sequences * count * kHeads * kDim),
                                               .cache = cache_of(*inputs, blocks),
                                               .block_tables = ints(tables),
                                               .query_starts = ints(starts),
                                               .lengths = ints(lengths),
                                               .tokens = sequences * count,
                                               .sequences = sequences,
                                               .table_width = width,
                                               .heads = kHeads,
                                               .kv_heads = kKvHeads,
                                               .head_dim = kDim,
                                               .longest_query = count,
                                               .scale = 1 / std::sqrt(float{kDim}),
                                               .workspace = workspace.mutable_data_ptr<int32_t>()};
               check_cuda(api->prefill_attention(&args, stream));
             }),
       0, flops);
  // What an FP8 cache costs it.
  const double widened_bytes = 2.0 * sequences * count * kKvHeads * (3 * kDim + 1);
  line(fmt::format("  widen_cache        {:5} x {}", count, sequences),
       timed(launches_for(static_cast<int64_t>(widened_bytes)),
             [&](int) {
               const WidenCacheArgs args{.from = cache_of(*inputs, blocks, /*fp8=*/true),
                                         .to = cache_of(*outputs, blocks),
                                         .from_tables = ints(tables),
                                         .to_tables = ints(tables),
                                         .lengths = ints(lengths),
                                         .sequences = sequences,
                                         .table_width = width,
                                         .kv_heads = kKvHeads,
                                         .head_dim = kDim};
               check_cuda(api->widen_cache(&args, stream));
             }),
       widened_bytes, 0);
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
  const at::Tensor q = at::randn({sequences, kHeads, count, kDim}, options),
                   k = at::randn({sequences, kHeads, count, kDim}, options), v = at::randn_like(k);
  attention_peer("  torch flash SDPA", 4, 0, flops, "not paged, kv heads expanded",
                 [&] { return [&] { at::_scaled_dot_product_flash_attention(q, k, v, 0.0, true); }; });
  attention_peer("  torch cuDNN SDPA", 4, 0, flops, "not paged, kv heads expanded",
                 [&] { return [&] { at::_scaled_dot_product_cudnn_attention(q, k, v, {}, false, 0.0, true); }; });
}

// A sequence's blocks to the host and back: what bounds it is the bus, which a plain copy shows.
void move_blocks(int64_t blocks) {
  constexpr int64_t kLayers = 36, kPage = 16 * kKvHeads * kDim * 2;
  const int64_t bytes = blocks * kLayers * 2 * kPage;
  const at::Tensor cache = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  const PinnedMemory host(static_cast<size_t>(bytes));
  auto* first = static_cast<uint8_t*>(cache.mutable_data_ptr());
  MoveBlocksArgs args{.first = {first, first + blocks * kPage},
                      .layers = kLayers,
                      .layer_bytes = blocks * 2 * kPage,
                      .page_bytes = kPage,
                      .scale_bytes = 0,
                      .host = host.as<uint8_t>(),
                      .to_host = true,
                      .count = blocks,
                      .moves = {}};
  for (int32_t i = 0; i < blocks; ++i) args.moves[i] = {i, i};
  for (const bool to_host : {true, false}) {
    args.to_host = to_host;
    const char* where = to_host ? "to the host" : "from the host";
    line(fmt::format("move_blocks          {:5} {}", blocks, where),
         timed(1, [&](int) { check_cuda(api->move_blocks(&args, stream)); }), static_cast<double>(bytes), 0);
    line(fmt::format("  cudaMemcpyAsync    {:5} {}", blocks, where),
         timed(1,
               [&](int) {
                 if (to_host) check_cuda(api->copy(host.as<void>(), first, static_cast<size_t>(bytes), stream));
                 else check_cuda(api->copy(first, host.as<void>(), static_cast<size_t>(bytes), stream));
               }),
         static_cast<double>(bytes), 0, "one piece");
  }
}

// Gradient of attention over whole sequences, each with its own pages. The peers' keys and values are expanded to the
// query heads, so that they compute the same products and write larger gradients.
void backward(int64_t count, int64_t sequences) {
  const int64_t tokens = count * sequences, page_count = (count + kPage - 1) / kPage,
                pages = page_count * sequences + 1, tile_tokens = 64 / (kHeads / kKvHeads),
                tiles = (count + tile_tokens - 1) / tile_tokens;
  std::vector<int32_t> items, tile_list;
  for (int64_t block = 0; block * kAttentionKeys < count; ++block) {
    for (int64_t s = 0; s < sequences; ++s) {
      for (const int64_t x :
           {s * count, count, s * count, count, s * page_count, block, s * tiles, tiles, block, int64_t{0}})
        items.push_back(static_cast<int32_t>(x));
    }
  }
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t t = 0; t < count; t += tile_tokens) {
      for (const int64_t x : {s * count + t, std::min(tile_tokens, count - t)})
        tile_list.push_back(static_cast<int32_t>(x));
    }
  }
  const at::Tensor item_numbers = device_ints(at::tensor(items, at::kInt)),
                   tile_numbers = device_ints(at::tensor(tile_list, at::kInt)),
                   tables = device_ints(at::arange(pages - 1).view({sequences, page_count})),
                   lengths = device_ints(at::full({sequences}, count)),
                   starts = device_ints(at::arange(0, tokens + 1, count)), counters = device_ints(at::zeros({2}));
  at::manual_seed(1);
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
  const auto random = [&](std::vector<int64_t> shape) { return at::randn(shape).to(options); };
  const at::Tensor q = random({tokens, kHeads, kDim}), keys = random({pages, kKvHeads, kPage, kDim}),
                   values = random({pages, kKvHeads, kPage, kDim}), d_out = random({tokens, kHeads, kDim}),
                   out = at::empty_like(q), dq = at::empty_like(q), dk = at::empty({tokens, kKvHeads, kDim}, options),
                   dv = at::empty_like(dk), statistics = at::empty({tokens, kHeads}, options.dtype(at::kFloat));
  const auto bits = [](const at::Tensor& x) { return static_cast<Bf16*>(x.data_ptr()); };
  const float scale = 1 / std::sqrt(float{kDim});
  const PrefillAttentionArgs forward{.q = bits(q),
                                     .out = bits(out),
                                     .cache = {bits(keys), bits(values)},
                                     .block_tables = ints(tables),
                                     .query_starts = ints(starts),
                                     .lengths = ints(lengths),
                                     .tokens = tokens,
                                     .sequences = sequences,
                                     .table_width = page_count,
                                     .heads = kHeads,
                                     .kv_heads = kKvHeads,
                                     .head_dim = kDim,
                                     .longest_query = count,
                                     .scale = scale,
                                     .workspace = counters.mutable_data_ptr<int32_t>(),
                                     .statistics = statistics.mutable_data_ptr<float>()};
  AttentionBackwardArgs args{.q = bits(q),
                             .out = bits(out),
                             .d_out = bits(d_out),
                             .keys = bits(keys),
                             .values = bits(values),
                             .statistics = statistics.const_data_ptr<float>(),
                             .dq = bits(dq),
                             .dk = bits(dk),
                             .dv = bits(dv),
                             .items = reinterpret_cast<const AttentionBackwardItem*>(ints(item_numbers)),
                             .tiles = reinterpret_cast<const AttentionBackwardTile*>(ints(tile_numbers)),
                             .item_count = std::ssize(items) / 10,
                             .tile_count = std::ssize(tile_list) / 2,
                             .tokens = tokens,
                             .pages = pages,
                             .heads = kHeads,
                             .kv_heads = kKvHeads,
                             .head_dim = kDim,
                             .scale = scale};
  const at::Tensor workspace = at::empty({static_cast<int64_t>(api->attention_backward_workspace(&args))},
                                         at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  args.workspace = workspace.data_ptr();
  const double flops = 5.0 * count * (count + 1) * sequences * kHeads * kDim;  // five products of half the square
  check_cuda(api->prefill_attention(&forward, stream));
  const Timing timing = timed(4, [&](int) { check_cuda(api->attention_backward(&args, stream)); });
  // Two libraries that sum in one order say the same here.
  const at::Tensor sums = at::empty({3}, at::TensorOptions().dtype(at::kLong).device(at::kCUDA));
  for (int i = 0; const at::Tensor& x : {dq, dk, dv})
    check_cuda(api->checksum(reinterpret_cast<uint64_t*>(sums.mutable_data_ptr<int64_t>()) + i++, bits(x),
                             static_cast<int64_t>(x.nbytes()), stream));
  const at::Tensor said = sums.cpu();
  line(fmt::format("attention_backward   {:5} x {}", count, sequences), timing, 0, flops,
       fmt::format("checksum {:016x}",
                   static_cast<uint64_t>(said[0].item<int64_t>() ^ said[1].item<int64_t>() ^ said[2].item<int64_t>())));
  const at::Tensor wide_q = at::randn({sequences, kHeads, count, kDim}, options), wide_k = at::randn_like(wide_q),
                   wide_v = at::randn_like(wide_q), wide_grad = at::randn_like(wide_q);
  attention_peer("  torch flash SDPA", 4, 0, flops, "not paged, kv heads expanded", [&]() -> std::function<void()> {
    auto f = at::_scaled_dot_product_flash_attention(wide_q, wide_k, wide_v, 0.0, true);
    return [&, f] {
      at::_scaled_dot_product_flash_attention_backward(wide_grad, wide_q, wide_k, wide_v, std::get<0>(f),
                                                       std::get<1>(f), std::get<2>(f), std::get<3>(f), count, count,
                                                       0.0, true, std::get<6>(f), std::get<7>(f));
    };
  });
  attention_peer("  torch cuDNN SDPA", 4, 0, flops, "not paged, kv heads expanded", [&]() -> std::function<void()> {
    auto f = at::_scaled_dot_product_cudnn_attention(wide_q, wide_k, wide_v, {}, true, 0.0, true);
    return [&, f] {
      at::_scaled_dot_product_cudnn_attention_backward(wide_grad, wide_q, wide_k, wide_v, std::get<0>(f),
                                                       std::get<1>(f), std::get<6>(f), std::get<7>(f), {},
                                                       std::get<2>(f), std::get<3>(f), count, count, 0.0, true);
    };
  });
}

// `swiglu`: of the product's two halves.
void product(Gemm* handle, const char* name, int64_t m, int64_t n, int64_t k, bool fp32_out, bool accumulate,
             bool swiglu = false) {
  const double bytes = 2.0 * (n * k + m * k) + m * n *
                                                   (fp32_out     ? 4.0
                                                    : accumulate ? 4.0
                                                                 : 2.0),
               flops = 2.0 * m * n * k;
  const int launches = launches_for(static_cast<int64_t>(bytes));
  const auto args = [&] {
    return GemmArgs{.y = outputs->take(m * n * 2),
                    .x = inputs->take(m * k),
                    .w = inputs->take(n * k),
                    .m = m,
                    .n = n,
                    .k = k,
                    .fp32_out = fp32_out,
                    .accumulate = accumulate,
                    .swiglu_scratch = swiglu ? outputs->take(m * n) : nullptr};
  };
  const std::array<GemmArgs, 4> tuning{args(), args(), args(), args()};
  check_cuda(api->gemm_tune(handle, tuning.data(), 4, stream));
  line(fmt::format("gemm {:11} {:5} x {:6} x {:5}", name, m, n, k),
       timed(launches,
             [&](int) {
               const GemmArgs a = args();
               check_cuda(api->gemm(handle, &a, stream));
             }),
       bytes, flops, api->gemm_plan(handle, tuning.data()));
  line("  cuBLASLt's first proposal",
       timed(launches,
             [&](int) {
               const GemmArgs a = args();
               check_cuda(api->gemm_library(handle, &a, stream));
             }),
       bytes, flops);
  for (const int groups : {1, 2, 3}) {
    for (const int tokens : {8, 16, 32, 64, 128, 256}) {
      if (groups == 1 && tokens > 64) continue;
      const bool fits = tokens >= m ? tokens == 8 || tokens / 2 < m : tokens >= 128;
      if (fp32_out || (accumulate && tokens < 64) || !fits || (groups == 3 && tokens == 256)) continue;
      for (const int split : {1, 2, 4}) {
        if (split > 1 && (tokens > 128 || m > 256 || accumulate)) continue;
        line(fmt::format("  own tiles of {} x {}, k in {}", groups * 64, tokens, split),
             timed(launches,
                   [&](int) {
                     const GemmArgs a = args();
                     check_cuda(api->gemm_hopper(&a, groups, tokens, split, stream));
                   }),
             bytes, flops);
      }
    }
  }
  if (m > 8 || swiglu) return;
  line("  skinny kernel",
       timed(launches,
             [&](int) {
               const GemmArgs a = args();
               check_cuda(api->gemm_skinny(&a, stream));
             }),
       bytes, flops);
}

// A matrix in FP8 beside the same in bf16, and what is widened before it. Of numbers without meaning.
void fp8_product(Gemm* handle, const char* name, int64_t m, int64_t n, int64_t k, bool swiglu = false) {
  const int64_t written = swiglu ? n / 2 : n;
  const double flops = 2.0 * m * n * k, others = 2.0 * m * (written + k);
  const auto scales = [&] { return reinterpret_cast<const float*>(inputs->take(2 * n)); };
  const auto args = [&](bool fp8) {
    GemmArgs a{.y = outputs->take(m * n),
               .x = inputs->take(m * k),
               .m = m,
               .n = n,
               .k = k,
               .swiglu_scratch = swiglu ? outputs->take(m * n) : nullptr};
    if (!fp8) {
      a.w = inputs->take(n * k);
    } else {
      a.fp8 = {reinterpret_cast<const uint8_t*>(inputs->take(n * k / 2)), scales()};
      a.wide = outputs->take(n * k);
    }
    return a;
  };
  for (const bool fp8 : {false, true}) {
    const std::array<GemmArgs, 4> tuning{args(fp8), args(fp8), args(fp8), args(fp8)};
    check_cuda(api->gemm_tune(handle, tuning.data(), 4, stream));
    const double bytes = others + static_cast<double>(n * k) * (fp8 ? 1 : 2);
    line(fmt::format("{} {:16} {:5} x {:6} x {:5}", fp8 ? "fp8 " : "bf16", name, m, n, k),
         timed(launches_for(static_cast<int64_t>(bytes)),
               [&](int) {
                 const GemmArgs a = args(fp8);
                 check_cuda(api->gemm(handle, &a, stream));
               }),
         bytes, flops, api->gemm_plan(handle, tuning.data()));
  }
  const double bytes = 3.0 * static_cast<double>(n * k);
  line("  widened alone",
       timed(launches_for(static_cast<int64_t>(bytes)),
             [&](int) {
               const GemmArgs a = args(true);
               check_cuda(api->widen_matrix(a.wide, &a.fp8, n, k, stream));
             }),
       bytes, 0);
  for (const int groups : {2, 3}) {
    for (const int tokens : {8, 16, 32, 64, 128}) {
      const bool fits = tokens >= m ? tokens == 8 || tokens / 2 < m : tokens == 128;
      for (const int split : {1, 2, 4}) {
        if (!fits || m > 1024 || (split > 1 && m > 256)) continue;
        line(fmt::format("  fp8 tiles of {} x {}, k in {}", groups * 64, tokens, split),
             timed(launches_for(n * k),
                   [&](int) {
                     const GemmArgs a = args(true);
                     check_cuda(api->gemm_hopper(&a, groups, tokens, split, stream));
                   }),
             others + static_cast<double>(n * k), flops);
      }
    }
  }
  if (m > 8) return;
  line("  fp8 skinny kernel",
       timed(launches_for(n * k),
             [&](int) {
               GemmArgs a = args(true);
               a.swiglu_scratch = nullptr;
               check_cuda(api->gemm_skinny(&a, stream));
             }),
       others + static_cast<double>(n * k), flops);
}

void sampling(int64_t count, const char* name, float top_p, int32_t top_k) {
  const auto f32 = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);
  const int64_t bytes = count * kVocab * 4;
  const int launches = launches_for(bytes);
  const at::Tensor logits = at::randn({launches, count, kVocab}, f32) * 3, temperature = at::ones({count}, f32),
                   p = at::full({count}, top_p, f32), min_p = at::zeros({count}, f32);
  const at::Tensor k = at::full({count}, top_k, f32.dtype(at::kInt)), seed = at::arange(count, f32.dtype(at::kLong)),
                   position = at::arange(count, f32.dtype(at::kLong));
  const at::Tensor tokens = at::empty({count}, f32.dtype(at::kInt)), log_probs = at::empty({count}, f32);
  const at::Tensor workspace = at::zeros({static_cast<int64_t>(api->sample_workspace(count))}, f32.dtype(at::kByte));
  check_cuda(api->stream_synchronize(nullptr));
  line(fmt::format("sample {:12}  {:5}", name, count),
       timed(launches,
             [&](int i) {
               const SampleArgs args{.logits = logits.const_data_ptr<float>() + i * count * kVocab,
                                     .rows = count,
                                     .vocab = kVocab,
                                     .temperature = temperature.const_data_ptr<float>(),
                                     .top_p = p.const_data_ptr<float>(),
                                     .min_p = min_p.const_data_ptr<float>(),
                                     .top_k = ints(k),
                                     .seed = reinterpret_cast<const uint64_t*>(seed.const_data_ptr<int64_t>()),
                                     .position = reinterpret_cast<const uint64_t*>(position.const_data_ptr<int64_t>()),
                                     .tokens = tokens.mutable_data_ptr<int32_t>(),
                                     .log_probs = log_probs.mutable_data_ptr<float>(),
                                     .cuts = top_p < 1 || top_k > 0,
                                     .workspace = workspace.data_ptr()};
               check_cuda(api->sample(&args, stream));
             }),
       static_cast<double>(bytes), 0);
}

// A whole decode step of Qwen3-8B but for the scheduler's work: 36 layers, head, sampler, in one graph. The layers'
// weights are cut from the arena in turn, so none is in the cache.
void step(Gemm* handle, int64_t tokens, int32_t context, bool overlap, bool fp8 = false) {
  const auto bf16 = at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
  const int64_t width = (context + kPage - 1) / kPage;
  const at::Tensor rope = at::randn({context + 1, kDim / 2, 2}, at::kCUDA);
  const at::Tensor tables = device_ints(at::arange(1, tokens * width + 1).view({tokens, width})),
                   lengths = device_ints(at::full({tokens}, context)),
                   positions = device_ints(at::full({tokens}, context - 1));
  const at::Tensor slots = device_ints((at::arange(tokens) * width + width) * kPage + (context - 1) % kPage),
                   ids = device_ints(at::arange(tokens));
  const at::Tensor workspace = at::zeros(
      {static_cast<int64_t>(api->decode_attention_workspace(tokens, kHeads, kKvHeads, kDim))}, bf16.dtype(at::kByte));
  const at::Tensor sample_memory = at::zeros({static_cast<int64_t>(api->sample_workspace(tokens))},
                                             bf16.dtype(at::kByte));
  const at::Tensor ones = at::ones({tokens}, bf16.dtype(at::kFloat)), zeros = at::zeros({tokens}, bf16.dtype(at::kInt)),
                   longs = at::zeros({tokens}, bf16.dtype(at::kLong));
  const at::Tensor drawn = at::empty({tokens}, bf16.dtype(at::kInt)),
                   log_probs = at::empty({tokens}, bf16.dtype(at::kFloat));
  const auto make = [&](int64_t columns) { return outputs->take(tokens * columns); };
  Bf16 *x = make(kHidden), *normed = make(kHidden), *delta = make(kHidden), *qkv = make(kQkv), *q = make(kHeads * kDim),
       *mixed = make(kHeads * kDim), *gate_up = make(2 * kInter), *inner = make(kInter), *logits = make(2 * kVocab),
       *wide = outputs->take(2 * kInter * kHidden);
  const auto product = [&](void* y, const Bf16* from, int64_t n, int64_t k, bool fp32_out, bool tune,
                           Bf16* swiglu_scratch = nullptr) {
    std::array<GemmArgs, 4> args;
    for (GemmArgs& one : args) {
      one = {.y = y,
             .x = from,
             .w = fp8 && !fp32_out ? nullptr : inputs->take(n * k),
             .m = tokens,
             .n = n,
             .k = k,
             .fp32_out = fp32_out,
             .swiglu_scratch = swiglu_scratch};
      if (one.w == nullptr) {
        one.fp8 = {reinterpret_cast<const uint8_t*>(inputs->take(n * k / 2)),
                   reinterpret_cast<const float*>(inputs->take(2 * n))};
        one.wide = wide;
      }
      if (!tune) break;
    }
    if (tune) check_cuda(api->gemm_tune(handle, args.data(), fp32_out ? 1 : 4, stream));
    else check_cuda(api->gemm(handle, args.data(), stream));
  };
  const auto products = [&](bool tune, int part) {
    if (part == 0) product(qkv, normed, kQkv, kHidden, false, tune);
    if (part == 1) product(delta, mixed, kHidden, kHeads * kDim, false, tune);
    if (part == 2) product(inner, normed, 2 * kInter, kHidden, false, tune, gate_up);
    if (part == 3) product(delta, inner, kHidden, kInter, false, tune);
    if (part == 4) product(logits, normed, kVocab, kHidden, true, tune);
  };
  check_cuda(api->stream_synchronize(nullptr));
  check_cuda(api->set_overlap(overlap ? 1 : 0));
  for (int part = 0; part < 5; ++part) products(true, part);
  check_cuda(api->stream_synchronize(stream));
  const double bytes = (fp8 ? 1.0 : 2.0) * 36 * kHidden * (kQkv + kHeads * kDim + 3 * kInter) + 2.0 * kHidden * kVocab +
                       36.0 * 4 * tokens * context * kKvHeads * kDim;
  line(fmt::format("decode step {:3} x {:5}, overlap {}{}", tokens, context, overlap ? "on" : "off",
                   fp8 ? ", weights fp8" : ""),
       timed(1,
             [&](int) {
               check_cuda(api->embed(x, inputs->take(tokens * kHidden), ints(ids), tokens, kHidden, stream));
               for (int layer = 0; layer < 36; ++layer) {
                 if (layer == 0)
                   check_cuda(api->rms_norm(normed, x, inputs->take(kHidden), tokens, kHidden, 1e-6f, stream));
                 else
                   check_cuda(
                       api->add_rms_norm(normed, x, delta, inputs->take(kHidden), tokens, kHidden, 1e-6f, stream));
                 products(false, 0);
                 const int64_t cached = (tokens * width + 1) * kPage * kKvHeads * kDim;
                 const KvLayer cache{inputs->take(cached), inputs->take(cached)};
                 const RopeCacheArgs roped{.qkv = qkv,
                                           .q = q,
                                           .cache = cache,
                                           .q_norm = inputs->take(kDim),
                                           .k_norm = inputs->take(kDim),
                                           .rope = rope.const_data_ptr<float>(),
                                           .positions = ints(positions),
                                           .slots = ints(slots),
                                           .tokens = tokens,
                                           .heads = kHeads,
                                           .kv_heads = kKvHeads,
                                           .head_dim = kDim,
                                           .eps = 1e-6f};
                 check_cuda(api->rope_cache(&roped, stream));
                 const DecodeAttentionArgs attend{.q = q,
                                                  .out = mixed,
                                                  .cache = cache,
                                                  .block_tables = ints(tables),
                                                  .lengths = ints(lengths),
                                                  .sequences = tokens,
                                                  .table_width = width,
                                                  .heads = kHeads,
                                                  .kv_heads = kKvHeads,
                                                  .head_dim = kDim,
                                                  .scale = 1 / std::sqrt(float{kDim}),
                                                  .workspace = workspace.data_ptr()};
                 check_cuda(api->decode_attention(&attend, stream));
                 products(false, 1);
                 check_cuda(api->add_rms_norm(normed, x, delta, inputs->take(kHidden), tokens, kHidden, 1e-6f, stream));
                 products(false, 2);
                 products(false, 3);
               }
               check_cuda(api->add_rms_norm(normed, x, delta, inputs->take(kHidden), tokens, kHidden, 1e-6f, stream));
               products(false, 4);
               const SampleArgs draw{.logits = reinterpret_cast<float*>(logits),
                                     .rows = tokens,
                                     .vocab = kVocab,
                                     .temperature = ones.const_data_ptr<float>(),
                                     .top_p = ones.const_data_ptr<float>(),
                                     .min_p = ones.const_data_ptr<float>(),
                                     .top_k = ints(zeros),
                                     .seed = reinterpret_cast<const uint64_t*>(longs.const_data_ptr<int64_t>()),
                                     .position = reinterpret_cast<const uint64_t*>(longs.const_data_ptr<int64_t>()),
                                     .tokens = drawn.mutable_data_ptr<int32_t>(),
                                     .log_probs = log_probs.mutable_data_ptr<float>(),
                                     .cuts = false,
                                     .workspace = sample_memory.data_ptr()};
               check_cuda(api->sample(&draw, stream));
             }),
       bytes, 0);
  check_cuda(api->set_overlap(1));
}

void run(const std::string& only) {
  kernels::open_device("cuda");
  api = &open_cuda_library();
  check_cuda(api->stream_create(&stream, 0));
  check_cuda(api->set_overlap(1));  // in a chain of equal kernels it hides the launch
  const auto wanted = [&](const char* part) { return only.empty() || only.find(part) != std::string::npos; };
  DeviceProperties device;
  check_cuda(api->device_properties(0, &device));
  at::manual_seed(1);
  inputs = std::make_unique<Arena>(int64_t{6} << 30);
  outputs = std::make_unique<Arena>(int64_t{3} << 30);
  const at::Tensor gemm_workspace = at::zeros({int64_t{32} << 20},
                                              at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  Gemm* handle = nullptr;
  check_cuda(api->gemm_open(&handle, gemm_workspace.data_ptr(), static_cast<size_t>(gemm_workspace.numel())));
  check_cuda(api->stream_synchronize(nullptr));

  // The card's own rates.
  constexpr int64_t kCopy = int64_t{1} << 30, kSide = 8192;
  copy_rate = matmul_rate = 1;
  copy_rate = 2.0 * kCopy / timed_on_legacy_stream(8, [&] {
                              Bf16* from = inputs->take(kCopy / 2);
                              check_cuda(api->copy(outputs->take(kCopy / 2), from, kCopy, nullptr));
                            }).median;
  const auto cube = [&] {
    return GemmArgs{.y = outputs->take(kSide * kSide),
                    .x = inputs->take(kSide * kSide),
                    .w = inputs->take(kSide * kSide),
                    .m = kSide,
                    .n = kSide,
                    .k = kSide};
  };
  const GemmArgs tuning = cube();
  check_cuda(api->gemm_tune(handle, &tuning, 1, stream));
  matmul_rate = 2.0 * kSide * kSide * kSide / timed(8, [&](int) {
                                                const GemmArgs a = cube();
                                                check_cuda(api->gemm(handle, &a, stream));
                                              }).median;
  fmt::print("{}, {} multiprocessors: copies {:.2f} TB/s (read + written), 8192^3 bf16 product {:.0f} TFLOP/s\n",
             device.name, device.multiprocessors, copy_rate * 1e-12, matmul_rate * 1e-12);

  if (wanted("step")) {
    for (const int64_t tokens : {1, 8}) {
      for (const bool overlap : {true, false}) step(handle, tokens, 1152, overlap);
    }
    for (const int64_t tokens : {64, 256}) {
      for (const bool overlap : {true, false}) step(handle, tokens, 1280, overlap);
    }
  }
  if (wanted("fp8")) {
    for (const bool fp8 : {false, true}) {
      for (const int64_t tokens : {1, 8}) step(handle, tokens, 1152, /*overlap=*/true, fp8);
      for (const int64_t tokens : {64, 256}) step(handle, tokens, 1280, /*overlap=*/false, fp8);
    }
    for (const int64_t m : {1, 8, 64, 128, 256, 1024, 8192}) {
      fp8_product(handle, "qkv", m, kQkv, kHidden);
      fp8_product(handle, "o", m, kHidden, kHeads * kDim);
      fp8_product(handle, "gate_up + SwiGLU", m, 2 * kInter, kHidden, true);
      fp8_product(handle, "down", m, kHidden, kInter);
    }
  }
  if (wanted("decode")) {
    decode_beside_torch(1, 1152);
    decode_beside_torch(1, 8192);
    decode_beside_torch(8, 1280);
    decode_beside_torch(64, 1280);
    decode_beside_torch(256, 1536);
    std::vector<int32_t> ragged;
    for (int i = 0; i < 64; ++i) ragged.push_back(64 + (i * 7919) % 2432);
    decode("decode_attention  64, 64 to 2495", ragged);
  }
  if (wanted("prefix")) {  // samples of one prompt: 2032 tokens together and 1000 each alone
    for (const int64_t groups : {1, 2, 3, 4, 6, 32}) {
      const std::vector<int32_t> lengths(static_cast<size_t>(groups * 8), 2032 + 1000);
      decode(fmt::format("decode_attention   {:2} x 8 of a prefix, off", groups), lengths, 8, 127);
      decode(fmt::format("prefix + decode    {:2} x 8 of a prefix", groups), lengths, 8, 127, Prefix::kOnce);
      decode(fmt::format("  prefix alone     {:2} x 8", groups), lengths, 8, 127, Prefix::kAlone);
      decode(fmt::format("  both in fp8      {:2} x 8", groups), lengths, 8, 127, Prefix::kOnce, /*fp8=*/true);
    }
    // Few groups of longer prompts: where reading once begins to pay (the engine's shared_prefix_mib).
    for (const auto& [groups, pages] : {std::pair<int64_t, int64_t>{1, 254}, {1, 508}, {1, 1016}, {2, 254}, {2, 508}}) {
      const std::vector<int32_t> lengths(static_cast<size_t>(groups * 8), static_cast<int32_t>(pages * kPage + 1000));
      const std::string what = fmt::format("{} x 8 of {} pages", groups, pages);
      decode("decode_attention " + what + ", off", lengths, 8, pages);
      decode("prefix + decode  " + what, lengths, 8, pages, Prefix::kOnce);
    }
  }
  if (wanted("gemm")) {
    for (const int64_t m : {1, 64, 256, 1024, 8192}) {
      product(handle, "qkv", m, kQkv, kHidden, false, false);
      product(handle, "o", m, kHidden, kHeads * kDim, false, false);
      product(handle, "gate_up + SwiGLU", m, 2 * kInter, kHidden, false, false, true);
      product(handle, "gate_up", m, 2 * kInter, kHidden, false, false);
      product(handle, "down", m, kHidden, kInter, false, false);
      if (m >= 1024) {  // prompts
        product(handle, "o, added", m, kHidden, kHeads * kDim, false, true);
        product(handle, "down, added", m, kHidden, kInter, false, true);
      } else {
        product(handle, "lm_head", m, kVocab, kHidden, true, false);
      }
    }
  }
  if (wanted("rows")) {
    for (const int64_t tokens : {1, 8, 64, 256, 8192}) rows(tokens);
  }
  if (wanted("sample")) {
    for (const int64_t count : {1, 8, 64, 256}) sampling(count, "race", 1, 0);
    for (const int64_t count : {1, 64}) {
      sampling(count, "top_p 0.95", 0.95f, 0);
      sampling(count, "top_k 50", 1, 50);
    }
  }
  if (wanted("prefill")) {
    prefill(1024, 8);
    prefill(8192, 1);
  }
  if (wanted("blocks")) {
    move_blocks(1);
    move_blocks(16);
    move_blocks(128);
  }
  if (wanted("backward")) {
    backward(8192, 1);
    backward(1024, 8);
  }
  if (wanted("checksum")) {
    const at::Tensor out = at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(at::kCUDA));
    line("checksum of 1 GiB",
         timed(8,
               [&](int) {
                 check_cuda(api->checksum(reinterpret_cast<uint64_t*>(out.mutable_data_ptr<int64_t>()),
                                          inputs->take(kCopy / 2), kCopy, stream));
               }),
         kCopy, 0);
  }
  check_cuda(api->gemm_close(handle));
  inputs.reset();  // before the CUDA side of ATen goes
  outputs.reset();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1]
                 : "");  // optional: step, fp8, decode, prefix, gemm, rows, sample, prefill, blocks, backward, checksum
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "kernels: {}\n", error.what());
    return exit_code(error.kind());
  }
}
