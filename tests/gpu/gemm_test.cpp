// Tolerance: sums over k in fp32 in another order than the reference's float64: 2e-5 of a row's size with fp32 output;
// bfloat16 output adds its rounding, 2^-9 at most and 1.7e-3 on average: 4e-3 of a row.
#include "gpu/fixture.h"
#include "kernels/fp8_matrix.h"

namespace tritonforge::gpu {
namespace {

class Products : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    workspace = Buffer(32 << 20, 0);
    check_cuda(api().gemm_open(&handle, workspace.as<void>(), workspace.bytes()));
  }
  void TearDown() override {
    if (handle != nullptr) check_cuda(api().gemm_close(handle));
    GpuTest::TearDown();
  }
  struct Shape {
    int64_t m, n, k;
    bool bias = false, fp32_out = false, accumulate = false;
  };
  enum class Way { kPlanned, kTuned, kLibrary, kSkinny };
  void compare(const Shape& s, std::initializer_list<Way> ways) {
    const at::Tensor x = random_bf16({s.m, s.k}), w = random_bf16({s.n, s.k}), bias = random_bf16({s.n}, 30),
                     before = random_bf16({s.m, s.n}, 30);
    const auto type = s.fp32_out ? at::kFloat : at::kBFloat16;
    at::Tensor expected = at::mm(x.to(at::kDouble), w.to(at::kDouble).t());
    if (s.bias) expected += bias.to(at::kDouble);
    if (s.accumulate) expected += before.to(at::kDouble);
    const Buffer dx = upload(x), dw = upload(w), db = upload(bias);
    for (const Way way : ways) {
      const Buffer y = s.accumulate ? upload(before.to(type)) : like({s.m, s.n}, type);
      const GemmArgs args{.y = y.as<void>(),
                          .x = dx.as(),
                          .w = dw.as(),
                          .bias = s.bias ? db.as() : nullptr,
                          .m = s.m,
                          .n = s.n,
                          .k = s.k,
                          .fp32_out = s.fp32_out,
                          .accumulate = s.accumulate};
      if (way == Way::kTuned) {
        const Buffer scratch = like({s.m, s.n}, type);  // tuning overwrites y
        GemmArgs tuning = args;
        tuning.y = scratch.as<void>();
        check_cuda(api().gemm_tune(handle, &tuning, 1, stream));
      }
      const int status = way == Way::kSkinny    ? api().gemm_skinny(&args, stream)
                         : way == Way::kLibrary ? api().gemm_library(handle, &args, stream)
                                                : api().gemm(handle, &args, stream);
      check_cuda(status);
      EXPECT_LE(worst_row_error(download(y, {s.m, s.n}, type), expected), s.fp32_out ? 2e-5 : 4e-3)
          << s.m << " x " << s.n << " x " << s.k << " way " << static_cast<int>(way) << (s.bias ? " bias" : "")
          << (s.fp32_out ? " fp32" : "") << (s.accumulate ? " accumulate" : "");
    }
  }
  // A matrix in FP8 whose rows have scales of their own, and what it stands for.
  struct Rounded {
    Buffer values, scales, wide, scratch;
    at::Tensor widened;
    void put_into(GemmArgs& args) const {
      args.w = nullptr;
      args.fp8 = {values.as<uint8_t>(), scales.as<float>()};
      args.wide = scratch.as();
    }
  };
  Rounded rounded(int64_t n, int64_t k) {
    const at::Tensor w = random_bf16({n, k}, 0.1) * at::exp2(at::arange(n) * 5 % 7 - 3).to(at::kBFloat16).unsqueeze(1);
    const kernels::Fp8Matrix matrix = kernels::to_fp8(w);
    const at::Tensor widened = kernels::widened(matrix, at::kBFloat16);
    return {upload(kernels::to_lane_order(matrix.values).view(at::kByte)), upload(matrix.scales), upload(widened),
            like({n, k}, at::kBFloat16), widened};
  }
  Buffer workspace;
  Gemm* handle = nullptr;
};

