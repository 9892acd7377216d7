#pragma once
// Log-probabilities of targets without ever holding the full logits: rows of the LM head are computed a chunk at a
// time, and computed again in the backward pass (Liger / Megatron's "fused linear cross entropy").
#include <ATen/ATen.h>

#include <functional>

namespace tritonforge::train {

struct TargetScores {
  at::Tensor log_probs;  // [n] fp32: of the target under softmax(logits / temperature)
  at::Tensor entropy;    // [n] fp32: of that distribution, in nats
};

// Of a loss, by the scores. Undefined: 0.
struct ScoreGradients {
  at::Tensor log_probs, entropy;  // [n] fp32
};
// Some of a micro-batch's targets: [begin, begin + count) of them or, where they do not lie side by side, of `places`.
struct TargetSlice {
  int64_t begin = 0, count = 0;
  at::Tensor places = {};                        // int64, on the targets' device
  at::Tensor of(const at::Tensor& each) const {  // of a tensor of all targets; undefined stays so
    if (!each.defined()) return each;
    return places.defined() ? each.index_select(0, places.narrow(0, begin, count)) : each.narrow(0, begin, count);
  }
};
// The gradients of the `scores` of these targets, where they depend on these scores and on nothing else that the pass
// makes.
using KnownGradients = std::function<ScoreGradients(const TargetSlice& targets, const TargetScores& scores)>;

// hidden [n, hidden] and weight [vocab, hidden] of one dtype; targets [n] int64; inverse_temperature [n] fp32 or
// undefined (all 1). Logits are the model's own (Model::logits: fp32), the softmax and all sums are fp32.
// Differentiable in hidden and weight through log_probs and, where entropy_gradient, through entropy. At most
// chunk * vocab logits exist at any time. Gradients have the inputs' dtype; the weight's is summed over chunks in fp32.
TargetScores lm_head_scores(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                            const at::Tensor& inverse_temperature, int64_t chunk, bool entropy_gradient = false);

}  // namespace tritonforge::train
