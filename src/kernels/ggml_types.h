#pragma once
// The number formats of GGUF tensors. Layouts: ggml/src/ggml-common.h of llama.cpp.
#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace tritonforge::kernels {

// A ggml type that is implemented: `block` numbers in `bytes` bytes.
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

}  // namespace tritonforge::kernels
