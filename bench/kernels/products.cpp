#include <array>

#include "kernels/card.h"

namespace tritonforge::bench {
namespace {

// `swiglu`: of the product's two halves.
void product(const char* name, int64_t m, int64_t n, int64_t k, bool fp32_out, bool accumulate, bool swiglu = false) {
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
  check_cuda(api->gemm_tune(gemm, tuning.data(), 4, stream));
  line(fmt::format("gemm {:11} {:5} x {:6} x {:5}", name, m, n, k),
       timed(launches,
             [&](int) {
               const GemmArgs a = args();
               check_cuda(api->gemm(gemm, &a, stream));
             }),
       bytes, flops, api->gemm_plan(gemm, tuning.data()));
  line("  cuBLASLt's first proposal",
       timed(launches,
             [&](int) {
               const GemmArgs a = args();
               check_cuda(api->gemm_library(gemm, &a, stream));
             }),
       bytes, flops);
  for (const int groups : {1, 2, 3}) {
    for (const int tokens : {8, 16, 32, 64, 128, 256}) {
      if (groups == 1 && tokens > 64) continue;
      const bool fits = tokens >= m ? tokens == 8 || tokens / 2 < m : tokens >= 128;
      if ((accumulate && (fp32_out || tokens < 64)) || !fits || (groups == 3 && tokens == 256)) continue;
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
void fp8_product(const char* name, int64_t m, int64_t n, int64_t k, bool swiglu = false) {
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
    check_cuda(api->gemm_tune(gemm, tuning.data(), 4, stream));
    const double bytes = others + static_cast<double>(n * k) * (fp8 ? 1 : 2);
    line(fmt::format("{} {:16} {:5} x {:6} x {:5}", fp8 ? "fp8 " : "bf16", name, m, n, k),
         timed(launches_for(static_cast<int64_t>(bytes)),
               [&](int) {
                 const GemmArgs a = args(fp8);
                 check_cuda(api->gemm(gemm, &a, stream));
               }),
         bytes, flops, api->gemm_plan(gemm, tuning.data()));
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

}  // namespace

void measure_gemm() {
  for (const int64_t m : {1, 64, 256, 1024, 8192}) {
    product("qkv", m, kQkv, kHidden, false, false);
    product("o", m, kHidden, kHeads * kDim, false, false);
    product("gate_up + SwiGLU", m, 2 * kInter, kHidden, false, false, true);
    product("gate_up", m, 2 * kInter, kHidden, false, false);
    product("down", m, kHidden, kInter, false, false);
    if (m >= 1024) {  // prompts
      product("o, added", m, kHidden, kHeads * kDim, false, true);
      product("down, added", m, kHidden, kInter, false, true);
    } else {
      product("lm_head", m, kVocab, kHidden, true, false);
    }
  }
}

void measure_fp8_products() {
  for (const int64_t m : {1, 8, 64, 128, 256, 1024, 8192}) {
    fp8_product("qkv", m, kQkv, kHidden);
    fp8_product("o", m, kHidden, kHeads * kDim);
    fp8_product("gate_up + SwiGLU", m, 2 * kInter, kHidden, true);
    fp8_product("down", m, kHidden, kInter);
  }
}

}  // namespace tritonforge::bench
