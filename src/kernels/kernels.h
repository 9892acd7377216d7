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
// of ranks on GPUs:     engine/rank_team.h
//   residual + RMSNorm                       rows.cu               x + the ranks' fp32 sum exactly; then as RMSNorm
//   embedding, logits                        ranks.cu              worked example; exact
// next step's inputs   engine/batch.h       rows.cu               worked example; exact
// ids not read yet     -                    rows.cu               worked example; exact
// RoPE                 fused_ops.h          rope_cache.cu         rope_reference; 2e-3 of a head's row
// qk-norm, KV write    fused_ops.h,         rope_cache.cu         rms_norm_reference, then as RoPE; values exact
//                      paged_attention.h          in FP8 (fp8.h): the CPU's bytes
// decode attention     paged_attention.h    decode_attention.cu   float64 softmax; 6e-3 of a head's row
//                                           decode_attention_cluster.cu: few sequences on Hopper
// shared prefix        -                    prefix_attention.cu   as decode attention; read by many or alone: same bits
//   of an FP8 cache    paged_attention.h    the same files        float64 of what the bytes stand for; CPU: the bits of
//                                                                 attention over the same numbers in the tokens' dtype
// FP8 pages to bf16    -                    widen_cache.cu        fp8.h; exact
// blocks to the host   engine/              move_blocks.cu        the bytes; exact
//   and back              attention_paged.h
// prefill attention    paged_attention.h    prefill_attention.cu  float64 softmax; 6e-3 of the row
//                                           prefill_attention_hopper.cu: on Hopper
// matrix product       linear.h             gemm.cpp (cuBLASLt),  float64 product; 4e-3 of a row, 2e-5 with fp32 output
//                                           skinny_gemm.cu: m <= 8
//                                           gemm_hopper.cu: on Hopper, bf16 output
//   of an FP8 matrix   fp8_matrix.h:        skinny_gemm.cu,       float64 product of what the bytes stand for; 4e-3 of
//                          widened, then    gemm_hopper.cu, or    a row; in tiles the bits of the widened matrix's
//                                           widened, then
// FP8 matrix to bf16   fp8_matrix.h         widen_matrix.cu       fp8_matrix.h; exact
// product + SwiGLU     -                    gemm_hopper.cu        the two apart: same bits; float64, 6e-3 of a row
// product + residual   -                    gemm_hopper.cu,       the two apart: same bits; gemm.cpp: as the product
//                                           gemm.cpp
// product with blocks  block_product.h      -                     CPU: widened float64 product; half a step of the
// of a GGUF file                                                  quantised activations (block_dot.h)
// RMSNorm's gradient   fused_rows.h         train_rows.cu         autograd in float64; 4e-3 of a row, sums 1e-5
// SwiGLU's gradient    fused_rows.h         train_rows.cu         autograd in float64; 4e-3 of a row
// RoPE's, qk-norm's    fused_rows.h         rope_cache.cu         autograd in float64; 4e-3 of a row, sums 1e-5
// embedding's, bias's  ATen                 train_rows.cu         float64; 4e-3 of a row in bf16, 1e-6 and 1e-5 in fp32
// attention's          packed_attention.h   attention_backward.cu autograd in float64; 8e-3 of a matrix
//                                           on Hopper; keys and values in pages
// log-prob, entropy    train/cpu/head.h     head_loss.cu          float64; 2e-5
//   and their gradient                                            4e-3 of a row
// AdamW                adamw.h              adamw.cu              AdamW of train/optimizer.h in fp32 over 6 steps; 2e-5;
//                                                                 CPU and GPU with fp32 states: same bits
// sampling             sample.h             sample.cu             sample_row_reference; same token unless two scores
//                                                                 are within 1e-5, log-prob 5e-6
// checksum             checksum.h           checksum.cu           checksum_bytes; exact
//
// FP8 (an engine's kv_cache_dtype fp8_e4m3): e4m3 with a power of two for each head's row of each token, since then what
// a token becomes does not depend on the batch, on other tokens or on which weights made them, and both are exact in
// bf16. Decodes read it as it is; prompts read pages that are widened to bf16 before, since there a key is read many
// times and the tensor cores' products stay those of bf16.
//
// Of weights (weight_dtype fp8_e4m3) a matrix's rows are such rows, rounded by ATen's operations when weights come; own
// kernels read the bytes up to a hundred rows of x or so, and beyond them where that was measured to be faster than
// widening the matrix first.
//
// The CPU's operations are compared with their twins in tests/unit/kernels: the functions of the same name with
// _reference. The CPU's vector code lies in cpu_kernels.h (attention, sampling), fused_rows.h (rows) and block_dot.h
// (products with blocks).
//
// Measured on one H200 at Qwen3-8B shapes by bench/kernels.cpp: medians of 9 graph replays over inputs larger than the
// L2 cache, overlapping launches, spread mostly below 1 %. In the same run the card copied 4.21 TB/s (read + written)
// and an 8192^3 bf16 product ran at 704 TFLOP/s: "share" is of these. Bytes: each input and output once. Rows with a *
// are of later machines, 4.19 to 4.24 TB/s and 683 to 691 TFLOP/s, and of launches that ask for all shared memory: with
// them the skinny kernel takes 19.6 / 13.9 us for qkv / o.
//
// what                                     time us        TB/s (TF: TFLOP/s)  share %    beside it
// ---------------------------------------  -------------  ------------------  ---------  ------------------------------
// decode attention, 1 x 1152               11.9           0.40                9          8.9 with all of an SM's memory
//                   1 x 8192 / 8 x 1280    22.8 / 21.0    1.47 / 2.00         35 / 48
//                   64 x 1280              88.6           3.79                90
//                   64 of 64 to 2495       84.4           3.79                90
//                   256 x 1536             375            4.29                102        libtorch's FlashAttention, not
//                                                                                         paged: in the bench, not measured
// shared prefix + decode: 8 samples each, 2032 tokens together and 1000 alone; unique pages counted
//                   32 groups              416            3.16                75         each for itself 705
//                   4 / 1 groups           72.9 / 40.0    2.26 / 1.03         54 / 24    75.6 / 25.5
//                   prefix alone, 32       92.0           2.90                69
// skinny product, m 1, qkv / o             15.1 / 11.7    3.34 / 2.86         80 / 68    cuBLASLt's first 16.1 / 13.0
//                      gate_up / down      48.7 / 27.6    4.14 / 3.64         98 / 87    48.1 / 29.3
//                      lm_head             283            4.40                104        285
// * own product, m 1, qkv / o              15.2 / 11.6    3.31 / 2.91         78 / 69    cuBLASLt's first 16.4 / 12.9
//       gate_up + SwiGLU / down            48.5 / 27.1    4.15 / 3.72         98 / 88    51.4 / 29.4
//     m 64, gate_up + SwiGLU / down        51.4 / 30.4    3.99 / 3.38         94 / 80    54.4 / 31.6
//     m 1024, qkv / o                      72.5 / 49.3    711 / 697 TF        103 / 102  71.0 / 47.5
//       gate_up + SwiGLU / down            324 / 150      637 / 685 TF        93 / 100   329 / 145
//     m 8192, qkv / o                      635 / 423      649 / 650 TF        95 / 94    618 / 414
//       gate_up + SwiGLU / down            2497 / 1221    661 / 675 TF        97 / 99    2602 / 1198
// * tuned product, m 8192, o / down        419 / 1261     656 / 654 TF        94 / 94    the same run:
//     added to the residual stream         410 / 1240     670 / 665 TF        96 / 96    add_rms_norm - rms_norm: 27
//                m 1024, o                 45.1           762 TF              109
//     added to the residual stream         54.2           634 TF              91
// own product, tuned, one H100 of 3.00 TB/s (8192^3 at 713 TFLOP/s):
//   m 1, qkv / o                           18.0 / 14.1    2.80 / 2.38         93 / 79    cuBLASLt's first 20.5 / 15.9
//     gate_up + SwiGLU / down              67.0 / 35.3    3.01 / 2.86         100 / 95   73.7 / 38.3
//     lm_head, fp32 out                    400            3.11                104        438; the skinny kernel 480
//   m 64, qkv / o                          20.8 / 15.7    2.49 / 2.20         83 / 74    20.5 / 15.1
//     gate_up + SwiGLU / down              70.4 / 38.1    2.91 / 2.69         97 / 90    77.8 / 41.3
//     lm_head, fp32 out                    430            2.99                100        462
// FP8 matrix, m 1, gate_up + SwiGLU / down, one H100 of 3.00 TB/s:
//                                          36.1 / 22.4    2.79 / 2.25         93 / 75    bf16 there 66.9 / 38.4
//     m 64                                 39.9 / 27.4    2.57 / 1.91         86 / 64    69.8 / 38.7
//     widened alone, gate_up / down        128 / 67.7     2.36 / 2.23         79 / 74
// tuned product, m 64, gate_up / down      49.7 / 30.3    4.13 / 3.41         98 / 81    50.2 / 31.2
//                m 256, gate_up / down     72.4 / 45.7    712 / 564 TF        101 / 80   72.4 / 44.5
//                m 8192, qkv / o           577 / 354      715 / 776 TF        102 / 110  615 / 419
// rms_norm / add_rms_norm, 8192 rows       44.2 / 71.2    3.03 / 3.77         72 / 90
// swiglu / rope_cache, 8192 rows           158 / 63.6     3.82 / 3.16         91 / 75
// these four, 1 row                        1.7 to 2.0
// In a training step of 8192 tokens (bench/train_gpu.cpp under bench/trace, another H200):
//   attention's gradient, 1 x 8192         3750           366 TF              52         cuDNN not measured alone
//   rms_norm's gradient / swiglu's         104 / 312      3.2 / 3.9           77 / 92
//   rope's                                 137            2.2                 52
//   head's scores / gradient, 4096 rows    570 / 907      4.4 / 4.1           104 / 98
//   adamw, 2.79 G weights of bf16_sr       10500          3.7                 89         its norm 1490, 3.7 TB/s
// sample, 1 / 64 / 256 rows                11 / 42 / 109  0.06 / 0.92 / 1.43  1/22/34
//   with top_p 0.95 / top_k 50, 64 rows    273 / 157
// * prefill attention, 8 x 1024            167 to 174     396 to 413 TF       57 to 59   cuDNN 158 to 165 (not paged);
//                                                                                        200 to 202 before; torch 312
//                      1 x 8192            841 to 935     588 to 654 TF       84 to 94   cuDNN 896 to 919; 950 to 1041
//                                                                                        before; torch 1942
// checksum of 1 GiB                        250            4.30                102
// * decode step less the scheduler: 1 x 1152   4605       3.32                79         overlap off: 4591
//                                   8 x 1152   5264       3.13                75         5089
//                                   64 x 1280  7644       3.56                85         7811
//                                   256 x 1280 18108      3.50                83         18101
// clang-format on
#include "kernels/adamw.h"
#include "kernels/block_product.h"
#include "kernels/checksum.h"
#include "kernels/fp8.h"
#include "kernels/fp8_matrix.h"
#include "kernels/fused_ops.h"
#include "kernels/gpu/cuda_api.h"
#include "kernels/linear.h"
#include "kernels/paged_attention.h"
#include "kernels/sample.h"
