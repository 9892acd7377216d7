#pragma once
// What the trainer's kernels are told: part of the table of cuda_api.h, whose conventions hold. T is the number of
// tokens of a micro-batch, padded: padded rows have gradients of zero.
#include <cstdint>

namespace tritonforge::gpu {

using Bf16 = uint16_t;

// Where a gradient of a weight goes: bf16 or fp32, over what is there or added to it. Sums are fp32, rounded once.
struct GradientOut {
  void* to;
  bool fp32, accumulate;
};

// Gradient of rms_norm(): with s = 1 / sqrt(mean(x^2) + eps),
//   dx = s w dy - x s^3 mean(w dy x) + residual;   dw = sum over rows of dy x s.
// dx may be `residual`, normed may be dy: rows are read before they are written.
struct RmsNormBackwardArgs {
  Bf16* dx;                // out [rows, d]
  Bf16* normed;            // out [rows, d]: what rms_norm() gave, for the next product; null: not wanted
  const Bf16 *x, *w, *dy;  // [rows, d], [d], [rows, d]
  const Bf16* residual;    // [rows, d] or null
  float* partials;         // scratch: row_sums_bytes()
  GradientOut dw;          // [d]
  int64_t rows, d;         // d up to 16384
  float eps;
};

// Gradient of swiglu(), in place: gate_up [rows, 2 * intermediate] becomes its own gradient, d_act [rows, intermediate]
// becomes what swiglu() gave.
struct SwigluBackwardArgs {
  Bf16 *gate_up, *d_act;
  int64_t rows, intermediate;
};

// Gradient of qk-norm and RoPE (RopeCacheArgs with rows), and the joined gradient of the projection.
struct RopeBackwardArgs {
  Bf16* dqkv;                    // out [tokens, (heads + 2 kv_heads) * head_dim]; zeros from row `used` on
  const Bf16 *dq, *dk, *dv;      // [used, heads or kv_heads, head_dim]
  const Bf16* qkv;               // [tokens, ...]: the forward pass's
  const Bf16 *q_norm, *k_norm;   // [head_dim], or null for both
  const float* rope;             // rope_table()
  const int32_t* positions;      // [tokens]
  float* partials;               // scratch: row_sums_bytes()
  GradientOut dq_norm, dk_norm;  // [head_dim]
  int64_t tokens, used, heads, kv_heads, head_dim;
  float eps;
};

// d_table[ids[i]] += rows[order[i]] for each i, those of one id in the order of i: ids sorted, [count].
struct EmbedBackwardArgs {
  void* d_table;  // [vocab, hidden]
  bool fp32;
  const Bf16* rows;            // [*, hidden]
  const int64_t *ids, *order;  // [count]
  int64_t count, hidden;
};

// What a row of logits says of one token, with z = logits * inverse_temperature (null: 1):
//   log_prob = z_target - max z - log sum exp(z - max z), NaN where target < 0;   entropy of softmax(z).
struct HeadScoresArgs {
  const float* logits;  // [rows, vocab]
  const int32_t* targets;
  const float* inverse_temperature;                      // [rows] or null
  float *log_probs, *entropy, *maximum, *inverse_total;  // out [rows]: of the logits; 1 / sum exp(z - max z)
  int64_t rows, vocab;                                   // vocab a multiple of 4
};
// The gradient of logits from those of log_prob and entropy (d log p_t / d z_j = [j = t] - p_j,
// d H / d z_j = -p_j (log p_j + H)), in place: row r begins at bf16 element 2 * vocab * r.
struct HeadGradientArgs {
  float* logits;
  const int32_t* targets;
  const float *inverse_temperature, *entropy, *maximum, *inverse_total;
  const float *grad_log_probs, *grad_entropy;  // [rows]; grad_entropy may be null
  int64_t rows, vocab;
};

// Gradient of attention over keys and values in pages (KvLayer of cuda_api.h), each segment's pages one behind another:
// causal over a segment, which is a sequence or a part of one, or, `full`, the part that keys have which each query
// sees, where out and statistics are over others, too. Behind a segment lie, with their tiles, all segments that go on
// from it: their queries see all of its keys. Hopper; head_dim 64 or 128; heads / kv_heads up to 16.
struct AttentionBackwardItem {  // a block of kAttentionKeys keys of a segment
  int32_t row, tokens;          // of q: the segment's first token; its tokens
  int32_t key_row, keys;        // of dk and dv: its first key; keys. Not full: as row and tokens
  int32_t page, block;          // the segment's first page; which block of it
  int32_t tile, tiles;  // the segment's first tile of queries, of all; how many it and what goes on from it have
  int32_t order;        // blocks of keys that a query which sees this one sees before it
  int32_t full;         // or 0
};
struct AttentionBackwardTile {  // of queries: 64 / (heads / kv_heads) tokens, rounded down
  int32_t row, tokens;          // first token; how many of the segment
};
constexpr int kAttentionKeys = 128;
struct AttentionBackwardArgs {
  const Bf16 *q, *out, *d_out;         // [tokens, heads, head_dim]
  const Bf16 *keys, *values;           // [pages, kv_heads, 16, head_dim]; finite everywhere
  const float* statistics;             // [tokens, heads]: prefill_attention()'s
  Bf16 *dq, *dk, *dv;                  // out [tokens, heads or kv_heads, head_dim]
  const AttentionBackwardItem* items;  // the blocks that a query sees in order, those seen by most first
  const AttentionBackwardTile* tiles;
  int64_t item_count, tile_count;
  int64_t tokens, pages, heads, kv_heads, head_dim;
  float scale;
  void* workspace;  // attention_backward_workspace() bytes; need not be kept
};

// Attention over keys that came in parts: `sum` and `statistics`, over the keys so far, become those with the keys of
// `part`, whose statistics are minus infinity where a row has none of them, whatever part has there. `out`, or null:
// the same, rounded. head_dim 64 or 128.
struct AttentionMergeArgs {
  float* sum;         // [rows, heads, head_dim]
  float* statistics;  // [rows, heads]: prefill_attention()'s
  const Bf16* part;
  const float* part_statistics;
  Bf16* out;
  int64_t rows, heads, head_dim;
};

// AdamW (Loshchilov & Hutter 2019) over parts of flat arenas, of `count` elements each, a multiple of 8. A step is the
// squares of each part's gradients, their total, the decision, and the update of each part. Nothing need come back to
// the host: what clips, skips and corrects the bias stays in `state`.
struct AdamwState {                // on the device, all zeros before the first step
  float squares;                   // of all gradients: adamw_total()
  float norm, skipped;             // of the last gradients; 1 where it was not finite and nothing was changed
  float steps;                     // that were taken
  float scale;                     // of gradients, from the clip
  float correction1, correction2;  // 1 - beta^steps
};
struct AdamwArgs {
  AdamwState* state;
  const void* gradients;  // of the part, as what follows; bf16 or fp32 (states likewise)
  Bf16* weights;
  float* master;  // fp32 states only: the weights before their rounding
  void *first, *second;
  bool fp32;             // else bf16, gradients too; weights and moments are rounded at random (`seed`)
  int64_t place, count;  // of the part in the arena: a multiple of 8 each
  // Tensors of the arena in order: begin of each, [tensors]; the weight decay of each. What lies between them is of no
  // meaning.
  const int64_t* begins;
  const float* decays;
  int64_t tensors;
  uint64_t seed;  // what is drawn follows from it, the step and the place in the arena
  float clip, learning_rate, beta1, beta2, eps;
};
constexpr int kAdamwPartials = 1024;  // that adamw_squares() writes at most

}  // namespace tritonforge::gpu
