// Casts between integers, floats and their bits.
#include <bit>
#include <cmath>
#include <limits>

#include "evaluate/ir/loops.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {
namespace {

// Rounds to odd: a second rounding to fewer bits then gives what one rounding of the double would have given.
float towards_odd(double value) {
  const float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || std::isnan(value) || std::isinf(near)) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

// Float to integer as the hardware does it: towards zero, the ends of the range beyond it, 0 of NaN. It has none of 8
// bits: they are the lower ones of 16 (300 to int8 is 44).
template <typename I, typename F>
I saturated(F value) {
  if (value != value) return 0;
  const F above = std::ldexp(F(1), std::numeric_limits<I>::digits);  // the first value that is too large
  if (value >= above) return std::numeric_limits<I>::max();
  if (value <= (std::is_signed_v<I> ? -above : F(0))) return std::numeric_limits<I>::min();
  return static_cast<I>(value);
}

template <typename T, typename R, typename Op>
void convert(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const T* a = m.at<T>(i.in[0]);
  R* out = m.at<R>(i.out[0]);
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) out[k] = Op::template of<R>(a[k]);
  finish(i, out, n);
}
struct Signed {
  template <typename R, typename T>
  static R of(T a) {
    return static_cast<R>(a);
  }
};
struct SignedBit {
  template <typename R, typename T>
  static R of(T a) {
    return a ? static_cast<R>(-1) : R(0);
  }
};
struct AsUnsigned {
  template <typename R, typename T>
  static R of(T a) {
    return static_cast<R>(Unsigned<T>(a));
  }
};
struct NarrowSigned {  // an integer to a float that is narrower than float32
  template <typename R, typename T>
  static R of(T a) {
    return towards_odd(static_cast<double>(a));
  }
};
struct NarrowUnsigned {
  template <typename R, typename T>
  static R of(T a) {
    return towards_odd(static_cast<double>(Unsigned<T>(a)));
  }
};
struct ToSigned {
  template <typename R, typename T>
  static R of(T a) {
    using Reached = std::conditional_t<sizeof(R) == 1, int16_t, R>;
    return static_cast<R>(saturated<Reached>(a));
  }
};
struct ToUnsigned {
  template <typename R, typename T>
  static R of(T a) {
    using Reached = std::conditional_t<sizeof(R) == 1, uint16_t, Unsigned<R>>;
    return static_cast<R>(saturated<Reached>(a));
  }
};
struct NonZero {
  template <typename R, typename T>
  static R of(T a) {
    return a != 0;
  }
};
struct Odd {
  template <typename R, typename T>
  static R of(T a) {
    return towards_odd(a);
  }
};

template <typename T, typename Op>
Run to_integer(Kind to) {
  switch (to) {
    case Kind::kI1: return convert<T, uint8_t, NonZero>;
    case Kind::kI8: return convert<T, int8_t, Op>;
    case Kind::kI16: return convert<T, int16_t, Op>;
    case Kind::kI32: return convert<T, int32_t, Op>;
    case Kind::kI64: return convert<T, int64_t, Op>;
    default: return nullptr;
  }
}
template <typename Op, typename Bit>
Run between_integers(Kind from, Kind to) {
  switch (from) {
    case Kind::kI1: return to_integer<uint8_t, Bit>(to);
    case Kind::kI8: return to_integer<int8_t, Op>(to);
    case Kind::kI16: return to_integer<int16_t, Op>(to);
    case Kind::kI32: return to_integer<int32_t, Op>(to);
    case Kind::kI64: return to_integer<int64_t, Op>(to);
    default: return nullptr;
  }
}
template <typename T, typename Op, typename Narrow>
Run integer_to(Kind to) {
  if (to == Kind::kF64) return convert<T, double, Op>;
  if (to == Kind::kF32) return convert<T, float, Op>;
  return is_float(to) ? convert<T, float, Narrow> : nullptr;
}
template <typename Op, typename Narrow, typename Bit>
Run integer_to_float(Kind from, Kind to) {
  switch (from) {
    case Kind::kI1: return integer_to<uint8_t, Bit, Bit>(to);
    case Kind::kI8: return integer_to<int8_t, Op, Narrow>(to);
    case Kind::kI16: return integer_to<int16_t, Op, Narrow>(to);
    case Kind::kI32: return integer_to<int32_t, Op, Narrow>(to);
    case Kind::kI64: return integer_to<int64_t, Op, Narrow>(to);
    default: return nullptr;
  }
}

// trunci to i1 keeps the lowest bit.
template <typename T>
void lowest_bit(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const T* a = m.at<T>(i.in[0]);
  uint8_t* out = m.at<uint8_t>(i.out[0]);
  for (int64_t k = 0; k < n; ++k) out[k] = static_cast<uint8_t>(a[k] & 1);
}

