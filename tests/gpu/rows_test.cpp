// Tolerance: both sides round the same products at the same places; sums of squares differ in order, so a value now and
// then rounds to its neighbour, one bfloat16 step (2^-7 of it at most).
#include "gpu/fixture.h"
#include "kernels/checksum.h"
#include "kernels/fused_ops.h"

namespace tritonforge::gpu {
namespace {

using Rows = GpuTest;
constexpr double kStep = 0x1.0p-7;

double differing(const at::Tensor& found, const at::Tensor& expected) {
  return found.ne(expected).to(at::kDouble).mean().item<double>();
}

TEST_F(Rows, RmsNormEqualsItsTwin) {
  for (const auto& [rows, d] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 896}, {1, 4096}, {3, 64}, {17, 1000}, {257, 4096}, {700, 896}, {600, 12288}, {2, 16384}}) {
    const at::Tensor x = random_bf16({rows, d}, 3), weight = random_bf16({d});
    const Buffer dx = upload(x), dw = upload(weight), out = like({rows, d}, at::kBFloat16);
    check_cuda(api().rms_norm(out.as(), dx.as(), dw.as(), rows, d, 1e-6f, stream));
    const at::Tensor expected = kernels::rms_norm_reference(x, weight, 1e-6),
                     found = download(out, {rows, d}, at::kBFloat16);
    EXPECT_LE(worst_element_error(found, expected, 1e-30), 2 * kStep) << rows << " x " << d;
    EXPECT_LE(differing(found, expected), 5e-3) << rows << " x " << d;
  }
}

TEST_F(Rows, AddRmsNormUpdatesTheResidualInPlace) {
  for (const auto& [rows, d] : std::vector<std::pair<int64_t, int64_t>>{{1, 4096}, {64, 4096}, {9, 896}, {1024, 896}}) {
    const at::Tensor x = random_bf16({rows, d}, 3), delta = random_bf16({rows, d}), weight = random_bf16({d});
    const Buffer dx = upload(x), dd = upload(delta), dw = upload(weight), out = like({rows, d}, at::kBFloat16);
    check_cuda(api().add_rms_norm(out.as(), dx.as(), dd.as(), dw.as(), rows, d, 1e-6f, stream));
    const at::Tensor sum = x + delta, expected = kernels::rms_norm_reference(sum, weight, 1e-6);
    EXPECT_TRUE(at::equal(download(dx, {rows, d}, at::kBFloat16), sum));
    const at::Tensor found = download(out, {rows, d}, at::kBFloat16);
    EXPECT_LE(worst_element_error(found, expected, 1e-30), 2 * kStep) << rows << " x " << d;
    EXPECT_LE(differing(found, expected), 5e-3) << rows << " x " << d;
  }
}

TEST_F(Rows, SwigluEqualsItsTwin) {  // __expf: a relative error of 1e-6 before the first rounding
  for (const auto& [rows, d] : std::vector<std::pair<int64_t, int64_t>>{{1, 4864}, {5, 8}, {257, 4864}, {64, 12288}}) {
    const at::Tensor x = random_bf16({rows, 2 * d}, 4);
    const Buffer dx = upload(x), out = like({rows, d}, at::kBFloat16);
    check_cuda(api().swiglu(out.as(), dx.as(), rows, d, stream));
    const at::Tensor expected = kernels::swiglu_reference(x.narrow(1, 0, d), x.narrow(1, d, d)),
                     found = download(out, {rows, d}, at::kBFloat16);
    EXPECT_LE(worst_element_error(found, expected, 1e-6), 2 * kStep) << rows << " x " << d;
    EXPECT_LE(differing(found, expected), 5e-3) << rows << " x " << d;
  }
}

