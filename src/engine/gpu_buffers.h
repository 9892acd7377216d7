#pragma once
// The buffers of a GpuRunner beside weights and cache: where each lies in one allocation, whose size is so known before
// it is taken.
#include <cstdint>

#include "engine/options.h"
#include "engine/sizing.h"
#include "model/config.h"

namespace tritonforge::engine {

constexpr int64_t kGemmWorkspace = int64_t{32} << 20;  // what cuBLASLt asks for on Hopper

// Places in bytes from the begin of the allocation, each a multiple of 256.
struct GpuBuffers {
  // Activations of the largest step, bf16: [tokens, width].
  int64_t x, normed, delta, qkv, q, attended, gate_up, activated;
  int64_t activations_end;
  int64_t drawn_hidden, logits;  // of the rows that draw: [rows, hidden] bf16, [rows, vocab] fp32
  int64_t inputs;                // the step's numbers (gpu_batch.h)
  int64_t rope;                  // [max_context, head_dim / 2, 2] fp32
  // From here to zeros_end all is zero at first. Draws: tokens [rows] int32, log-probs [rows] fp32; what the kernels
  // keep for themselves (kernels/gpu/cuda_api.h).
  int64_t results, decode_attention, sampling, prefill, zeros_end;
  int64_t prefix_pieces, gemm;
  int64_t bytes;
};

// Needs the CUDA library: its kernels tell what they take.
GpuBuffers place_gpu_buffers(const EngineOptions& options, const Sizes& sizes, const model::ModelConfig& config);

}  // namespace tritonforge::engine
