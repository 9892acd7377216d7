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
std::unique_ptr<WeightSource> open_gguf_weights(const fs::path& path);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; an unknown name is returned as it is.
std::string hugging_face_name(const std::string& gguf_name);

// A ggml type that is implemented: `block` numbers in `bytes` bytes. Layouts: ggml/src/ggml-common.h of llama.cpp.
struct GgmlType {
  uint32_t number;
  const char* name;
  int64_t block, bytes;
  void (*dequantise)(const uint8_t* block, float* out);  // nullptr for F32, F16, BF16: plain numbers
};
const GgmlType* find_ggml_type(uint32_t number);  // nullptr where it is not implemented
std::string ggml_type_name(uint32_t number);      // "Q4_K", "IQ2_XXS", ..., also of what is not implemented

// `blocks` blocks into target[0 .. blocks * type.block), converted to its dtype (fp32, bf16 or fp16; CPU, contiguous).
void dequantise(const GgmlType& type, const uint8_t* data, at::Tensor target);

}  // namespace tritonforge::model