TEST_F(Rows, EmbeddingAndGatherCopyRows) {
  const at::Tensor table = random_bf16({1000, 896});
  const Buffer dt = upload(table);
  for (const int64_t count : {1, 7, 257, 3000}) {
    const at::Tensor ids = at::randint(0, 1000, {count}, at::kInt);
    const Buffer di = upload(ids), out = like({count, 896}, at::kBFloat16), again = like({count, 896}, at::kBFloat16);
    check_cuda(api().embed(out.as(), dt.as(), di.as<int32_t>(), count, 896, stream));
    check_cuda(api().gather_rows(again.as(), dt.as(), di.as<int32_t>(), count, 896, stream));
    const at::Tensor expected = table.index_select(0, ids.to(at::kLong));
    EXPECT_TRUE(at::equal(download(out, {count, 896}, at::kBFloat16), expected));
    EXPECT_TRUE(at::equal(download(again, {count, 896}, at::kBFloat16), expected));
  }
}

TEST_F(Rows, RopeCacheWritesQueriesAndSlots) {
  struct Case {
    int64_t tokens, heads, kv_heads, d;
    bool norm;
  };
  for (const Case& c : {Case{1, 32, 8, 128, true}, Case{5, 14, 2, 64, false}, Case{257, 32, 8, 128, true},
                        Case{33, 16, 8, 128, false}, Case{9, 7, 1, 64, true}}) {
    const int64_t blocks = 40, slots = blocks * kPage, width = c.heads + 2 * c.kv_heads;
    const at::Tensor qkv = random_bf16({c.tokens, width, c.d}, 2), q_norm = random_bf16({c.d}),
                     k_norm = random_bf16({c.d});
    const at::Tensor positions = at::randint(0, 40000, {c.tokens}, at::kInt),
                     places = at::randperm(slots).slice(0, 0, c.tokens).to(at::kInt);
    const at::Tensor inv_freq = at::pow(1e6, at::arange(0, c.d, 2).to(at::kFloat) / static_cast<double>(c.d))
                                    .reciprocal();
    const Buffer d_qkv = upload(qkv), d_qn = upload(q_norm), d_kn = upload(k_norm), d_pos = upload(positions),
                 d_slots = upload(places), d_freq = upload(inv_freq);
    const Buffer rope = like({40000, c.d / 2, 2}, at::kFloat), q = like({c.tokens, c.heads, c.d}, at::kBFloat16);
    const Buffer keys = like({slots, c.kv_heads, c.d}, at::kBFloat16),
                 values = like({slots, c.kv_heads, c.d}, at::kBFloat16);
    check_cuda(api().rope_table(rope.as<float>(), d_freq.as<float>(), 40000, c.d, stream));
    const RopeCacheArgs args{.qkv = d_qkv.as(),
                             .q = q.as(),
                             .cache = {keys.as(), values.as()},
                             .q_norm = c.norm ? d_qn.as() : nullptr,
                             .k_norm = c.norm ? d_kn.as() : nullptr,
                             .rope = rope.as<float>(),
                             .positions = d_pos.as<int32_t>(),
                             .slots = d_slots.as<int32_t>(),
                             .tokens = c.tokens,
                             .heads = c.heads,
                             .kv_heads = c.kv_heads,
                             .head_dim = c.d,
                             .eps = 1e-6f};
    check_cuda(api().rope_cache(&args, stream));

    const at::Tensor angle = positions.to(at::kFloat).unsqueeze(1) * inv_freq.unsqueeze(0), cosine = angle.cos(),
                     sine = angle.sin();
    const auto prepared = [&](int64_t begin, int64_t count, const at::Tensor& norm) {
      const at::Tensor x = qkv.narrow(1, begin, count).contiguous();
      return kernels::rope_reference(c.norm ? kernels::rms_norm_reference(x, norm, 1e-6) : x, cosine, sine);
    };
    // A pair may cancel, so an element's error is measured against the row's size.
    EXPECT_LE(worst_row_error(download(q, {c.tokens, c.heads, c.d}, at::kBFloat16), prepared(0, c.heads, q_norm)),
              2e-3);
    EXPECT_LE(
        worst_element_error(download(q, {c.tokens, c.heads, c.d}, at::kBFloat16), prepared(0, c.heads, q_norm), 4),
        2 * kStep);
    const auto read = [&](const Buffer& cache) {  // [blocks, kv_heads, page, d] by slot
      const at::Tensor all = download(cache, {blocks, c.kv_heads, kPage, c.d}, at::kBFloat16)
                                 .transpose(1, 2)
                                 .reshape({slots, c.kv_heads, c.d});
      return std::pair(all.index_select(0, places.to(at::kLong)), all.isnan().all(2).all(1).sum().item<int64_t>());
    };
    const auto [k, untouched] = read(keys);
    EXPECT_LE(worst_row_error(k, prepared(c.heads, c.kv_heads, k_norm)), 2e-3);
    EXPECT_EQ(untouched, slots - c.tokens);  // no slot of another token
    EXPECT_TRUE(at::equal(read(values).first, qkv.narrow(1, c.heads + c.kv_heads, c.kv_heads)));
  }
}

