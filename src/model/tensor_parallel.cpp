#include "model/tensor_parallel.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <string_view>

#include "model/weight_source.h"

namespace tritonforge::model {
namespace {

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

}  // namespace

ModelConfig part_of(const ModelConfig& whole, int64_t tp) {
  ModelConfig part = whole;
  for (const auto& [name, count] : {std::pair<const char*, int64_t*>{"num_attention_heads", &part.num_heads},
                                    {"num_key_value_heads", &part.num_kv_heads},
                                    {"intermediate_size", &part.intermediate_size},
                                    {"vocab_size", &part.vocab_size}}) {
    if (*count % tp != 0)
      fail(ErrorKind::kUsage, "tp {}: the model's {} of {} cannot be divided by it", tp, name, *count);
    *count /= tp;
  }
  return part;
}

ModelConfig whole_of(const ModelConfig& part, int64_t tp) {
  ModelConfig whole = part;
  for (int64_t* count : {&whole.num_heads, &whole.num_kv_heads, &whole.intermediate_size, &whole.vocab_size})
    *count *= tp;
  if (part.whole_layers > 0) whole.num_layers = part.whole_layers;
  whole.chunks.clear();
  whole.whole_layers = 0;
  return whole;
}

TensorPart tensor_part(const std::string& name, at::IntArrayRef sizes, const TensorParallel& at) {
  TensorPart part{sizes.vec(), 0, 0, sizes[0], true};
  const bool columns = ends_with_any(name, {"o_proj.weight", "down_proj.weight"});
  const bool rows = ends_with_any(
      name, {"q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias",
             "gate_proj.weight", "up_proj.weight", "embed_tokens.weight", "lm_head.weight"});
  if (at.size == 1 || (!rows && !columns)) return part;
  part.replica = false;
  part.dim = columns ? 1 : 0;
  part.count = sizes[static_cast<size_t>(part.dim)];
  part.begin = at.rank * part.count;
  part.whole[static_cast<size_t>(part.dim)] *= at.size;
  return part;
}

Model load_model_part(const fs::path& path, at::ScalarType dtype, at::Device device, const TensorParallel& at,
                      const Stage& stage) {
  if (at.size == 1 && stage.count == 1) return load_model(path, dtype, device);
  const at::NoGradGuard no_grad;
  const ModelConfig whole = read_model_config(path);
  const std::shared_ptr<const WeightSource> source = open_weights_of(whole, path);
  Model part(stage_of(part_of(whole, at.size), stage), dtype, device);
  for (auto& [name, tensor] : part.named_parameters()) {
    const TensorPart where = tensor_part(name, tensor.sizes(), at);
    const at::Tensor all = at::empty(where.whole, dtype);
    source->read(name, all);
    tensor.copy_(where.of(all));
  }
  return part;
}

void init_random_part(Model& part, const TensorParallel& at, uint64_t seed, double std) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : part.named_parameters()) {
    const TensorPart where = tensor_part(name, tensor.sizes(), at);
    tensor.copy_(where.of(random_parameter(name, where.whole, seed, std)));
  }
}

}  // namespace tritonforge::model
