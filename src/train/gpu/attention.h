#pragma once
// Causal attention of packed sequences and its gradient, each sequence for itself.
#include <ATen/ATen.h>

#include "model/config.h"
#include "train/packing.h"

namespace tritonforge::train::gpu {

// Where the sequences of a micro-batch lie.
struct Sequences {
  at::Tensor starts;  // [sequences + 1] int32, cumulative
  int64_t tokens, longest;
};
Sequences sequences_of(const MicroBatch& batch, at::Device device);

// Rows of tokens, more than the sequences have or as many: q [t, heads, head_dim], k and v [t, kv_heads, head_dim].
// Rows may lie apart.
struct AttentionInputs {
  at::Tensor q, k, v;
};
struct AttentionGradients {
  at::Tensor q, k, v;  // of the sequences' tokens, without gaps
};

// Attention's output and what its gradient needs besides the inputs.
struct Attended {
  at::Tensor out;                 // [tokens, heads, head_dim]
  at::Tensor statistics, random;  // of the softmax; of no account
};

Attended attend(const Sequences& sequences, const AttentionInputs& inputs);
// grad: of the output, rows of tokens as the inputs.
AttentionGradients attend_backward(const Sequences& sequences, const AttentionInputs& inputs, const Attended& attended,
                                   const at::Tensor& grad);

}  // namespace tritonforge::train::gpu