// In FP8 the same keys and values, rounded: the bytes that the CPU makes of those of the bf16 cache.
TEST_F(Rows, RopeCacheRoundsToFp8AsTheCpu) {
  struct Case {
    int64_t tokens, heads, kv_heads, d;
  };
  for (const Case& c : {Case{1, 32, 8, 128}, Case{5, 14, 2, 64}, Case{257, 32, 8, 128}, Case{9, 7, 1, 64}}) {
    const int64_t blocks = 40, slots = blocks * kPage;
    at::Tensor qkv = random_bf16({c.tokens, c.heads + 2 * c.kv_heads, c.d}, 2);
    qkv.slice(1, c.heads).mul_(at::pow(10, at::randn({c.tokens, 2 * c.kv_heads, 1})));  // rows of all sizes
    qkv[0][c.heads + c.kv_heads].zero_();
    qkv[c.tokens - 1][c.heads + 2 * c.kv_heads - 1][3] = std::nan("");
    const at::Tensor positions = at::randint(0, 4000, {c.tokens}, at::kInt),
                     places = at::randperm(slots).slice(0, 0, c.tokens).to(at::kInt),
                     freq = at::pow(1e6, at::arange(0, c.d, 2).to(at::kFloat) / static_cast<double>(c.d)).reciprocal();
    const Buffer d_qkv = upload(qkv), d_pos = upload(positions), d_slots = upload(places), d_freq = upload(freq),
                 rope = like({4000, c.d / 2, 2}, at::kFloat), q = like({c.tokens, c.heads, c.d}, at::kBFloat16),
                 q_too = like({c.tokens, c.heads, c.d}, at::kBFloat16);
    check_cuda(api().rope_table(rope.as<float>(), d_freq.as<float>(), 4000, c.d, stream));
    const std::vector<int64_t> shape{blocks, c.kv_heads, kPage, c.d}, scales_shape{blocks, c.kv_heads, 2, kPage};
    const Buffer keys = like(shape, at::kBFloat16), values = like(shape, at::kBFloat16);
    const Buffer keys8 = like(shape, at::kByte), values8 = like(shape, at::kByte),
                 scales = like(scales_shape, at::kByte);
    RopeCacheArgs args{.qkv = d_qkv.as(),
                       .q = q.as(),
                       .cache = {keys.as(), values.as()},
                       .rope = rope.as<float>(),
                       .positions = d_pos.as<int32_t>(),
                       .slots = d_slots.as<int32_t>(),
                       .tokens = c.tokens,
                       .heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .head_dim = c.d,
                       .eps = 1e-6f};
    check_cuda(api().rope_cache(&args, stream));
    args.q = q_too.as();
    args.cache = {keys8.as(), values8.as(), scales.as<uint8_t>()};
    check_cuda(api().rope_cache(&args, stream));

    EXPECT_TRUE(at::equal(download(q, {c.tokens, c.heads, c.d}, at::kBFloat16),
                          download(q_too, {c.tokens, c.heads, c.d}, at::kBFloat16)));
    const auto by_slot = [&](const at::Tensor& cache) {  // of [blocks, kv_heads, kPage, ...]
      return cache.transpose(1, 2).flatten(0, 1).index_select(0, places.to(at::kLong));
    };
    const at::Tensor found_scales = download(scales, scales_shape, at::kByte);
    for (int64_t which = 0; which < 2; ++which) {
      const Fp8Rows wanted = fp8_rows(by_slot(download(which == 0 ? keys : values, shape, at::kBFloat16)));
      const at::Tensor found = by_slot(download(which == 0 ? keys8 : values8, shape, at::kByte));
      EXPECT_TRUE(at::equal(by_slot(found_scales.select(2, which)), wanted.scales)) << which;
      EXPECT_TRUE(at::equal(found, wanted.bytes)) << which;
      EXPECT_EQ((wanted.scales == 255).sum().item<int64_t>(), which);
    }
    // No slot of another token; one row is not finite.
    EXPECT_EQ((found_scales != 0xFF).sum().item<int64_t>(), 2 * c.tokens * c.kv_heads - 1);
  }
}

