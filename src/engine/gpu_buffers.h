#pragma once
// The buffers of a GpuRunner beside weights and cache: where each lies in one allocation, whose size is so known before
// it is taken.
#include <cstdint>

#include "engine/options.h"
#include "engine/sizing.h"
#include "model/config.h"

namespace tritonforge::engine {

// Pages of bf16 into which those of an FP8 cache are widened for prompts: the longest sequence's at least, and a
// step's. 0 where the cache is not FP8.
int64_t widened_pages(const EngineOptions& options, const Sizes& sizes);

constexpr int64_t kGemmWorkspace = int64_t{32} << 20;  // what cuBLASLt asks for on Hopper

// Places in bytes from the begin of the allocation, each a multiple of 256.
struct GpuBuffers {
  // Activations of the largest step, bf16: [tokens, width]. `deltas`: what attention and what the MLP add to x; one
  // place for both, unless other ranks read them, the one while the other is written.
  int64_t x, normed, deltas[2], qkv, q, attended, gate_up, activated;
  int64_t activations_end;
  // Of the rows that draw: [rows, hidden] bf16, [rows, vocab] fp32, and what of it this rank computes; the same place
  // where that is all.
  int64_t drawn_hidden, logits, logits_here;
  int64_t inputs;  // the step's number (kNumberBytes), then its GpuBatch
  int64_t rope;    // [max_context, head_dim / 2, 2] fp32
  // From here to zeros_end all is zero at first. Draws: tokens [rows] int32, log-probs [rows] fp32; what the kernels
  // keep for themselves (kernels/gpu/cuda_api.h).
  // Meetings of ranks: each rank's number, [2 * layers + 1, ranks] uint32.
  int64_t results, decode_attention, sampling, prefill, meetings, zeros_end;
  // Where batches change no bits: 0, 1, 2 ... [rows + 1] int32, the queries of decodes; what head_scores() tells of
  // each draw beside its log-prob, [3, rows] fp32.
  int64_t each_row, scores;
  int64_t prefix_pieces, gemm;
  int64_t wide_matrix;  // the largest one of a layer in bf16, where the matrices are FP8: for products of many rows
  int64_t widened;      // keys, then values [widened_pages, kv_heads, kPage, head_dim] bf16, where the cache is FP8
  int64_t bytes;
};

constexpr int64_t kNumberBytes = 64;

// config: of a rank's part. Needs the CUDA library: its kernels tell what they take.
GpuBuffers place_gpu_buffers(const EngineOptions& options, const Sizes& sizes, const model::ModelConfig& config);

}  // namespace tritonforge::engine
