#include "model/log_probs.h"

namespace tritonforge::model {

at::Tensor target_log_probs(const Model& model, const at::Tensor& hidden, const at::Tensor& targets, double temperature,
                            int64_t chunk) {
  const at::NoGradGuard no_grad;
  const int64_t rows = hidden.size(0);
  TF_CHECK(targets.size(0) == rows && chunk > 0 && temperature > 0, "{} rows, {} targets, chunk {}, temperature {}",
           rows, targets.size(0), chunk, temperature);
  at::Tensor result = at::empty({rows}, hidden.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    at::Tensor logits = model.logits(hidden.narrow(0, begin, count));
    if (temperature != 1.0) logits.div_(temperature);
    const at::Tensor chosen = logits.gather(1, targets.narrow(0, begin, count).unsqueeze(1)).squeeze(1);
    // logsumexp by hand and in place: at::logsumexp would hold a second [chunk, vocab].
    const at::Tensor top = std::get<0>(logits.max(1, /*keepdim=*/true));
    const at::Tensor sum = logits.sub_(top).exp_().sum(1);
    result.narrow(0, begin, count).copy_(chosen - top.squeeze(1) - sum.log());
  }
  return result;
}

}  // namespace tritonforge::model
