#include "kernels/ggml_types.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
}

// f16 d; 16 bytes: element i in the low nibble of byte i, element 16 + i in the high one.
void q4_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const uint8_t* qs = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((qs[i] & 0x0F) - 8) * d;
    out[16 + i] = static_cast<float>((qs[i] >> 4) - 8) * d;
  }
}

void q4_1(const uint8_t* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  const uint8_t* qs = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(qs[i] & 0x0F) * d + m;
    out[16 + i] = static_cast<float>(qs[i] >> 4) * d + m;
  }
}

// As Q4, with the fifth bit of element i in bit i of a 32-bit word.
void q5_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  uint32_t high;
  std::memcpy(&high, block + 2, 4);
  const uint8_t* qs = block + 6;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(static_cast<int>((qs[i] & 0x0Fu) | ((high >> i) & 1u) << 4) - 16) * d;
    out[16 + i] = static_cast<float>(static_cast<int>((qs[i] >> 4) | ((high >> (i + 16)) & 1u) << 4) - 16) * d;
  }
}

void q5_1(const uint8_t* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  uint32_t high;
  std::memcpy(&high, block + 4, 4);
  const uint8_t* qs = block + 8;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(static_cast<int>((qs[i] & 0x0Fu) | ((high >> i) & 1u) << 4)) * d + m;
    out[16 + i] = static_cast<float>(static_cast<int>((qs[i] >> 4) | ((high >> (i + 16)) & 1u) << 4)) * d + m;
  }
}

void q8_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const auto* qs = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(qs[i]) * d;
}

// The 6-bit scales and minima of the K types' eight sub-blocks, packed into 12 bytes.
void k_scales(const uint8_t* packed, uint8_t* scales, uint8_t* minima) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 0x3F;
    minima[i] = packed[4 + i] & 0x3F;
    scales[4 + i] = (packed[8 + i] & 0x0F) | ((packed[i] >> 2) & 0x30);
    minima[4 + i] = (packed[8 + i] >> 4) | ((packed[4 + i] >> 2) & 0x30);
  }
}

// f16 d, f16 dmin, 12 bytes of scales, 128 bytes: sub-blocks 2j and 2j + 1 in the low and high nibbles of 32 bytes.
void q4_k(const uint8_t* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  uint8_t scales[8], minima[8];
  k_scales(block + 4, scales, minima);
  const uint8_t* qs = block + 16;
  for (int pair = 0; pair < 4; ++pair, qs += 32, out += 64) {
    const float d0 = d * scales[2 * pair], m0 = dmin * minima[2 * pair];
    const float d1 = d * scales[2 * pair + 1], m1 = dmin * minima[2 * pair + 1];
    for (int i = 0; i < 32; ++i) out[i] = d0 * static_cast<float>(qs[i] & 0x0F) - m0;
    for (int i = 0; i < 32; ++i) out[32 + i] = d1 * static_cast<float>(qs[i] >> 4) - m1;
  }
}

// As Q4_K, with the fifth bit of sub-block s in bit s of 32 more bytes.
void q5_k(const uint8_t* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  uint8_t scales[8], minima[8];
  k_scales(block + 4, scales, minima);
  const uint8_t *high = block + 16, *qs = block + 48;
  for (int pair = 0; pair < 4; ++pair, qs += 32, out += 64) {
    const float d0 = d * scales[2 * pair], m0 = dmin * minima[2 * pair];
    const float d1 = d * scales[2 * pair + 1], m1 = dmin * minima[2 * pair + 1];
    for (int i = 0; i < 32; ++i)
      out[i] = d0 * static_cast<float>((qs[i] & 0x0F) | ((high[i] >> (2 * pair)) & 1) << 4) - m0;
    for (int i = 0; i < 32; ++i)
      out[32 + i] = d1 * static_cast<float>((qs[i] >> 4) | ((high[i] >> (2 * pair + 1)) & 1) << 4) - m1;
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 int8 scales, f16 d; two halves of 128 numbers.
void q6_k(const uint8_t* block, float* out) {
  const uint8_t *low = block, *high = block + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half, low += 64, high += 32, scales += 8, out += 128) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint8_t* nibbles = low + 32 * (quarter & 1);
      const int nibble_shift = quarter < 2 ? 0 : 4, pair_shift = 2 * quarter;
      for (int part = 0; part < 2; ++part) {
        const float scale = d * static_cast<float>(scales[2 * quarter + part]);
        for (int i = 16 * part; i < 16 * part + 16; ++i) {
          out[32 * quarter + i] = scale * static_cast<float>((((nibbles[i] >> nibble_shift) & 0x0F) |
                                                              ((high[i] >> pair_shift) & 3) << 4) -
                                                             32);
        }
      }
    }
  }
}

constexpr std::array<GgmlType, 11> kTypes{{{0, "F32", 1, 4, nullptr},
                                           {1, "F16", 1, 2, nullptr},
                                           {2, "Q4_0", 32, 18, q4_0},
                                           {3, "Q4_1", 32, 20, q4_1},
                                           {6, "Q5_0", 32, 22, q5_0},
                                           {7, "Q5_1", 32, 24, q5_1},
                                           {8, "Q8_0", 32, 34, q8_0},
                                           {12, "Q4_K", 256, 144, q4_k},
                                           {13, "Q5_K", 256, 176, q5_k},
                                           {14, "Q6_K", 256, 210, q6_k},
                                           {30, "BF16", 1, 2, nullptr}}};

template <typename T>
void dequantise_to(const GgmlType& type, const uint8_t* data, T* out, int64_t blocks) {
  over_threads(blocks, std::max<int64_t>(1, 16384 / type.block), [&](int64_t begin, int64_t end) {
    std::array<float, 256> numbers;
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        type.dequantise(data + i * type.bytes, out + i * type.block);
      } else {
        type.dequantise(data + i * type.bytes, numbers.data());
        for (int64_t j = 0; j < type.block; ++j) out[i * type.block + j] = static_cast<T>(numbers[j]);
      }
    }
  });
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
  for (const auto& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

std::string ggml_type_name(uint32_t number) {
  static const std::map<uint32_t, const char*> others{
      {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
      {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
      {24, "I8"},      {25, "I16"},   {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},
      {34, "TQ1_0"},   {35, "TQ2_0"}, {39, "MXFP4"},  {40, "NVFP4"}};
  if (const auto* type = find_ggml_type(number)) return type->name;
  const auto found = others.find(number);
  return found == others.end() ? fmt::format("number {}", number) : found->second;
}

void dequantise(const GgmlType& type, const uint8_t* data, at::Tensor target) {
  TF_CHECK(target.is_cpu() && target.is_contiguous() && target.numel() % type.block == 0,
           "dequantise needs a contiguous CPU tensor of whole blocks");
  if (!type.dequantise) {
    const auto stored = type.number == 0 ? at::kFloat : type.number == 1 ? at::kHalf : at::kBFloat16;
    target.copy_(at::from_blob(const_cast<uint8_t*>(data), target.sizes(), at::TensorOptions().dtype(stored)));
    return;
  }
  const int64_t blocks = target.numel() / type.block;
  switch (target.scalar_type()) {
    case at::kFloat: return dequantise_to(type, data, target.mutable_data_ptr<float>(), blocks);
    case at::kBFloat16: return dequantise_to(type, data, target.mutable_data_ptr<c10::BFloat16>(), blocks);
    case at::kHalf: return dequantise_to(type, data, target.mutable_data_ptr<c10::Half>(), blocks);
    default: TF_CHECK(false, "dequantise to {}", c10::toString(target.scalar_type()));
  }
}

}  // namespace tritonforge::kernels
