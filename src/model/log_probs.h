#pragma once
// Log-probabilities without the logits of everything at once.
#include "model/model.h"

namespace tritonforge::model {

// log softmax(logits(hidden))[i, targets[i]]: hidden [n, hidden], targets [n] int64 -> [n] fp32, `chunk` rows of logits
// at a time. No gradient (the trainer's loss has its own); temperature divides the logits first.
at::Tensor target_log_probs(const Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                            double temperature = 1.0, int64_t chunk = 256);

}  // namespace tritonforge::model
