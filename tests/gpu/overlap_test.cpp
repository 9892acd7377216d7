// Kernels that start before the one before them has ended give the same bits as kernels one after the other, launched
// one by one and from a graph: a small model's layer, each kernel of which reads what the one before it wrote.
#include "gpu/fixture.h"

namespace tritonforge::gpu {
namespace {

class Overlap : public GpuTest {
 protected:
  void TearDown() override {
    if (!IsSkipped()) check_cuda(api().set_overlap(0));
    GpuTest::TearDown();
  }
};

TEST_F(Overlap, OnAndOffGiveTheSameBits) {
  constexpr int64_t kTokens = 4, kHidden = 896, kInter = 4864, kHeads = 14, kKvHeads = 2, kDim = 64, kVocab = 4096,
                    kQkv = (kHeads + 2 * kKvHeads) * kDim;
  constexpr int64_t kBlocks = 64, kWidth = 8, kSteps = 20, kLayers = 6;
  const auto weight = [&](int64_t n, int64_t k) {
    return upload(random_bf16({n, k}, 1 / std::sqrt(static_cast<double>(k))));
  };
  const Buffer table = weight(kVocab, kHidden), qkv_w = weight(kQkv, kHidden), o_w = weight(kHidden, kHeads * kDim),
               up_w = weight(2 * kInter, kHidden), down_w = weight(kHidden, kInter);
  const Buffer norm = upload(at::ones({kHidden}, at::kBFloat16)), inv_freq = upload(at::rand({kDim / 2})),
               rope = like({kWidth * kPage, kDim / 2, 2}, at::kFloat);
  const Buffer tables = upload(ints([] {
    std::vector<int32_t> all;
    for (int32_t i = 0; i < kTokens * kWidth; ++i) all.push_back(1 + i);
    return all;
  }()));
  const Buffer temperature = upload(at::ones({kTokens})), top_p = upload(at::ones({kTokens})),
               min_p = upload(at::zeros({kTokens})), top_k = upload(at::zeros({kTokens}, at::kInt));
  const Buffer seed = upload(at::arange(kTokens, at::kLong)), position64 = upload(at::zeros({kTokens}, at::kLong));
  const Buffer attention_workspace(api().decode_attention_workspace(kTokens, kHeads, kKvHeads, kDim), 0),
      sample_memory(api().sample_workspace(kTokens), 0);
  check_cuda(api().rope_table(rope.as<float>(), inv_freq.as<float>(), kWidth * kPage, kDim, stream));

  // Runs kSteps decode steps from the same start; returns every token drawn, the last hidden state and the logits.
  const auto run = [&](bool overlap, bool in_graph) {
    check_cuda(api().set_overlap(overlap ? 1 : 0));
    const Buffer ids = upload(ints({1, 2, 3, 4})), positions = upload(ints({0, 5, 0, 30})),
                 lengths = upload(ints({1, 6, 1, 31})), slots = upload(ints({16, 9 * 16 + 5, 17 * 16, 26 * 16 + 14}));
    const Buffer keys(kBlocks * kKvHeads * kPage * kDim * 2, 0), values(kBlocks * kKvHeads * kPage * kDim * 2, 0),
        tokens = like({kTokens}, at::kInt), log_probs = like({kTokens}, at::kFloat);
    const Buffer x = like({kTokens, kHidden}, at::kBFloat16), normed = like({kTokens, kHidden}, at::kBFloat16),
                 delta = like({kTokens, kHidden}, at::kBFloat16), qkv = like({kTokens, kQkv}, at::kBFloat16);
    const Buffer q = like({kTokens, kHeads * kDim}, at::kBFloat16),
                 mixed = like({kTokens, kHeads * kDim}, at::kBFloat16),
                 gate_up = like({kTokens, 2 * kInter}, at::kBFloat16);
    const Buffer inner = like({kTokens, kInter}, at::kBFloat16), logits = like({kTokens, kVocab}, at::kFloat),
                 history = like({kSteps, kTokens}, at::kInt);
    const auto product = [&](const Buffer& y, const Buffer& from, const Buffer& w, int64_t n, int64_t k,
                             bool fp32_out = false) {
      const GemmArgs args{
          .y = y.as<void>(), .x = from.as(), .w = w.as(), .m = kTokens, .n = n, .k = k, .fp32_out = fp32_out};
      check_cuda(api().gemm_skinny(&args, stream));
    };
    const auto step = [&] {
      check_cuda(api().embed(x.as(), table.as(), ids.as<int32_t>(), kTokens, kHidden, stream));
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        if (layer == 0) check_cuda(api().rms_norm(normed.as(), x.as(), norm.as(), kTokens, kHidden, 1e-6f, stream));
        else
          check_cuda(api().add_rms_norm(normed.as(), x.as(), delta.as(), norm.as(), kTokens, kHidden, 1e-6f, stream));
        product(qkv, normed, qkv_w, kQkv, kHidden);
        const RopeCacheArgs roped{.qkv = qkv.as(),
                                  .q = q.as(),
                                  .cache = {keys.as(), values.as()},
                                  .rope = rope.as<float>(),
                                  .positions = positions.as<int32_t>(),
                                  .slots = slots.as<int32_t>(),
                                  .tokens = kTokens,
                                  .heads = kHeads,
                                  .kv_heads = kKvHeads,
                                  .head_dim = kDim,
                                  .eps = 1e-6f};
        check_cuda(api().rope_cache(&roped, stream));
        const DecodeAttentionArgs attend{.q = q.as(),
                                         .out = mixed.as(),
                                         .cache = {keys.as(), values.as()},
                                         .block_tables = tables.as<int32_t>(),
                                         .lengths = lengths.as<int32_t>(),
                                         .sequences = kTokens,
                                         .table_width = kWidth,
                                         .heads = kHeads,
                                         .kv_heads = kKvHeads,
                                         .head_dim = kDim,
                                         .scale = 0.125f,
                                         .workspace = attention_workspace.as<void>()};
        check_cuda(api().decode_attention(&attend, stream));
        product(delta, mixed, o_w, kHidden, kHeads * kDim);
        check_cuda(api().add_rms_norm(normed.as(), x.as(), delta.as(), norm.as(), kTokens, kHidden, 1e-6f, stream));
        product(gate_up, normed, up_w, 2 * kInter, kHidden);
        check_cuda(api().swiglu(inner.as(), gate_up.as(), kTokens, kInter, stream));
        product(delta, inner, down_w, kHidden, kInter);
      }
      check_cuda(api().add_rms_norm(normed.as(), x.as(), delta.as(), norm.as(), kTokens, kHidden, 1e-6f, stream));
      product(logits, normed, table, kVocab, kHidden, true);
      const SampleArgs draw{.logits = logits.as<float>(),
                            .rows = kTokens,
                            .vocab = kVocab,
                            .temperature = temperature.as<float>(),
                            .top_p = top_p.as<float>(),
                            .min_p = min_p.as<float>(),
                            .top_k = top_k.as<int32_t>(),
                            .seed = seed.as<uint64_t>(),
                            .position = position64.as<uint64_t>(),
                            .tokens = tokens.as<int32_t>(),
                            .log_probs = log_probs.as<float>(),
                            .cuts = true,
                            .workspace = sample_memory.as<void>()};
      check_cuda(api().sample(&draw, stream));
      const AdvanceArgs next{.tokens = tokens.as<int32_t>(),
                             .ids = ids.as<int32_t>(),
                             .positions = positions.as<int32_t>(),
                             .slots = slots.as<int32_t>(),
                             .lengths = lengths.as<int32_t>(),
                             .block_tables = tables.as<int32_t>(),
                             .sequences = kTokens,
                             .table_width = kWidth};
      check_cuda(api().advance(&next, stream));
    };
    Graph graph = nullptr;
    if (in_graph) {
      check_cuda(api().capture_begin(stream));
      step();
      check_cuda(api().capture_end(stream, &graph, nullptr));
    }
    for (int64_t i = 0; i < kSteps; ++i) {
      if (in_graph) check_cuda(api().graph_launch(graph, stream));
      else step();
      if (i + 1 < kSteps && i % 3 != 0) continue;  // most steps follow each other without a copy between them
      check_cuda(api().copy(history.as<int32_t>() + i * kTokens, tokens.as<void>(), kTokens * 4, stream));
    }
    const std::vector<at::Tensor> all{
        download(history, {kSteps, kTokens}, at::kInt), download(x, {kTokens, kHidden}, at::kBFloat16).view(at::kShort),
        download(logits, {kTokens, kVocab}, at::kFloat),
        download(keys, {kBlocks * kKvHeads * kPage * kDim}, at::kBFloat16).view(at::kShort)};
    if (in_graph) check_cuda(api().graph_destroy(graph));
    return all;
  };
  const auto expected = run(false, false);
  EXPECT_FALSE(expected[2].isnan().any().item<bool>());
  for (const auto& [overlap, in_graph] :
       {std::pair(true, false), std::pair(false, true), std::pair(true, true), std::pair(true, true)}) {
    const auto found = run(overlap, in_graph);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(at::equal(found[i], expected[i]))
          << "overlap " << overlap << ", graph " << in_graph << ", output " << i;
  }
}

}  // namespace
}  // namespace tritonforge::gpu
