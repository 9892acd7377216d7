#include "weights/staged.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/tensor_checksum.h"
#include "model/weights.h"

namespace tritonforge::weights {
namespace {

void compare(const std::string& where, const std::string& name, const std::string& expected, const std::string& found) {
  if (expected == found) return;
  fail(ErrorKind::kCorrupt, "{}: tensor '{}' has checksum {}, expected {}", where, name, found, expected);
}

// The model's tensors that are still to come.
class Wanted {
 public:
  explicit Wanted(const model::Parts& model) {
    const bool tied = model.first().config().tie_embeddings;
    for (model::ShardedTensor& tensor : model.tensors()) {
      if (tied && tensor.name == model::kTable) tied_head_ = tensor.sizes();
      known_.push_back(tensor.name);
      left_.emplace(tensor.name, std::move(tensor));
    }
  }
  // None for a tied head, which is the embedding.
  std::optional<model::ShardedTensor> take(const std::string& where, const std::string& name, at::IntArrayRef sizes) {
    const auto target = left_.find(name);
    const bool head = name == "lm_head.weight" && tied_head_;
    if (target == left_.end() && !head) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' is not one of this model's, or there twice{}", where, name,
           nearest_hint(name, known_));
    }
    const std::vector<int64_t> expected = head ? *std::exchange(tied_head_, {}) : target->second.sizes();
    if (sizes != at::IntArrayRef(expected)) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' has shape [{}], expected [{}]", where, name, fmt::join(sizes, ", "),
           fmt::join(expected, ", "));
    }
    if (head) return {};
    return std::move(left_.extract(target).mapped());
  }
  const std::vector<std::string>& known() const { return known_; }
  const std::map<std::string, model::ShardedTensor>& left() const { return left_; }

 private:
  std::optional<std::vector<int64_t>> tied_head_;  // the sizes of one that may still come
  std::vector<std::string> known_;
  std::map<std::string, model::ShardedTensor> left_;
};

StagedWeights stage_gguf(const model::Parts& model, const fs::path& path, const TensorChecksums& checksums) {
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
  const auto targets = model.tensors();
  const auto sources = copy.named_parameters();
  for (size_t i = 0; i < targets.size(); ++i) staged.add(targets[i], sources[i].second);
  return staged;
}

void check_takes_updates(const model::Parts& model) {
  if (model.first().stored_bytes() > 0) {
    fail(ErrorKind::kUnsupported,
         "weights that stay as they are stored take no updates: start the engine with --dtype float32 or bfloat16");
  }
}

}  // namespace

void StagedWeights::add(const model::ShardedTensor& target, const at::Tensor& whole) {
  if (target.fp8()) {
    roundings.push_back({target, {{whole}}});
    return;
  }
  for (auto& pair : target.beside(whole)) copies.push_back(std::move(pair));
}

void compare_weights(const std::string& where, const TensorChecksums& found, const TensorChecksums& expected) {
  for (const auto& [name, sum] : expected) {
    const auto there = found.find(name);
    compare(where, name, sum, there == found.end() ? "none" : there->second);
  }
}

