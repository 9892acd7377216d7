#pragma once
// Products with weights that stay as a GGUF file holds them: activations are quantised a block of 32 at a time, and the
// sums are of whole numbers (kernels/block_dot.h has formula and error).
#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "kernels/block_dot.h"
#include "kernels/ggml_types.h"

namespace tritonforge::kernels {

// A matrix [out, in] whose rows are blocks of one type each part: q, k and v of one product may lie in different places
// and types.
struct BlockMatrix {
  struct Part {
    const GgmlType* type;  // one of block_type_of()
    const uint8_t* data;   // rows * in / type->block * type->bytes bytes, in what `memory` keeps
    int64_t rows;
    int64_t row_bytes(int64_t in) const { return in / type->block * type->bytes; }
  };
  std::vector<Part> parts;
  int64_t in = 0, out = 0;
  std::shared_ptr<const void> memory;

  bool defined() const { return out > 0; }
  int64_t bytes() const;
};
bool has_block_product(const GgmlType& type);

// x [tokens, in] fp32, bias [out] fp32 or undefined -> [tokens, out] fp32.
at::Tensor block_linear(const at::Tensor& x, const BlockMatrix& weight, const at::Tensor& bias,
                        const BlockKernels& kernels = block_kernels());
// The widened weights [out, in] fp32: what block_linear is compared with.
at::Tensor widened(const BlockMatrix& weight);
// Rows `ids` [n] int64 of the matrix, widened: [n, in] fp32. Ids outside of it are a failed check.
at::Tensor block_embedding(const BlockMatrix& weight, const at::Tensor& ids);

}  // namespace tritonforge::kernels
