#pragma once
// Tensor parallelism of weights (Megatron-LM, arXiv 1909.08053 and 2205.05198): a rank's part of a model is a model of
// fewer heads, a narrower MLP and a shorter vocabulary. It has rows of q, k, v, gate, up, embedding and head, columns
// of o and down, and the whole of what is added or scaled between them: norms and the bias of o.
#include <map>
#include <string>
#include <vector>

#include "model/stages.h"
#include "model/weights.h"

namespace tritonforge::model {

struct TensorParallel {
  int64_t rank = 0, size = 1;
};

// kUsage naming what cannot be divided by the degree.
ModelConfig part_of(const ModelConfig& whole, int64_t tp);
ModelConfig whole_of(const ModelConfig& part, int64_t tp);  // of a stage's part, too

// Where a rank's tensor lies in the model's: `count` rows (dim 0) or columns (dim 1) from `begin` on; all of them where
// it is a replica of what every rank has.
struct TensorPart {
  std::vector<int64_t> whole;  // sizes
  int64_t dim = 0, begin = 0, count = 0;
  bool replica = true;
  at::Tensor of(const at::Tensor& whole_tensor) const { return whole_tensor.narrow(dim, begin, count); }
};
// name, sizes: of the rank's tensor, as Model::named_parameters() has it.
TensorPart tensor_part(const std::string& name, at::IntArrayRef sizes, const TensorParallel& at);

// A rank's part of what load_model() would load, and of what init_random() would draw.
Model load_model_part(const fs::path& path, at::ScalarType dtype, at::Device device, const TensorParallel& at,
                      const Stage& stage = {});
void init_random_part(Model& part, const TensorParallel& at, uint64_t seed, double std = 0.02);

}  // namespace tritonforge::model
