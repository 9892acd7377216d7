#include <memory>

#include "kernels/card.h"

namespace tritonforge::bench {
namespace {

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

}  // namespace

void measure_rows() {
  for (const int64_t tokens : {1, 8, 64, 256, 8192}) rows(tokens);
}

void measure_sample() {
  for (const int64_t count : {1, 8, 64, 256}) sampling(count, "race", 1, 0);
  for (const int64_t count : {1, 64}) {
    sampling(count, "top_p 0.95", 0.95f, 0);
    sampling(count, "top_k 50", 1, 50);
  }
}

void measure_blocks() {
  move_blocks(1);
  move_blocks(16);
  move_blocks(128);
}

void measure_checksum() {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const at::Tensor out = at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(at::kCUDA));
  line("checksum of 1 GiB",
       timed(8,
             [&](int) {
               check_cuda(api->checksum(reinterpret_cast<uint64_t*>(out.mutable_data_ptr<int64_t>()),
                                        inputs->take(kBytes / 2), kBytes, stream));
             }),
       kBytes, 0);
}

}  // namespace tritonforge::bench