StagedWeights stage_files(const model::Parts& model, const SafetensorsFiles& files, const TensorChecksums& checksums,
                          bool part) {
  check_takes_updates(model);
  Wanted wanted(model);
  StagedWeights staged{.part = part};
  size_t checked = 0, converted = 0;
  for (const model::SafetensorsFile& file : *files) {
    const std::string where = file.path().string();
    for (const std::string& name : file.names()) {
      const auto target = wanted.take(where, name, file.shape(name));
      if (!target) continue;
      const at::Tensor found = file.tensor(name);
      if (const auto expected = checksums.find(name); expected != checksums.end()) {
        compare(where, name, expected->second, kernels::tensor_checksums({&found, 1}).front());
        ++checked;
      }
      converted += found.scalar_type() != model.dtype();
      staged.add(*target, found);
    }
  }
  const auto& known = wanted.known();
  const std::string first = files->front().path().string();
  if (!wanted.left().empty() && !part) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' is missing ({} of {} are)", first, wanted.left().begin()->first,
         wanted.left().size(), known.size());
  }
  if (checked < checksums.size()) {
    for (const auto& [name, value] : checksums) {
      if (std::find(known.begin(), known.end(), name) == known.end() && name != "lm_head.weight") {
        fail(ErrorKind::kCorrupt, "{}: a checksum for '{}', which is no tensor of this model{}", first, name,
             nearest_hint(name, known));
      }
    }
  }
  // A GPU takes the bytes out of the file's map, and shows afterwards what it took. Else the file is done with here.
  const bool own_library = model.first().device().is_cuda() && kernels::has_gpu_kernels();
  if (own_library && converted == 0 && checked == known.size()) {
    for (int64_t rank = 0; rank < model.size(); ++rank) {
      const c10::DeviceIndex device = model[rank].device().index();
      gpu::check_cuda(gpu::open_cuda_library().set_device(device));
      staged.uploads.emplace(device, std::make_shared<kernels::Upload>());
    }
    staged.expected = checksums;
    staged.mapping = files;
  } else {
    const auto copied = [&](const at::Tensor& found) {
      return at::empty(found.sizes(), found.options().dtype(model.dtype())).copy_(found);
    };
    for (auto& [target, found] : staged.copies) found = copied(found);
    for (auto& rounding : staged.roundings) rounding.parts.front().values = copied(rounding.parts.front().values);
  }
  return staged;
}

void check_part(const model::Parts& model, const NamedShapes& shapes, const std::string& where) {
  check_takes_updates(model);
  Wanted wanted(model);
  for (const auto& [name, shape] : shapes) wanted.take(where, name, shape);
}

StagedWeights stage_part(const model::Parts& model, const NamedTensors& tensors, const std::string& where) {
  check_takes_updates(model);
  Wanted wanted(model);
  StagedWeights staged{.part = true};
  for (const auto& [name, tensor] : tensors) {
    if (const auto target = wanted.take(where, name, tensor.sizes())) staged.add(*target, tensor);
  }
  return staged;
}

StagedWeights stage_weights(const model::Parts& model, const fs::path& path, const TensorChecksums& checksums) {
  check_takes_updates(model);
  if (path.extension() == ".gguf") return stage_gguf(model, path, checksums);
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "{}: no such file or folder", path.string());
  const auto files = std::make_shared<std::deque<model::SafetensorsFile>>();
  if (!fs::is_directory(path)) files->emplace_back(path);
  else
    for (const fs::path& file : model::weight_files_in(path)) files->emplace_back(file);
  return stage_files(model, files, checksums);
}

TensorChecksums install(const StagedWeights& staged, at::ScalarType dtype) {
  at::NoGradGuard no_grad;
  // Queued, where by an upload until it is finished.
  const auto copy = [&](const at::Tensor& target, const at::Tensor& source) {
    const auto upload = staged.uploads.find(target.device().index());
    if (upload != staged.uploads.end() && target.is_contiguous()) upload->second->copy(target, source);
    else at::Tensor(target).copy_(source);
  };
  const auto finish = [&] {
    for (const auto& [device, upload] : staged.uploads) upload->finish();
  };
  for (const auto& [target, source] : staged.copies) copy(target, source);
  finish();
  TensorChecksums rounded;
  for (const auto& [target, parts] : staged.roundings) {
    const at::Tensor whole = at::empty(target.sizes(), target.tensors[0].options().dtype(dtype));
    for (const auto& part : parts) copy(whole.narrow(part.dim, part.begin, part.values.size(part.dim)), part.values);
    finish();
    rounded[target.name] = kernels::tensor_checksums({&whole, 1}).front();
    target.put(whole);
    kernels::synchronize(whole.device());  // the next one takes its memory, and an upload waits for no other stream
  }
  return rounded;
}

}  // namespace tritonforge::weights
