#include <array>
#include <cmath>

#include "kernels/card.h"

namespace tritonforge::bench {
namespace {

// A whole decode step of Qwen3-8B but for the scheduler's work: 36 layers, head, sampler, in one graph. The layers'
// weights are cut from the arena in turn, so none is in the cache.
void step(int64_t tokens, int32_t context, bool overlap, bool fp8 = false) {
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
    if (tune) check_cuda(api->gemm_tune(gemm, args.data(), fp32_out ? 1 : 4, stream));
    else check_cuda(api->gemm(gemm, args.data(), stream));
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

}  // namespace

void measure_step() {
  for (const int64_t tokens : {1, 8}) {
    for (const bool overlap : {true, false}) step(tokens, 1152, overlap);
  }
  for (const int64_t tokens : {64, 256}) {
    for (const bool overlap : {true, false}) step(tokens, 1280, overlap);
  }
}

void measure_fp8_steps() {
  for (const bool fp8 : {false, true}) {
    for (const int64_t tokens : {1, 8}) step(tokens, 1152, /*overlap=*/true, fp8);
    for (const int64_t tokens : {64, 256}) step(tokens, 1280, /*overlap=*/false, fp8);
  }
}

}  // namespace tritonforge::bench