template <typename T>
void towards_zero(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const T* a = m.at<T>(i.in[0]);
  float* out = m.at<float>(i.out[0]);
  const uint32_t unit = i.out_kind == Kind::kBF16 ? 1u << 16 : 1u << 13;
  for (int64_t k = 0; k < n; ++k) {
    const float value = static_cast<float>(a[k]);
    float rounded = round_to(i.out_kind, value);
    if (std::fabs(rounded) > std::fabs(value)) {
      // One step towards zero; below a half's normal range the steps are 2^-24 apart.
      if (i.out_kind == Kind::kF16 && std::fabs(rounded) < 0x1p-14f) rounded -= std::copysign(0x1p-24f, value);
      else rounded = std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) - unit);
    }
    out[k] = rounded;
  }
}

// Bits of a type that is held wider than it is stored.
void bits_to_float(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  float* out = m.at<float>(i.out[0]);
  for (int64_t k = 0; k < n; ++k) {
    switch (i.out_kind) {
      case Kind::kF16: out[k] = half_to_float(m.at<uint16_t>(i.in[0])[k]); break;
      case Kind::kBF16: out[k] = bf16_to_float(m.at<uint16_t>(i.in[0])[k]); break;
      case Kind::kF8E4M3: out[k] = E4M3::to_float(m.at<uint8_t>(i.in[0])[k]); break;
      default: out[k] = E5M2::to_float(m.at<uint8_t>(i.in[0])[k]); break;
    }
  }
}
void float_to_bits(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const float* a = m.at<float>(i.in[0]);
  for (int64_t k = 0; k < n; ++k) {
    switch (i.kind) {
      case Kind::kF16: m.at<uint16_t>(i.out[0])[k] = half_bits(a[k]); break;
      case Kind::kBF16: m.at<uint16_t>(i.out[0])[k] = bf16_bits(a[k]); break;
      case Kind::kF8E4M3: m.at<uint8_t>(i.out[0])[k] = E4M3::bits(a[k]); break;
      default: m.at<uint8_t>(i.out[0])[k] = E5M2::bits(a[k]); break;
    }
  }
}

Run conversion(std::string_view name, std::string_view rounding, Kind from, Kind to) {
  if (name == "arith.extsi" || name == "arith.index_cast") return between_integers<Signed, SignedBit>(from, to);
  if (name == "arith.extui" || name == "arith.index_castui") return between_integers<AsUnsigned, Signed>(from, to);
  if (name == "arith.trunci") {
    if (to != Kind::kI1) return between_integers<Signed, Signed>(from, to);
    switch (from) {
      case Kind::kI8: return lowest_bit<int8_t>;
      case Kind::kI16: return lowest_bit<int16_t>;
      case Kind::kI32: return lowest_bit<int32_t>;
      case Kind::kI64: return lowest_bit<int64_t>;
      default: return nullptr;
    }
  }
  if (name == "arith.sitofp") return integer_to_float<Signed, NarrowSigned, SignedBit>(from, to);
  if (name == "arith.uitofp") return integer_to_float<AsUnsigned, NarrowUnsigned, Signed>(from, to);
  if (name == "arith.fptosi" && is_float(from))
    return from == Kind::kF64 ? to_integer<double, ToSigned>(to) : to_integer<float, ToSigned>(to);
  if (name == "arith.fptoui" && is_float(from))
    return from == Kind::kF64 ? to_integer<double, ToUnsigned>(to) : to_integer<float, ToUnsigned>(to);
  if (name == "arith.extf" || name == "arith.truncf" || name == "tt.fp_to_fp") {
    if (!is_float(from) || !is_float(to)) return nullptr;
    if (rounding == "rtz" && (to == Kind::kF16 || to == Kind::kBF16))
      return from == Kind::kF64 ? towards_zero<double> : towards_zero<float>;
    if (to == Kind::kF64) return from == Kind::kF64 ? convert<double, double, Signed> : convert<float, double, Signed>;
    if (from == Kind::kF64) return to == Kind::kF32 ? convert<double, float, Signed> : convert<double, float, Odd>;
    return convert<float, float, Signed>;
  }
  if (name == "tt.bitcast" || name == "arith.bitcast") {
    const bool both_wide = is_float(from) && held_size(from) != memory_size(from) && is_float(to);
    if (both_wide && held_size(to) != memory_size(to)) return nullptr;
    if (is_float(to) && held_size(to) != memory_size(to) && memory_size(from) == memory_size(to)) return bits_to_float;
    if (is_float(from) && held_size(from) != memory_size(from) && memory_size(from) == memory_size(to))
      return float_to_bits;
  }
  return nullptr;
}

}  // namespace

Chosen cast(std::string_view name, std::string_view rounding, Kind from, Kind to) {
  return {conversion(name, rounding, from, to), 0, to};
}

}  // namespace tritonforge::evaluate::ir
