#pragma once
// The receiver's half of a weight update: everything that can go wrong goes wrong here, before anything is installed.
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/filesystem.h"
#include "model/model.h"

namespace tritonforge::engine {

// Copies in the model's dtype, ready to be installed, with the model's own tensors beside them.
struct StagedWeights {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // (the model's tensor, the new one)
};

// Reads a .safetensors file, a folder of them, or a GGUF file. Every tensor of the model must be there with its shape
// and no other may be (a tied lm_head excepted). `checksums`: XXH3-128 of a tensor's bytes as the file holds them;
// for a GGUF file, of the tensor in the model's dtype. Throws kNotFound or kCorrupt naming file, tensor, expected and
// found.
StagedWeights stage_weights(const model::Model& model, const fs::path& path,
                            const std::map<std::string, std::string>& checksums);

// Between two steps.
void install(const StagedWeights& staged);

}  // namespace tritonforge::engine
