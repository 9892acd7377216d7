#include "model/gpu_support.h"

#include "base/error.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::model {

std::string gpu_kernels_refusal(const Model& model) {
  const ModelConfig& c = model.config();
  if (!model.device().is_cuda()) return fmt::format("the device is {}", model.device().str());
  if (model.dtype() != at::kBFloat16) return "the model is not in bfloat16";
  if (c.head_dim != 64 && c.head_dim != 128) return fmt::format("head_dim is {}, not 64 or 128", c.head_dim);
  if (c.num_heads / c.num_kv_heads > 16) {
    return fmt::format("{} query heads share a key head, more than 16", c.num_heads / c.num_kv_heads);
  }
  for (const int64_t n : {c.hidden_size, c.intermediate_size, c.vocab_size}) {
    if (n % 8 != 0) return fmt::format("a width of {} is no multiple of 8", n);
  }
  for (const int64_t k : {c.hidden_size, c.num_heads * c.head_dim, c.intermediate_size}) {
    if (model.fp8_matrices() && k % kernels::kLaneGroup != 0)
      return fmt::format("a width of {} is no multiple of {}, which FP8 matrices have", k, kernels::kLaneGroup);
  }
  try {
    gpu::open_cuda_library();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tritonforge::model
