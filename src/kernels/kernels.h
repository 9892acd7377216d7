#pragma once
// Every operation of this folder: what computes it on the CPU and on the GPU, what it is compared with, and how fast it
// is. CPU operations take at::Tensor and float32 or bfloat16; GPU operations take raw pointers and bfloat16 and are
// reached through the table of kernels/gpu/cuda_api.h, which states shapes, dtypes and errors.
//
// clang-format off
// operation            CPU                  GPU (kernels/gpu)     reference and tolerance of the GPU's test (tests/gpu)
// -------------------  -------------------  --------------------  -----------------------------------------------------
// RMSNorm              fused_ops.h          rows.cu               rms_norm_reference; 2 bf16 steps, 99.5 % bit-equal
// residual + RMSNorm   -                    rows.cu               x + delta exactly; then as RMSNorm
// SwiGLU               fused_ops.h          rows.cu               swiglu_reference; 2 bf16 steps, 99.5 % bit-equal
// embedding, gather    ATen                 rows.cu               index_select; exact
// next step's inputs   engine/batch.h       rows.cu               worked example; exact
// ids not read yet     -                    rows.cu               worked example; exact
// RoPE                 fused_ops.h          rope_cache.cu         rope_reference; 2e-3 of a head's row
// qk-norm, KV write    fused_ops.h,         rope_cache.cu         rms_norm_reference, then as RoPE; values exact
//                      paged_attention.h
// decode attention     paged_attention.h    decode_attention.cu   float64 softmax; 6e-3 of a head's row
// prefill attention    paged_attention.h    prefill_attention.cu  float64 softmax; 6e-3 of the row
// matrix product       ATen                 gemm.cpp (cuBLASLt),  float64 product; 4e-3 of a row, 2e-5 with fp32 output
//                                           skinny_gemm.cu: m <= 8
// sampling             sample.h             sample.cu             sample_row_reference; same token unless two scores
//                                                                 are within 1e-5, log-prob 5e-6
// checksum             checksum.h           checksum.cu           checksum_bytes; exact
//
// The CPU's operations are compared with their twins in tests/unit/kernels: the functions of the same name with
// _reference. The CPU's vector code lies in cpu_kernels.h (attention, sampling) and fused_rows.h (rows).
//
// Measured on one H100 80GB HBM3 at Qwen3-8B shapes by bench/kernels.cpp: medians of 9 graph replays over inputs larger
// than the L2 cache, overlapping launches, spread mostly below 1 %. In the same run the card copied 3.01 TB/s (read +
// written) and an 8192^3 bf16 product ran at 677 TFLOP/s: "share" is of these. Bytes: each input and output once.
//
// what                                     time us        TB/s (TF: TFLOP/s)  share %    beside it
// ---------------------------------------  -------------  ------------------  ---------  ------------------------------
// decode attention, 1 x 1152               9.3            0.51                17         latency: its bytes take 1.6 us
//                   1 x 8192 / 8 x 1280    21.7 / 24.3    1.55 / 1.73         51 / 58
//                   64 x 1280              124.0          2.71                90
//                   64 of 64 to 2495       119.3          2.68                89
//                   256 x 1536             549.6          2.93                97
// skinny product, m 1, qkv / o             19.5 / 14.5    2.58 / 2.31         86 / 77    cuBLASLt's first 20.8 / 16.2
//                      gate_up / down      69.7 / 38.7    2.89 / 2.60         96 / 86    72.2 / 39.0
//                      lm_head             407.9          3.05                101        435.8
// tuned product, m 64, gate_up / down      72.4 / 38.2    2.83 / 2.70         94 / 90    75.1 / 41.4
//                m 8192, qkv / o           578 / 369      714 / 746 TF        105 / 110  626 / 411
// rms_norm / add_rms_norm, 8192 rows       50.3 / 93.5    2.67 / 2.87         89 / 95
// swiglu / rope_cache, 8192 rows           222 / 79.8     2.72 / 2.52         90 / 84
// these four, 1 row                        1.8 to 2.1
// sample, 1 / 64 / 256 rows                11 / 42 / 108  0.06 / 0.92 / 1.45  2/31/48
//   with top_p 0.95 / top_k 50, 64 rows    286 / 170
// prefill attention, 8 x 1024 / 1 x 8192   324 / 1965     212 / 280 TF        31 / 41    torch 292 / 1706, cuDNN
//                                                                                        162 / 919 (not paged)
// checksum of 1 GiB                        350            3.06                102
// decode step less the scheduler: 1 x 1152   6270         2.44                81         overlap on: 6950
//                                 8 x 1152   6790         2.43                81         7870
//                                 64 x 1280  10850        2.51                83         10660
// clang-format on
#include "kernels/checksum.h"
#include "kernels/fused_ops.h"
#include "kernels/gpu/cuda_api.h"
#include "kernels/paged_attention.h"
#include "kernels/sample.h"
