#pragma once
// What the passes on the CPU are made of: rows of fp32 matrices, shared out to threads.
#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/multiply.h"
#include "kernels/parallel.h"

namespace tritonforge::train::cpu {

// Tokens whose activations stay in a core's second cache from one operation of a layer to the next.
constexpr int64_t kBlock = 96;

inline float* row(const at::Tensor& matrix, int64_t index) {
  return matrix.data_ptr<float>() + index * matrix.stride(0);
}

// [rows, width], its rows a little apart where they would otherwise begin at one place of every page: a column, as a
// weight's gradient reads it, would have a twelfth of the first cache.
inline at::Tensor apart(int64_t rows, int64_t width) {
  constexpr int64_t kLine = 16;
  return at::empty({rows, width % 256 == 0 ? width + kLine : width}, at::kFloat).narrow(1, 0, width);
}

// f(part) for each of [0, parts), the next free thread taking the next part.
template <typename F>
void over_parts(int64_t parts, const F& f) {
  if (parts == 0) return;
  if (parts == 1) return f(int64_t{0});
  const kernels::RunPart run = [](const void* context, int64_t part) noexcept {
    (*static_cast<const F*>(context))(part);
  };
  kernels::run_parts(parts, run, &f);
}

constexpr int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

// f(begin, rows) of blocks of kBlock rows.
template <typename F>
void over_blocks(int64_t rows, const F& f) {
  over_parts(parts_of(rows, kBlock), [&](int64_t block) {
    const int64_t begin = block * kBlock;
    f(begin, std::min(kBlock, rows - begin));
  });
}

// A gradient of a weight [out, in]: weight += dy^T x, over rows of dy [tokens, out] and x [tokens, in]; of a bias [out]
// where x has no columns.
struct WeightGradient {
  const float *dy, *x;
  int64_t dy_stride, x_stride, tokens;
  at::Tensor weight;
};
// All of them, in an order of sums that the threads do not change.
void add_weight_gradients(const std::vector<WeightGradient>& gradients);

// Sums that blocks of rows make of a vector's gradient, [blocks, width], and their total in the order of the blocks.
class BlockSums {
 public:
  void start(int64_t blocks, int64_t width);
  float* of(int64_t block) { return row(sums_, block); }
  void add_to(const at::Tensor& gradient) const;

 private:
  at::Tensor sums_;
};

}  // namespace tritonforge::train::cpu