TEST_F(Products, FewRowsByBothKernels) {
  for (const int64_t m : {1, 2, 3, 4, 5, 7, 8}) {
    for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
             {896, 896}, {1152, 896}, {896, 4864}, {4096, 4096}, {40, 32}, {1000, 64}, {24, 12288}}) {
      compare({m, n, k}, {Way::kSkinny, Way::kLibrary, Way::kPlanned});
      compare({m, n, k, true}, {Way::kSkinny, Way::kPlanned});
      compare({m, n, k, false, true}, {Way::kSkinny, Way::kLibrary});
      compare({m, n, k, false, false, true}, {Way::kSkinny, Way::kLibrary});
    }
  }
}

TEST_F(Products, ManyRows) {
  for (const int64_t m : {9, 16, 63, 64, 129, 257}) {
    compare({m, 1152, 896, true}, {Way::kPlanned, Way::kTuned});
    compare({m, 896, 4864, false, false, true}, {Way::kPlanned, Way::kTuned});
    compare({m, 2048, 896, false, true}, {Way::kPlanned, Way::kTuned});
  }
}

// A trainer's micro-batches have other rows each: timing every product anew would take longer than the step.
TEST_F(Products, OneIsTunedForAllOfItsSize) {
  const auto plan_of = [&](int64_t m, int64_t n, int64_t k) {
    const GemmArgs args{.m = m, .n = n, .k = k};
    return std::string(api().gemm_plan(handle, &args));
  };
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{2048, 896}, {896, 4864}}) {
    compare({1500, n, k}, {Way::kTuned});
    const std::string tuned = plan_of(1500, n, k);
    EXPECT_NE(tuned.find(", tuned"), std::string::npos) << tuned;
    for (const int64_t rows : {1281, 1500, 1501, 1536}) {
      compare({rows, n, k}, {Way::kPlanned, Way::kTuned});
      EXPECT_EQ(plan_of(rows, n, k), tuned) << rows;
    }
    for (const int64_t rows : {1280, 1537}) {
      compare({rows, n, k}, {Way::kPlanned});
      EXPECT_NE(plan_of(rows, n, k).find("not tuned"), std::string::npos) << rows;
    }
  }
}

TEST_F(Products, AMatrixInFp8IsWidenedExactly) {
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{1152, 896}, {40, 64}, {7, 12288}}) {
    const Rounded w = rounded(n, k);
    const Fp8Weights weights{w.values.as<uint8_t>(), w.scales.as<float>()};
    check_cuda(api().widen_matrix(w.scratch.as(), &weights, n, k, stream));
    EXPECT_TRUE(at::equal(download(w.scratch, {n, k}, at::kBFloat16), w.widened)) << n << " x " << k;
  }
}

// Whatever way is chosen: from the bytes, or widened before.
TEST_F(Products, OfFp8AreThoseOfTheWidenedMatrix) {
  for (const auto& [n, k] :
       std::vector<std::pair<int64_t, int64_t>>{{1152, 896}, {896, 4864}, {4096, 4096}, {24, 12288}, {40, 64}}) {
    const Rounded w = rounded(n, k);
    for (const int64_t m : {1, 3, 8, 9, 40, 64, 100, 300}) {
      const at::Tensor x = random_bf16({m, k}), bias = random_bf16({n}, 30);
      const Buffer dx = upload(x), db = upload(bias);
      const at::Tensor expected = at::mm(x.to(at::kDouble), w.widened.to(at::kDouble).t()) + bias.to(at::kDouble);
      enum { kSkinny, kLibrary, kPlanned, kTuned };
      for (const int way : {kSkinny, kLibrary, kPlanned, kTuned}) {
        if (way == kSkinny && m > 8) continue;
        const Buffer y = like({m, n}, at::kBFloat16);
        GemmArgs args{.y = y.as<void>(), .x = dx.as(), .bias = db.as(), .m = m, .n = n, .k = k};
        w.put_into(args);
        if (way == kTuned) check_cuda(api().gemm_tune(handle, &args, 1, stream));
        check_cuda(way == kSkinny    ? api().gemm_skinny(&args, stream)
                   : way == kLibrary ? api().gemm_library(handle, &args, stream)
                                     : api().gemm(handle, &args, stream));
        EXPECT_LE(worst_row_error(download(y, {m, n}, at::kBFloat16), expected), 4e-3)
            << m << " x " << n << " x " << k << " way " << way << ", " << api().gemm_plan(handle, &args);
      }
    }
  }
}

