#pragma once
// Named tensors of a checkpoint, whatever its form: what load_weights reads from. Inside src/model only.
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "model/model.h"

namespace tritonforge::model {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::vector<std::string> names() const = 0;  // Hugging Face names
  virtual bool contains(const std::string& name) const = 0;
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  virtual std::string where(const std::string& name) const = 0;  // the file that holds it
  // Tensor `name` [rows, in] as it is stored; undefined where its form has no product of its own.
  virtual kernels::BlockMatrix blocks(const std::string&) const { return {}; }
  // Converts into `target` (same shape, contiguous; any device and floating dtype). Thread-safe.
  virtual void read(const std::string& name, at::Tensor target) const = 0;
};

// A Hugging Face folder (single file or sharded), a .safetensors file, or a .gguf file. Every file is opened and its
// directory checked before this returns.
std::shared_ptr<WeightSource> open_weights(const fs::path& path);
// The same, of which check_tensors() has found each tensor of a whole model: before it has memory, since a config may
// ask for more than there is.
std::shared_ptr<WeightSource> open_weights_of(const ModelConfig& config, const fs::path& path);

// kCorrupt unless the source has each of these with its shape, and nothing else that matters. tied: the head may be
// there once more.
void check_tensors(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const WeightSource& source,
                   bool tied);

}  // namespace tritonforge::model
