#include "engine/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/tensor_checksum.h"
#include "model/weights.h"

namespace tritonforge::engine {
namespace {

std::string shape_of(const at::Tensor& tensor) { return fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")); }

std::vector<fs::path> safetensors_in(const fs::path& path) {
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "{}: no such file or folder", path.string());
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (files.empty()) fail(ErrorKind::kNotFound, "{}: no .safetensors file in the folder", path.string());
  std::sort(files.begin(), files.end());
  return files;
}

void compare(const std::string& where, const std::string& name, const std::string& expected, const std::string& found) {
  if (expected == found) return;
  fail(ErrorKind::kCorrupt, "{}: tensor '{}' has checksum {}, expected {}", where, name, found, expected);
}

StagedWeights stage_safetensors(const model::Model& model, const fs::path& path, const TensorChecksums& checksums) {
  const auto parameters = model.named_parameters();
  std::map<std::string, at::Tensor> wanted(parameters.begin(), parameters.end());
  std::vector<std::string> known;
  for (const auto& [name, tensor] : parameters) known.push_back(name);
  const auto files = std::make_shared<std::deque<model::SafetensorsFile>>();
  StagedWeights staged;
  size_t checked = 0, converted = 0;
  for (const fs::path& file : safetensors_in(path)) {
    const model::SafetensorsFile& content = files->emplace_back(file);
    for (const std::string& name : content.names()) {
      const auto target = wanted.find(name);
      if (target == wanted.end()) {
        if (name == "lm_head.weight" && model.config().tie_embeddings) continue;
        fail(ErrorKind::kCorrupt, "{}: tensor '{}' is not one of this model's, or there twice{}", file.string(), name,
             nearest_hint(name, known));
      }
      const at::Tensor found = content.tensor(name);
      if (found.sizes() != target->second.sizes()) {
        fail(ErrorKind::kCorrupt, "{}: tensor '{}' has shape {}, expected {}", file.string(), name, shape_of(found),
             shape_of(target->second));
      }
      if (const auto expected = checksums.find(name); expected != checksums.end()) {
        compare(file.string(), name, expected->second, kernels::tensor_checksums({&found, 1}).front());
        ++checked;
      }
      converted += found.scalar_type() != model.dtype();
      staged.copies.emplace_back(target->second, found);
      wanted.erase(target);
    }
  }
  if (!wanted.empty()) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' is missing ({} of {} are)", path.string(), wanted.begin()->first,
         wanted.size(), parameters.size());
  }
  if (checked < checksums.size()) {
    for (const auto& [name, value] : checksums) {
      if (std::find(known.begin(), known.end(), name) == known.end() && name != "lm_head.weight") {
        fail(ErrorKind::kCorrupt, "{}: a checksum for '{}', which is no tensor of this model{}", path.string(), name,
             nearest_hint(name, known));
      }
    }
  }
  // A GPU takes the bytes out of the file's map, and shows afterwards what it took. Else the file is done with here.
  const bool own_library = model.device().is_cuda() && kernels::has_gpu_kernels();
  if (own_library && converted == 0 && checked == parameters.size()) {
    gpu::check_cuda(gpu::open_cuda_library().set_device(model.device().index()));
    staged.upload = std::make_shared<kernels::Upload>();
    staged.expected = checksums;
    staged.mapping = files;
  } else {
    for (auto& [target, found] : staged.copies) {
      at::Tensor copy = at::empty(found.sizes(), found.options().dtype(model.dtype()));
      found = copy.copy_(found);
    }
  }
  return staged;
}

StagedWeights stage_gguf(const model::Model& model, const fs::path& path, const TensorChecksums& checksums) {
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "{}: no such file", path.string());
  model::Model copy(model.config(), model.dtype(), at::kCPU);
  const TensorChecksums found = model::load_weights(copy, path);
  for (const auto& [name, expected] : checksums) {
    const auto actual = found.find(name);
    if (actual == found.end())
      fail(ErrorKind::kCorrupt, "{}: a checksum for '{}', which is no tensor of this model", path.string(), name);
    compare(path.string(), name, expected, actual->second);
  }
  StagedWeights staged;
  const auto targets = model.named_parameters(), sources = copy.named_parameters();
  for (size_t i = 0; i < targets.size(); ++i) staged.copies.emplace_back(targets[i].second, sources[i].second);
  return staged;
}

}  // namespace

void compare_weights(const std::string& where, const TensorChecksums& found, const TensorChecksums& expected) {
  for (const auto& [name, sum] : expected) {
    const auto there = found.find(name);
    compare(where, name, sum, there == found.end() ? "none" : there->second);
  }
}

StagedWeights stage_weights(const model::Model& model, const fs::path& path, const TensorChecksums& checksums) {
  if (model.stored_bytes() > 0) {
    fail(ErrorKind::kUnsupported,
         "weights that stay as they are stored take no updates: start the engine with --dtype float32 or bfloat16");
  }
  return path.extension() == ".gguf" ? stage_gguf(model, path, checksums) : stage_safetensors(model, path, checksums);
}

void install(const StagedWeights& staged) {
  at::NoGradGuard no_grad;
  for (const auto& [target, source] : staged.copies) {
    if (staged.upload) staged.upload->copy(target, source);
    else at::Tensor(target).copy_(source);
  }
  if (staged.upload) staged.upload->finish();
}

}  // namespace tritonforge::engine
