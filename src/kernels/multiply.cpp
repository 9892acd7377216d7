#include "kernels/multiply.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "kernels/cpu_kernels.h"

namespace tritonforge::kernels {
namespace {

constexpr int64_t kColumns = 32;  // of a panel

int64_t panels_of(int64_t columns) { return (columns + kColumns - 1) / kColumns; }

}  // namespace

void Panels::Free::operator()(float* p) const { std::free(p); }

void Panels::reserve(int64_t inner, int64_t columns) {
  const int64_t needed = panels_of(columns) * inner * kColumns;
  if (needed > capacity_) {
    capacity_ = 0;
    data_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(needed) * sizeof(float))));
    if (data_ == nullptr) throw std::bad_alloc();
    capacity_ = needed;
  }
  inner_ = inner;
  columns_ = columns;
}

void Panels::assign(const float* b, int64_t stride, int64_t inner, int64_t columns) {
  reserve(inner, columns);
  for (int64_t p = 0; p < panels_of(columns); ++p) {
    float* panel = data_.get() + p * inner * kColumns;
    const int64_t count = std::min(kColumns, columns - p * kColumns);
    const float* from = b + p * kColumns;
    if (count == kColumns) {  // of a size that the compiler knows
      for (int64_t i = 0; i < inner; ++i)
        std::memcpy(panel + i * kColumns, from + i * stride, kColumns * sizeof(float));
      continue;
    }
    for (int64_t i = 0; i < inner; ++i) {
      std::copy_n(from + i * stride, count, panel + i * kColumns);
      std::fill(panel + i * kColumns + count, panel + (i + 1) * kColumns, 0.0f);
    }
  }
}

void Panels::assign_transposed(const float* w, int64_t stride, int64_t inner, int64_t columns) {
  reserve(inner, columns);
  constexpr int64_t kStep = 16;  // a cache line of each row
  for (int64_t p = 0; p < panels_of(columns); ++p) {
    float* panel = data_.get() + p * inner * kColumns;
    const int64_t count = std::min(kColumns, columns - p * kColumns);
    const float* rows = w + p * kColumns * stride;
    for (int64_t first = 0; first < inner; first += kStep) {
      const int64_t last = std::min(inner, first + kStep);
      for (int64_t column = 0; column < count; ++column) {
        for (int64_t i = first; i < last; ++i) panel[i * kColumns + column] = rows[column * stride + i];
      }
      for (int64_t i = first; i < last; ++i) std::fill(panel + i * kColumns + count, panel + (i + 1) * kColumns, 0.0f);
    }
  }
}

void multiply(const LeftOperand& a, const Panels& b, float* c, int64_t c_stride, const MultiplyOptions& options) {
  const int64_t inner = options.inner < 0 ? b.inner() : options.inner, first = options.first_column,
                columns = options.columns < 0 ? b.columns() - first : options.columns;
  TF_CHECK(inner <= b.inner() && first % kColumns == 0 && first + columns <= b.columns(),
           "a product over {} and columns {} to {} of panels of {} and {}", inner, first, first + columns, b.inner(),
           b.columns());
  if (a.rows == 0 || columns == 0) return;
  cpu_kernels().multiply({.a = a.data,
                          .panels = b.data() + first * b.inner(),
                          .c = c,
                          .a_stride = a.stride,
                          .c_stride = c_stride,
                          .panel_inner = b.inner(),
                          .rows = a.rows,
                          .inner = inner,
                          .columns = columns,
                          .across = a.across,
                          .add = options.add});
}

}  // namespace tritonforge::kernels