TEST_F(Rows, AdvanceMovesActiveRowsOnly) {
  const Buffer tokens = upload(ints({7, 8, 9, 10})), lengths = upload(ints({16, 0, 31, 48})),
               tables = upload(ints({3, 5, 9, 1, 1, 1, 2, 4, 6, 7, 8, 9}));
  const Buffer ids = upload(ints({0, 0, 0, 0})), positions = upload(ints({0, 0, 0, 0})),
               slots = upload(ints({0, 0, 0, 0}));
  const AdvanceArgs args{.tokens = tokens.as<int32_t>(),
                         .ids = ids.as<int32_t>(),
                         .positions = positions.as<int32_t>(),
                         .slots = slots.as<int32_t>(),
                         .lengths = lengths.as<int32_t>(),
                         .block_tables = tables.as<int32_t>(),
                         .sequences = 4,
                         .table_width = 3};
  check_cuda(api().advance(&args, stream));
  EXPECT_TRUE(at::equal(download(ids, {4}, at::kInt), ints({7, 0, 9, 10})));
  EXPECT_TRUE(at::equal(download(positions, {4}, at::kInt), ints({16, 0, 31, 48})));
  EXPECT_TRUE(
      at::equal(download(slots, {4}, at::kInt), ints({5 * 16, 0, 4 * 16 + 15, 0})));  // the last one's table is full
  EXPECT_TRUE(at::equal(download(lengths, {4}, at::kInt), ints({17, 0, 32, 49})));
}

TEST_F(Rows, PickIdsTakesTheTokensThatHaveASource) {
  const Buffer ids = upload(ints({1, 2, 3, 4})), tokens = upload(ints({70, -1, 72})),
               sources = upload(ints({2, -1, 1, 0}));
  check_cuda(api().pick_ids(ids.as<int32_t>(), tokens.as<int32_t>(), sources.as<int32_t>(), 4, stream));
  EXPECT_TRUE(at::equal(download(ids, {4}, at::kInt), ints({72, 2, 0, 70})));
}

TEST_F(Rows, ChecksumEqualsTheHosts) {
  for (const int64_t bytes : {0, 1, 7, 8, 9, 15, 16, 17, 4096, 1000003, 50000000}) {
    const at::Tensor data = at::randint(0, 256, {bytes}, at::kByte);
    const Buffer on_device = upload(data), out(8);
    check_cuda(api().checksum(out.as<uint64_t>(), on_device.as<void>(), static_cast<size_t>(bytes), stream));
    EXPECT_EQ(static_cast<uint64_t>(download(out, {1}, at::kLong).item<int64_t>()),
              checksum_bytes(data.const_data_ptr(), static_cast<size_t>(bytes)))
        << bytes;
  }
}

TEST_F(Rows, BadShapesAreRefusedByName) {
  const Buffer x(1024);
  EXPECT_NE(api().rms_norm(x.as(), x.as(), x.as(), 1, 12, 1e-6f, stream), 0);
  EXPECT_NE(std::string(api().last_error()).find("rms_norm"), std::string::npos);
  const RopeCacheArgs args{.head_dim = 96};
  EXPECT_NE(api().rope_cache(&args, stream), 0);
  EXPECT_NE(std::string(api().last_error()).find("head_dim 96"), std::string::npos);
}

}  // namespace
}  // namespace tritonforge::gpu
