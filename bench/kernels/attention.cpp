#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "kernels/card.h"

namespace tritonforge::bench {
namespace {

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

}  // namespace

void measure_decode() {
  decode_beside_torch(1, 1152);
  decode_beside_torch(1, 8192);
  decode_beside_torch(8, 1280);
  decode_beside_torch(64, 1280);
  decode_beside_torch(256, 1536);
  std::vector<int32_t> ragged;
  for (int i = 0; i < 64; ++i) ragged.push_back(64 + (i * 7919) % 2432);
  decode("decode_attention  64, 64 to 2495", ragged);
}

// samples of one prompt: 2032 tokens together and 1000 each alone
void measure_prefix() {
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

void measure_prefill() {
  prefill(1024, 8);
  prefill(8192, 1);
}

void measure_backward() {
  backward(8192, 1);
  backward(1024, 8);
}

}  // namespace tritonforge::bench
