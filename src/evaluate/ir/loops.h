#pragma once
// Loops over blocks: one instance for each operation, held type and which operands are a single element.
#include <type_traits>

#include "evaluate/ir/floats.h"
#include "evaluate/ir/machine.h"

namespace tritonforge::evaluate::ir {

using Run = Instruction::Run;

template <typename R>
void finish(const Instruction& i, R* out, int64_t n) {
  if constexpr (std::is_same_v<R, float>) {
    round_all(i.out_kind, out, n);
  } else if constexpr (std::is_same_v<R, uint8_t>) {
    if (i.out_kind == Kind::kI1) {
      for (int64_t k = 0; k < n; ++k) out[k] &= 1;
    }
  }
}

template <typename Op, typename T, typename R>
void unary(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const T* a = m.at<T>(i.in[0]);
  R* out = m.at<R>(i.out[0]);
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) out[k] = Op::of(a[k]);
  finish(i, out, n);
}

template <typename Op, typename T, typename R>
void binary(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const T* a = m.at<T>(i.in[0]);
  const T* b = m.at<T>(i.in[1]);
  R* out = m.at<R>(i.out[0]);
  if ((i.single & 3) == 1) {
    const T x = a[0];
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) out[k] = Op::of(x, b[k]);
  } else if ((i.single & 3) == 2) {
    const T y = b[0];
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) out[k] = Op::of(a[k], y);
  } else {
#pragma GCC ivdep
    for (int64_t k = 0; k < n; ++k) out[k] = Op::of(a[k], b[k]);
  }
  finish(i, out, n);
}

template <typename Op, typename T, typename R>
void ternary(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i), sa = i.single & 1 ? 0 : 1, sb = i.single & 2 ? 0 : 1, sc = i.single & 4 ? 0 : 1;
  const T* a = m.at<T>(i.in[0]);
  const T* b = m.at<T>(i.in[1]);
  const T* c = m.at<T>(i.in[2]);
  R* out = m.at<R>(i.out[0]);
  for (int64_t k = 0; k < n; ++k) out[k] = Op::of(a[k * sa], b[k * sb], c[k * sc]);
  finish(i, out, n);
}

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

}  // namespace tritonforge::evaluate::ir