// Products that share one scratch, each launched before the one in front has ended: none reads what is not there yet,
// or not any more.
TEST_F(Products, AScratchOfFp8IsOneProductsAtATime) {
  constexpr int64_t kRows = 300, kWidth = 2048;
  const Rounded first = rounded(kWidth, kWidth), second = rounded(kWidth, kWidth);
  const at::Tensor x = random_bf16({kRows, kWidth});
  std::string plan;
  const auto run = [&](bool overlap, bool tuned) {
    const Buffer dx = upload(x);
    std::vector<Buffer> between;
    const Buffer* from = &dx;
    check_cuda(api().set_overlap(overlap ? 1 : 0));
    between.reserve(8);
    for (int i = 0; i < 8; ++i) {
      between.push_back(like({kRows, kWidth}, at::kBFloat16));
      GemmArgs args{.y = between.back().as<void>(), .x = from->as(), .m = kRows, .n = kWidth, .k = kWidth};
      (i % 2 == 0 ? first : second).put_into(args);
      args.wide = first.scratch.as();
      if (tuned) check_cuda(api().gemm_tune(handle, &args, 1, stream));  // once
      check_cuda(api().gemm(handle, &args, stream));
      plan = api().gemm_plan(handle, &args);
      from = &between.back();
    }
    check_cuda(api().set_overlap(0));
    return download(between.back(), {kRows, kWidth}, at::kBFloat16);
  };
  for (const bool tuned : {false, true}) {
    const at::Tensor expected = run(false, tuned);
    EXPECT_TRUE(expected.isfinite().all().item<bool>());
    EXPECT_TRUE(tuned || plan.starts_with("widened")) << plan;
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(run(true, tuned), expected)) << plan;
  }
}

// Every way to cut a product into tiles, at sizes that fill them and at sizes that do not. A row beyond the last stays
// as it was.
class HopperTiles : public Products {
 protected:
  struct Tile {
    int groups, tokens, split;
  };
  static std::vector<Tile> all_tiles() {
    std::vector<Tile> tiles;
    for (const int groups : {1, 2, 3}) {
      for (const int tokens : {8, 16, 32, 64, 128, 256}) {
        for (const int split : {1, 2, 4, 8}) {
          const int most = groups == 1 ? 64 : groups == 2 ? 256 : 128;
          if (tokens <= most && (split == 1 || tokens <= 128)) tiles.push_back({groups, tokens, split});
        }
      }
    }
    return tiles;
  }
  void SetUp() override {
    Products::SetUp();
    if (IsSkipped()) return;
    if (const std::string other = no_hopper(0); !other.empty()) GTEST_SKIP() << other;
  }
  // The product of this tile; with `scratch`, SwiGLU's output.
  at::Tensor product_of(const Tile& tile, const Buffer& x, const Buffer& w, const Buffer& bias, const Shape& s,
                        const Buffer& scratch = {}, const Rounded* fp8 = nullptr) {
    const int64_t width = scratch.bytes() > 0 ? s.n / 2 : s.n;
    const auto type = s.fp32_out ? at::kFloat : at::kBFloat16;
    const Buffer y = like({s.m + 1, width}, type);
    GemmArgs args{.y = y.as<void>(),
                  .x = x.as(),
                  .w = w.as(),
                  .bias = s.bias ? bias.as() : nullptr,
                  .m = s.m,
                  .n = s.n,
                  .k = s.k,
                  .fp32_out = s.fp32_out,
                  .swiglu_scratch = scratch.bytes() > 0 ? scratch.as() : nullptr};
    if (fp8 != nullptr) fp8->put_into(args);
    check_cuda(api().gemm_hopper(&args, tile.groups, tile.tokens, tile.split, stream));
    const at::Tensor whole = download(y, {s.m + 1, width}, type);
    EXPECT_TRUE(whole[s.m].isnan().all().item<bool>()) << "wrote beyond row " << s.m;
    return whole.slice(0, 0, s.m);
  }
};

