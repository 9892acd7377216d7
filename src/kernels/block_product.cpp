#include "kernels/block_product.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

constexpr int64_t kWorth = 256 * 1024;  // multiplications that a part takes at least
constexpr int64_t kTokens = 256;        // quantised at once: their rows stay in the second cache

uint8_t* aligned(std::vector<uint8_t>& memory, int64_t bytes) {
  memory.resize(static_cast<size_t>(bytes) + 64);
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
}

// Activations of up to kTokens rows.
class Quantised {
 public:
  Quantised(const float* x, int64_t tokens, int64_t in, const BlockKernels& kernels) {
    const int64_t padded = padded_row(in);
    uint8_t* at = aligned(memory_, tokens * padded * (1 + 1) + tokens * padded / 8);
    rows_ = {.q = at,
             .scales = reinterpret_cast<float*>(at + tokens * padded),
             .sums = reinterpret_cast<float*>(at + 2 * tokens * padded),
             .padded = padded};
    over_threads(tokens, std::max<int64_t>(1, 16384 / in), [&](int64_t begin, int64_t end) {
      const QuantisedRows part{rows_.q + begin * padded, rows_.scales + begin * padded / 4,
                               rows_.sums + begin * padded / 32, padded};
      kernels.quantise(x + begin * in, end - begin, in, part);
    });
  }
  const QuantisedRows& rows() const { return rows_; }

 private:
  std::vector<uint8_t> memory_;
  QuantisedRows rows_{};
};

// Rows [begin, end) of the whole matrix, part by part: f(part, its first row in the matrix, begin and end within it).
template <typename F>
void over_parts(const BlockMatrix& weight, int64_t begin, int64_t end, const F& f) {
  int64_t first = 0;
  for (const BlockMatrix::Part& part : weight.parts) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + part.rows);
    if (from < to) f(part, first, from - first, to - first);
    first += part.rows;
  }
}

}  // namespace

int64_t BlockMatrix::bytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts) bytes += part.rows * part.row_bytes(in);
  return bytes;
}

bool has_block_product(const GgmlType& type) {
  switch (static_cast<BlockType>(type.number)) {
    case BlockType::kQ4_0:
    case BlockType::kQ5_0:
    case BlockType::kQ8_0:
    case BlockType::kQ4_K:
    case BlockType::kQ5_K:
    case BlockType::kQ6_K: return true;
  }
  return false;
}

at::Tensor block_linear(const at::Tensor& x, const BlockMatrix& weight, const at::Tensor& bias,
                        const BlockKernels& kernels) {
  TF_CHECK(x.is_cpu() && x.scalar_type() == at::kFloat && x.dim() == 2 && x.size(1) == weight.in,
           "a product of blocks takes fp32 rows of {} on the CPU", weight.in);
  TF_CHECK(!bias.defined() || (bias.scalar_type() == at::kFloat && bias.numel() == weight.out), "a bias of {} for {}",
           bias.numel(), weight.out);
  const at::Tensor rows = x.contiguous();
  const int64_t tokens = rows.size(0);
  at::Tensor y = at::empty({tokens, weight.out}, rows.options());
  const auto* from = rows.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  const float* biases = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  for (int64_t token = 0; token < tokens; token += kTokens) {
    const int64_t count = std::min(kTokens, tokens - token);
    const Quantised quantised(from + token * weight.in, count, weight.in, kernels);
    const auto some_rows = [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> scratch;
      uint8_t* aligned_scratch = aligned(scratch, block_dot_scratch(weight.in));
      over_parts(weight, begin, end,
                 [&](const BlockMatrix::Part& part, int64_t first, int64_t part_begin, int64_t part_end) {
                   kernels.dot({.type = static_cast<BlockType>(part.type->number),
                                .weights = part.data,
                                .row_bytes = part.row_bytes(weight.in),
                                .in = weight.in,
                                .begin = part_begin,
                                .end = part_end,
                                .x = quantised.rows(),
                                .tokens = count,
                                .y = to + token * weight.out + first,
                                .y_stride = weight.out,
                                .bias = biases != nullptr ? biases + first : nullptr,
                                .scratch = aligned_scratch});
                 });
    };
    over_threads(weight.out, std::max<int64_t>(1, kWorth / (count * weight.in)), some_rows);
  }
  return y;
}

at::Tensor widened(const BlockMatrix& weight) {
  at::Tensor all = at::empty({weight.out, weight.in}, at::kFloat);
  int64_t first = 0;
  for (const BlockMatrix::Part& part : weight.parts) {
    dequantise(*part.type, part.data, all.narrow(0, first, part.rows));
    first += part.rows;
  }
  return all;
}

at::Tensor block_embedding(const BlockMatrix& weight, const at::Tensor& ids) {
  const at::Tensor rows = ids.contiguous();
  const auto* wanted = rows.const_data_ptr<int64_t>();
  at::Tensor out = at::empty({rows.numel(), weight.in}, at::kFloat);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    TF_CHECK(wanted[i] >= 0 && wanted[i] < weight.out, "row {} of {}", wanted[i], weight.out);
    over_parts(weight, wanted[i], wanted[i] + 1, [&](const BlockMatrix::Part& part, int64_t, int64_t begin, int64_t) {
      dequantise(*part.type, part.data + begin * part.row_bytes(weight.in), out.select(0, i));
    });
  }
  return out;
}

}  // namespace tritonforge::kernels
