// Tolerance: sums over k in fp32 in another order than the reference's float64: 2e-5 of a row's size with fp32 output;
// bfloat16 output adds its rounding, 2^-9 at most and 1.7e-3 on average: 4e-3 of a row.
#include "gpu/fixture.h"

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
        check_cuda(api().gemm_tune(handle, &tuning, stream));
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

TEST_F(Products, TuningKeepsAPlanThatRunsInAGraph) {
  const at::Tensor x = random_bf16({4, 896}), w = random_bf16({896, 896});
  const Buffer dx = upload(x), dw = upload(w), y = like({4, 896}, at::kBFloat16);
  const GemmArgs args{.y = y.as<void>(), .x = dx.as(), .w = dw.as(), .m = 4, .n = 896, .k = 896};
  EXPECT_STREQ(api().gemm_plan(handle, &args), "not planned yet");
  check_cuda(api().gemm_tune(handle, &args, stream));
  EXPECT_NE(std::string(api().gemm_plan(handle, &args)).find("tuned"), std::string::npos);
  Graph graph = nullptr;
  check_cuda(api().capture_begin(stream));
  check_cuda(api().gemm(handle, &args, stream));
  check_cuda(api().capture_end(stream, &graph));
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