TEST_F(HopperTiles, AreTheProduct) {
  for (const Shape& s : {Shape{1, 1152, 896, true},
                         {5, 896, 4864},
                         {16, 4096, 1032, true},
                         {64, 6144, 4096},
                         {100, 200, 520},
                         {257, 24576, 264},
                         {1000, 1152, 896, true},
                         {1, 1152, 896, true, true},
                         {64, 6152, 4096, false, true},
                         {100, 200, 520, true, true},
                         {300, 1152, 896, false, true}}) {
    const at::Tensor x = random_bf16({s.m, s.k}), w = random_bf16({s.n, s.k}), bias = random_bf16({s.n}, 30);
    at::Tensor expected = at::mm(x.to(at::kDouble), w.to(at::kDouble).t());
    if (s.bias) expected += bias.to(at::kDouble);
    const Buffer dx = upload(x), dw = upload(w), db = upload(bias);
    for (const Tile& tile : all_tiles()) {
      if ((s.k + 63) / 64 < tile.split) continue;
      EXPECT_LE(worst_row_error(product_of(tile, dx, dw, db, s), expected), s.fp32_out ? 2e-5 : 4e-3)
          << s.m << " x " << s.n << " x " << s.k << " in tiles of " << tile.groups * 64 << " x " << tile.tokens
          << ", k in " << tile.split;
    }
  }
}

// The sums are the same ones, so SwiGLU at once and apart give the same bits.
TEST_F(HopperTiles, SwigluAtOnceIsSwigluAfterwards) {
  for (const Shape& s : {Shape{1, 1792, 896}, {20, 9728, 896}, {64, 24576, 1024}, {130, 1776, 264}, {700, 9728, 896}}) {
    const at::Tensor x = random_bf16({s.m, s.k}), w = random_bf16({s.n, s.k}, 0.1);
    const Buffer dx = upload(x), dw = upload(w), scratch = like({s.m, s.n}, at::kBFloat16);
    for (const Tile& tile : all_tiles()) {
      if ((s.k + 63) / 64 < tile.split) continue;
      const Buffer product = upload(product_of(tile, dx, dw, {}, s).contiguous());
      const Buffer apart = like({s.m, s.n / 2}, at::kBFloat16);
      check_cuda(api().swiglu(apart.as(), product.as(), s.m, s.n / 2, stream));
      EXPECT_TRUE(at::equal(product_of(tile, dx, dw, {}, s, scratch), download(apart, {s.m, s.n / 2}, at::kBFloat16)))
          << s.m << " x " << s.n << " x " << s.k << " in tiles of " << tile.groups * 64 << " x " << tile.tokens
          << ", k in " << tile.split;
    }
  }
}

// What a product adds to y is the product that it writes elsewhere, rounded, so there is one result whoever adds.
TEST_F(HopperTiles, AddingAtOnceIsAddingAfterwards) {
  for (const Shape& s : {Shape{64, 1152, 896, true}, {100, 200, 520}, {257, 4096, 4096}, {1000, 1152, 896, true}}) {
    const at::Tensor x = random_bf16({s.m, s.k}), w = random_bf16({s.n, s.k}, 0.1), bias = random_bf16({s.n}, 30),
                     before = random_bf16({s.m, s.n}, 30);
    const Buffer dx = upload(x), dw = upload(w), db = upload(bias);
    for (const Tile& tile : all_tiles()) {
      if (tile.split > 1 || tile.tokens < 64) continue;
      const at::Tensor expected = before + product_of(tile, dx, dw, db, s);
      const Buffer y = upload(before);
      const GemmArgs args{.y = y.as<void>(),
                          .x = dx.as(),
                          .w = dw.as(),
                          .bias = s.bias ? db.as() : nullptr,
                          .m = s.m,
                          .n = s.n,
                          .k = s.k,
                          .accumulate = true};
      check_cuda(api().gemm_hopper(&args, tile.groups, tile.tokens, tile.split, stream));
      EXPECT_TRUE(at::equal(download(y, {s.m, s.n}, at::kBFloat16), expected))
          << s.m << " x " << s.n << " x " << s.k << " in tiles of " << tile.groups * 64 << " x " << tile.tokens;
    }
  }
}

