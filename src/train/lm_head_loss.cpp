#include "train/lm_head_loss.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/error.h"
#include "model/model.h"

namespace tritonforge::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Log-probabilities of every token of the vocabulary, [rows, vocab] fp32, from the rows [begin, end).
at::Tensor chunk_log_softmax(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& inverse_temperature,
                             int64_t begin, int64_t end) {
  at::Tensor scores = model::head_logits(hidden.slice(0, begin, end), weight);
  if (inverse_temperature.defined()) scores.mul_(inverse_temperature.slice(0, begin, end).unsqueeze(1));
  return at::log_softmax(scores, 1);
}

class LmHeadScores : public torch::autograd::Function<LmHeadScores> {
 public:
  // An undefined tensor is no argument of an autograd function; an empty optional is.
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& weight,
                               const at::Tensor& targets, const std::optional<at::Tensor>& temperature, int64_t chunk,
                               bool entropy_gradient) {
    const at::Tensor inverse_temperature = temperature.value_or(at::Tensor());
    const int64_t n = hidden.size(0);
    const auto fp32 = hidden.options().dtype(at::kFloat);
    at::Tensor log_probs = at::empty({n}, fp32), entropy = at::empty({n}, fp32), kept;
    for (int64_t begin = 0; begin < n; begin += chunk) {
      const int64_t end = std::min(n, begin + chunk);
      const at::Tensor scores = chunk_log_softmax(hidden, weight, inverse_temperature, begin, end);
      log_probs.slice(0, begin, end).copy_(scores.gather(1, targets.slice(0, begin, end).unsqueeze(1)).squeeze(1));
      entropy.slice(0, begin, end).copy_(scores.exp().mul_(scores).sum(1).neg_());
      // The backward pass begins with the last chunk, so keeping it costs no memory above one chunk.
      if (end == n) kept = scores;
    }
    const bool differentiable = hidden.requires_grad() || weight.requires_grad();
    context->save_for_backward(
        {hidden, weight, targets, inverse_temperature, entropy, differentiable ? kept : at::Tensor()});
    context->saved_data["chunk"] = chunk;
    context->saved_data["entropy_gradient"] = entropy_gradient;
    if (!entropy_gradient) context->mark_non_differentiable({entropy});
    return {log_probs, entropy};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &weight = saved[1], &targets = saved[2], &inverse_temperature = saved[3],
                     &entropy = saved[4];
    at::Tensor kept = saved[5];
    const int64_t chunk = context->saved_data["chunk"].toInt(), n = hidden.size(0);
    const bool entropy_gradient = context->saved_data["entropy_gradient"].toBool() && gradients[1].defined();
    const at::Tensor grad_log_probs = gradients[0].defined() ? gradients[0] : at::zeros_like(entropy);
    at::Tensor grad_hidden = at::empty_like(hidden);
    at::Tensor grad_weight = context->needs_input_grad(1)
                                 ? at::zeros(weight.sizes(), weight.options().dtype(at::kFloat))
                                 : at::Tensor();
    const int64_t chunks = (n + chunk - 1) / chunk;
    for (int64_t index = chunks - 1; index >= 0; --index) {
      const int64_t begin = index * chunk, end = std::min(n, begin + chunk);
      at::Tensor scores = kept.defined() ? kept : chunk_log_softmax(hidden, weight, inverse_temperature, begin, end);
      kept.reset();
      const at::Tensor grad = grad_log_probs.slice(0, begin, end).unsqueeze(1);
      // d log p_t / d z_j = [j = t] - p_j;  d H / d z_j = -p_j (log p_j + H)
      at::Tensor grad_scores;
      if (entropy_gradient) {
        const at::Tensor grad_entropy = gradients[1].slice(0, begin, end).unsqueeze(1);
        const at::Tensor factor = scores.add(entropy.slice(0, begin, end).unsqueeze(1)).mul_(grad_entropy).add_(grad);
        grad_scores = scores.exp_().mul_(factor).neg_();
      } else {
        grad_scores = scores.exp_().mul_(grad.neg());
      }
      grad_scores.scatter_add_(1, targets.slice(0, begin, end).unsqueeze(1), grad.contiguous());
      if (inverse_temperature.defined()) grad_scores.mul_(inverse_temperature.slice(0, begin, end).unsqueeze(1));
      grad_scores = grad_scores.to(hidden.scalar_type());
      at::Tensor grad_rows = grad_hidden.slice(0, begin, end);
      at::mm_out(grad_rows, grad_scores, weight);
      if (!grad_weight.defined()) continue;
      const at::Tensor rows = hidden.slice(0, begin, end);
      if (hidden.scalar_type() == at::kFloat) {
        grad_weight.addmm_(grad_scores.t(), rows);
      } else if (hidden.is_cuda()) {
        grad_weight.add_(at::mm(grad_scores.t(), rows, at::kFloat));
      } else {
        grad_weight.add_(at::mm(grad_scores.t(), rows));
      }
    }
    if (grad_weight.defined()) grad_weight = grad_weight.to(weight.scalar_type());
    return {grad_hidden, grad_weight, {}, {}, {}, {}};
  }
};

}  // namespace

TargetScores lm_head_scores(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                            const at::Tensor& inverse_temperature, int64_t chunk, bool entropy_gradient) {
  TF_CHECK(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1),
           "hidden and head weight do not fit");
  TF_CHECK(targets.dim() == 1 && targets.size(0) == hidden.size(0), "{} targets for {} rows", targets.numel(),
           hidden.size(0));
  TF_CHECK(chunk > 0, "chunk {}", chunk);
  const auto temperature = inverse_temperature.defined() ? std::optional<at::Tensor>(inverse_temperature)
                                                         : std::nullopt;
  const auto outputs = LmHeadScores::apply(hidden.contiguous(), weight, targets, temperature, chunk, entropy_gradient);
  return {outputs[0], outputs[1]};
}

}  // namespace tritonforge::train
