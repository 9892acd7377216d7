#include "model/parts.h"

#include <ATen/core/grad_mode.h>

#include "model/weight_source.h"

namespace tritonforge::model {

std::vector<std::pair<at::Tensor, at::Tensor>> ShardedTensor::beside(const at::Tensor& whole) const {
  TF_CHECK(!fp8(), "{} is copied as it is, and the model has it in FP8", name);
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (size_t rank = 0; rank < tensors.size(); ++rank) pairs.emplace_back(tensors[rank], places[rank].of(whole));
  return pairs;
}

void ShardedTensor::put(const at::Tensor& whole) const {
  if (!fp8()) {
    for (const auto& [part, of_whole] : beside(whole)) at::Tensor(part).copy_(of_whole);
    return;
  }
  const kernels::Fp8Matrix rounded = kernels::to_fp8(whole);
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    const TensorPart& place = places[rank];
    kernels::keep(tensors[rank], place.of(rounded.values));
    at::Tensor(scales[rank]).copy_(place.dim == 0 ? place.of(rounded.scales) : rounded.scales);
  }
}

at::Tensor ShardedTensor::whole() const {
  const auto part = [this](size_t rank) {
    return fp8() ? kernels::widened({tensors[rank], scales[rank]}, at::kBFloat16) : tensors[rank];
  };
  if (places.front().replica) return part(0);
  std::vector<at::Tensor> together;
  for (size_t rank = 0; rank < tensors.size(); ++rank) together.push_back(part(rank).to(tensors.front().device()));
  return at::cat(together, places.front().dim);
}

Parts::Parts(const std::vector<std::unique_ptr<Model>>& ranks) {
  for (const auto& rank : ranks) ranks_.push_back(rank.get());
}

std::vector<ShardedTensor> Parts::tensors() const {
  std::vector<ShardedTensor> all;
  for (int64_t rank = 0; rank < size(); ++rank) {
    const auto named = (*this)[rank].named_parameters();
    const auto scales = (*this)[rank].named_scales();
    all.resize(named.size());
    for (size_t i = 0; i < named.size(); ++i) {
      const auto& [name, tensor] = named[i];
      all[i].name = name;
      all[i].tensors.push_back(tensor);
      if (const auto found = scales.find(name); found != scales.end()) all[i].scales.push_back(found->second);
      all[i].places.push_back(tensor_part(name, tensor.sizes(), {rank, size()}));
    }
  }
  return all;
}

int64_t Parts::elements() const {
  int64_t sum = 0;
  for (const Model* rank : ranks_) sum += rank->arena().numel();
  return sum;
}

std::vector<std::unique_ptr<Model>> load_parts(const fs::path& path, at::ScalarType dtype,
                                               const std::vector<at::Device>& devices, bool fp8_matrices) {
  std::vector<std::unique_ptr<Model>> ranks;
  if (devices.size() == 1 && !fp8_matrices) {
    ranks.push_back(std::make_unique<Model>(load_model(path, dtype, devices.front())));
    return ranks;
  }
  const at::NoGradGuard no_grad;
  const ModelConfig whole = read_model_config(path);
  const std::shared_ptr<const WeightSource> source = open_weights(path);
  check_tensors(Model(whole, at::kFloat, at::kMeta).named_parameters(), *source, whole.tie_embeddings);
  for (const at::Device device : devices)
    ranks.push_back(std::make_unique<Model>(part_of(whole, std::ssize(devices)), dtype, device, fp8_matrices));
  for (const ShardedTensor& tensor : Parts(ranks).tensors()) {
    const at::Tensor all = at::empty(tensor.sizes(), dtype);
    source->read(tensor.name, all);
    tensor.put(tensor.fp8() ? all.to(devices.front()) : all);
  }
  return ranks;
}

std::map<std::string, std::string> weight_checksums(const Parts& parts) {
  if (parts.size() == 1 && !parts.first().fp8_matrices()) return weight_checksums(parts.first());
  std::map<std::string, std::string> checksums;
  const auto sum = [](const std::string& name, const at::Tensor& x) { return checksums_of({{name, x}}).at(name); };
  for (const ShardedTensor& tensor : parts.tensors()) {
    if (tensor.fp8()) continue;
    std::string& found = checksums[tensor.name] = sum(tensor.name, tensor.whole());
    if (!tensor.places.front().replica) continue;
    for (const at::Tensor& replica : tensor.tensors) {
      const std::string other = sum(tensor.name, replica);
      if (found == other) continue;
      found = other;
      break;
    }
  }
  return checksums;
}

}  // namespace tritonforge::model