// Widened in registers, W's rows multiplied by their scales at the end: a power of two changes no bit of a sum.
TEST_F(HopperTiles, OfFp8HaveTheBitsOfTheWidenedMatrix) {
  for (const Shape& s : {Shape{1, 1152, 896, true},
                         {5, 896, 4864},
                         {64, 6144, 4096},
                         {100, 1776, 512},
                         {200, 24576, 256},
                         {1000, 1152, 896, true}}) {
    const Rounded w = rounded(s.n, s.k);
    const Buffer dx = upload(random_bf16({s.m, s.k})), db = upload(random_bf16({s.n}, 30)),
                 scratch = like({s.m, s.n}, at::kBFloat16);
    for (const Tile& tile : all_tiles()) {
      if (s.k / 64 < tile.split || tile.tokens > 128) continue;
      EXPECT_TRUE(at::equal(product_of(tile, dx, {}, db, s, {}, &w), product_of(tile, dx, w.wide, db, s)))
          << s.m << " x " << s.n << " x " << s.k << " in tiles of " << tile.groups * 64 << " x " << tile.tokens
          << ", k in " << tile.split;
      if (s.bias) continue;
      EXPECT_TRUE(at::equal(product_of(tile, dx, {}, {}, s, scratch, &w), product_of(tile, dx, w.wide, {}, s, scratch)))
          << "SwiGLU of " << s.m << " x " << s.n << " x " << s.k << " in tiles of " << tile.groups * 64 << " x "
          << tile.tokens << ", k in " << tile.split;
    }
  }
}

// Whatever way was chosen: a product into the scratch and SwiGLU after it, or both at once.
TEST_F(Products, SwigluOfAPlannedProduct) {
  for (const int64_t m : {1, 8, 40, 300}) {
    const int64_t n = 9728, k = 896;
    const at::Tensor x = random_bf16({m, k}), w = random_bf16({n, k}, 0.1);
    const at::Tensor product = at::mm(x.to(at::kDouble), w.to(at::kDouble).t()), gate = product.slice(1, 0, n / 2);
    const at::Tensor expected = gate * at::sigmoid(gate) * product.slice(1, n / 2);
    const Buffer dx = upload(x), dw = upload(w);
    for (const bool tuned : {false, true}) {
      const Buffer y = like({m, n / 2}, at::kBFloat16), scratch = like({m, n}, at::kBFloat16);
      const GemmArgs args{
          .y = y.as<void>(), .x = dx.as(), .w = dw.as(), .m = m, .n = n, .k = k, .swiglu_scratch = scratch.as()};
      if (tuned) check_cuda(api().gemm_tune(handle, &args, 1, stream));
      check_cuda(api().gemm(handle, &args, stream));
      EXPECT_LE(worst_row_error(download(y, {m, n / 2}, at::kBFloat16), expected), 6e-3)
          << m << " rows, " << api().gemm_plan(handle, &args);
    }
  }
}

TEST_F(Products, TuningKeepsAPlanThatRunsInAGraph) {
  const at::Tensor x = random_bf16({4, 896}), w = random_bf16({896, 896});
  const Buffer dx = upload(x), dw = upload(w), y = like({4, 896}, at::kBFloat16);
  const GemmArgs args{.y = y.as<void>(), .x = dx.as(), .w = dw.as(), .m = 4, .n = 896, .k = 896};
  EXPECT_STREQ(api().gemm_plan(handle, &args), "not planned yet");
  check_cuda(api().gemm_tune(handle, &args, 1, stream));
  EXPECT_NE(std::string(api().gemm_plan(handle, &args)).find("tuned"), std::string::npos);
  Graph graph = nullptr;
  check_cuda(api().capture_begin(stream));
  check_cuda(api().gemm(handle, &args, stream));
  check_cuda(api().capture_end(stream, &graph, nullptr));
  check_cuda(api().fill(y.as<void>(), 0xFF, y.bytes(), stream));
  check_cuda(api().graph_launch(graph, stream));
  EXPECT_LE(worst_row_error(download(y, {4, 896}, at::kBFloat16), at::mm(x.to(at::kDouble), w.to(at::kDouble).t())),
            4e-3);
  check_cuda(api().graph_destroy(graph));
}

TEST_F(Products, RefusesWhatItCannotDo) {
  GemmArgs args{.m = 9, .n = 64, .k = 64};
  EXPECT_NE(api().gemm_skinny(&args, stream), 0);
  EXPECT_NE(std::string(api().last_error()).find("gemm_skinny"), std::string::npos);
  args = {.m = 64, .n = 63, .k = 64};
  EXPECT_NE(api().gemm(handle, &args, stream), 0);
  EXPECT_NE(std::string(api().last_error()).find("multiples of 8"), std::string::npos);
}

}  // namespace
}  // namespace tritonforge::gpu
