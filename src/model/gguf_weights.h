#pragma once
// Weights of a GGUF file (llama.cpp's container) under their Hugging Face names, dequantised as they are read. The
// container itself is base/gguf.h. Qwen's q and k rows lie there as in Hugging Face (only Llama's are permuted).
#include <memory>
#include <string>

#include "base/gguf.h"
#include "model/config.h"
#include "model/weight_source.h"

namespace tritonforge::model {

// Throws kUnsupported for another general.architecture, rope scaling, ...; kCorrupt for missing or wrong metadata.
ModelConfig model_config_from_gguf(const GgufFile& file);

// Checks every tensor's type and extent; kUnsupported names file, tensor and the ggml type that is not implemented.
std::shared_ptr<WeightSource> open_gguf_weights(const fs::path& path);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; an unknown name is returned as it is.
std::string hugging_face_name(const std::string& gguf_name);

}  // namespace tritonforge::model
