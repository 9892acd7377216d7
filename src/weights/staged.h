#pragma once
// New weights beside a model's own, before they are installed: what can be found out before is found out here.
#include <ATen/ATen.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/filesystem.h"
#include "contract/weights.h"
#include "kernels/upload.h"
#include "model/parts.h"
#include "model/weights.h"

namespace tritonforge::weights {

// Ready to be installed: the model's own tensors and the new ones beside them.
struct StagedWeights {
  // (the model's tensor, the new one); of a model in parts, (a rank's tensor, its part of the new one), rank by rank.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  // Those that the model has in FP8: each is put together and rounded when it is installed, so that one at a time is
  // there whole.
  struct Rounding {
    struct Part {
      at::Tensor values;
      int64_t dim = 0, begin = 0;  // where they are in the whole
    };
    model::ShardedTensor target;
    std::vector<Part> parts;
  };
  std::vector<Rounding> roundings;
  // Where they lie in what somebody else may change, another process's memory or a file's map: what keeps it mapped,
  // and what must be found in the model once they are copied.
  std::shared_ptr<const void> mapping;
  TensorChecksums expected;
  // A trainer's memory is compared in the engine's pause, right before it is copied: beside the steps it would take ten
  // times as long and hold them up (bench/weight_update.cpp).
  std::vector<std::pair<std::string, at::Tensor>> unread;
  // Of each GPU, for copies out of the host's memory of tensors without gaps.
  std::map<c10::DeviceIndex, std::shared_ptr<kernels::Upload>> uploads;
  // Not all of the model's tensors: what becomes of the others is whoever's who sends them.
  bool part = false;

  void add(const model::ShardedTensor& target, const at::Tensor& whole);
};

// Reads a .safetensors file, a folder (model::weight_files_in()), or a GGUF file, into copies in the model's dtype
// unless a GPU can read the file's map itself. Every tensor of the model must be there with its shape and no other may
// be (a tied lm_head excepted). `checksums`: of a tensor's bytes as the file holds them; for a GGUF file, of the tensor
// in the model's dtype. Throws kNotFound or kCorrupt naming file, tensor, expected and found.
StagedWeights stage_weights(const model::Parts& model, const fs::path& path, const TensorChecksums& checksums);

// The same of safetensors files that are open. `part`: tensors of the model may be missing.
using SafetensorsFiles = std::shared_ptr<const std::deque<model::SafetensorsFile>>;
StagedWeights stage_files(const model::Parts& model, const SafetensorsFiles& files, const TensorChecksums& checksums,
                          bool part = false);

// Of some tensors under their Hugging Face names, on any device: kCorrupt naming one that is none of the model's, is
// there twice or has another shape.
using NamedShapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;
void check_part(const model::Parts& model, const NamedShapes& shapes, const std::string& where);
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
StagedWeights stage_part(const model::Parts& model, const NamedTensors& tensors, const std::string& where);

// Throws kCorrupt naming the first tensor of `where` that differs.
void compare_weights(const std::string& where, const TensorChecksums& found, const TensorChecksums& expected);

// Between two steps. Returns the checksums of what was rounded, as it was before, in the model's dtype and in the
// memory that was then read.
TensorChecksums install(const StagedWeights& staged, at::ScalarType dtype);

}  // namespace tritonforge::weights
