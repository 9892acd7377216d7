// Arithmetic, comparisons, selections and libdevice calls.
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "evaluate/ir/loops.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {
namespace {

template <typename T>
void select(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i);
  const uint8_t* c = m.at<uint8_t>(i.in[0]);
  const T* a = m.at<T>(i.in[1]);
  const T* b = m.at<T>(i.in[2]);
  T* out = m.at<T>(i.out[0]);
  const T x = a[0], y = b[0];
  switch (i.single & 7) {
    case 0:
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? a[k] : b[k];
      break;
    case 2:
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? x : b[k];
      break;
    case 4:
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? a[k] : y;
      break;
    case 6:
#pragma GCC ivdep
      for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? x : y;
      break;
    default: {
      const int64_t sc = i.single & 1 ? 0 : 1, sa = i.single & 2 ? 0 : 1, sb = i.single & 4 ? 0 : 1;
      for (int64_t k = 0; k < n; ++k) out[k] = c[k * sc] ? a[k * sa] : b[k * sb];
    }
  }
}

// Integers wrap around; what C++ leaves open follows the hardware: x / 0 is all ones, x % 0 is x, shifts saturate.
#define TF_INTEGER_OP(NAME, EXPRESSION)                                        \
  struct NAME {                                                                \
    template <typename T>                                                      \
    static T of(T a, T b) {                                                    \
      using U [[maybe_unused]] = Unsigned<T>;                                  \
      [[maybe_unused]] constexpr T kBits = 8 * sizeof(T);                      \
      [[maybe_unused]] const U ua = static_cast<U>(a), ub = static_cast<U>(b); \
      return static_cast<T>(EXPRESSION);                                       \
    }                                                                          \
  };
TF_INTEGER_OP(AddI, static_cast<U>(ua + ub))
TF_INTEGER_OP(SubI, static_cast<U>(ua - ub))
TF_INTEGER_OP(MulI, static_cast<uint64_t>(ua) * ub)
TF_INTEGER_OP(DivS, b == 0 ? T(-1) : (std::is_signed_v<T> && b == T(-1)) ? T(U(0) - ua) : T(a / b))
TF_INTEGER_OP(DivU, ub == 0 ? static_cast<U>(-1) : static_cast<U>(ua / ub))
TF_INTEGER_OP(RemS, b == 0 ? a : (std::is_signed_v<T> && b == T(-1)) ? T(0) : T(a % b))
TF_INTEGER_OP(RemU, ub == 0 ? ua : static_cast<U>(ua % ub))
TF_INTEGER_OP(And, ua& ub)
TF_INTEGER_OP(Or, ua | ub)
TF_INTEGER_OP(Xor, ua ^ ub)
TF_INTEGER_OP(Shl, ub >= U(kBits) ? U(0) : static_cast<U>(static_cast<uint64_t>(ua) << ub))
TF_INTEGER_OP(ShrS, ub >= U(kBits) ? T(a < 0 ? -1 : 0) : T(a >> b))
TF_INTEGER_OP(ShrU, ub >= U(kBits) ? U(0) : static_cast<U>(ua >> ub))
TF_INTEGER_OP(MaxS, a > b ? a : b)
TF_INTEGER_OP(MinS, a < b ? a : b)
TF_INTEGER_OP(MaxU, ua > ub ? ua : ub)
TF_INTEGER_OP(MinU, ua < ub ? ua : ub)
#undef TF_INTEGER_OP
struct MulHiU {
  template <typename T>
  static T of(T a, T b) {
    if constexpr (sizeof(T) == 8)
      return static_cast<T>(static_cast<unsigned __int128>(static_cast<uint64_t>(a)) * static_cast<uint64_t>(b) >> 64);
    return static_cast<T>(static_cast<uint64_t>(Unsigned<T>(a)) * static_cast<uint64_t>(Unsigned<T>(b)) >>
                          (8 * sizeof(T) % 64));
  }
};
struct AbsI {
  template <typename T>
  static T of(T a) {
    return a < 0 ? static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a)) : a;
  }
};

struct Popcount {
  template <typename T>
  static int32_t of(T a) {
    return std::popcount(static_cast<std::make_unsigned_t<T>>(a));
  }
};
struct LeadingZeros {
  template <typename T>
  static int32_t of(T a) {
    return std::countl_zero(static_cast<std::make_unsigned_t<T>>(a));
  }
};
struct FirstSet {
  template <typename T>
  static int32_t of(T a) {
    return a == 0 ? 0 : std::countr_zero(static_cast<std::make_unsigned_t<T>>(a)) + 1;
  }
};

#define TF_COMPARE(NAME, EXPRESSION) \
  struct NAME {                      \
    template <typename T>            \
    static uint8_t of(T a, T b) {    \
      return (EXPRESSION) ? 1 : 0;   \
    }                                \
  };
TF_COMPARE(Equal, a == b)
TF_COMPARE(NotEqual, a != b)
TF_COMPARE(Less, a < b)
TF_COMPARE(LessEqual, a <= b)
TF_COMPARE(Greater, a > b)
TF_COMPARE(GreaterEqual, a >= b)
TF_COMPARE(BelowU, Unsigned<T>(a) < Unsigned<T>(b))
TF_COMPARE(BelowEqualU, Unsigned<T>(a) <= Unsigned<T>(b))
TF_COMPARE(AboveU, Unsigned<T>(a) > Unsigned<T>(b))
TF_COMPARE(AboveEqualU, Unsigned<T>(a) >= Unsigned<T>(b))
TF_COMPARE(OrderedNotEqual, a<b || a> b)
TF_COMPARE(Ordered, a == a && b == b)
TF_COMPARE(Unordered, a != a || b != b)
TF_COMPARE(UnorderedEqual, !(a < b || a > b))
TF_COMPARE(UnorderedLess, !(a >= b))
TF_COMPARE(UnorderedLessEqual, !(a > b))
TF_COMPARE(UnorderedGreater, !(a <= b))
TF_COMPARE(UnorderedGreaterEqual, !(a < b))
#undef TF_COMPARE

// Winitzki's approximation, and Newton's steps from there.
double inverse_erf(double a) {
  if (!(std::fabs(a) < 1)) return std::fabs(a) == 1 ? a * INFINITY : NAN;
  constexpr double kFit = 0.147;
  const double log = std::log1p(-a * a), half = 2 / (M_PI * kFit) + log / 2;
  double found = std::copysign(std::sqrt(std::sqrt(half * half - log / kFit) - half), a);
  for (int step = 0; step < 3; ++step) found -= (std::erf(found) - a) * std::exp(found * found) * std::sqrt(M_PI) / 2;
  return found;
}

#define TF_FLOAT_UNARY(NAME, EXPRESSION) \
  struct NAME {                          \
    template <typename T>                \
    static T of(T a) {                   \
      return static_cast<T>(EXPRESSION); \
    }                                    \
  };
#define TF_FLOAT_BINARY(NAME, EXPRESSION) \
  struct NAME {                           \
    template <typename T>                 \
    static T of(T a, T b) {               \
      return static_cast<T>(EXPRESSION);  \
    }                                     \
  };
TF_FLOAT_UNARY(Neg, -a)
TF_FLOAT_UNARY(Exp, std::exp(a))
TF_FLOAT_UNARY(Exp2, std::exp2(a))
TF_FLOAT_UNARY(Exp10, std::pow(T(10), a))
TF_FLOAT_UNARY(Expm1, std::expm1(a))
TF_FLOAT_UNARY(Log, std::log(a))
TF_FLOAT_UNARY(Log2, std::log2(a))
TF_FLOAT_UNARY(Log10, std::log10(a))
TF_FLOAT_UNARY(Log1p, std::log1p(a))
TF_FLOAT_UNARY(Logb, std::logb(a))
TF_FLOAT_UNARY(Sin, std::sin(a))
TF_FLOAT_UNARY(Cos, std::cos(a))
TF_FLOAT_UNARY(Tan, std::tan(a))
TF_FLOAT_UNARY(SinPi, std::sin(static_cast<double>(a) * M_PI))
TF_FLOAT_UNARY(CosPi, std::cos(static_cast<double>(a) * M_PI))
TF_FLOAT_UNARY(Asin, std::asin(a))
TF_FLOAT_UNARY(Acos, std::acos(a))
TF_FLOAT_UNARY(Atan, std::atan(a))
TF_FLOAT_UNARY(Sinh, std::sinh(a))
TF_FLOAT_UNARY(Cosh, std::cosh(a))
TF_FLOAT_UNARY(Tanh, std::tanh(a))
TF_FLOAT_UNARY(Asinh, std::asinh(a))
TF_FLOAT_UNARY(Acosh, std::acosh(a))
TF_FLOAT_UNARY(Atanh, std::atanh(a))
TF_FLOAT_UNARY(Erf, std::erf(a))
TF_FLOAT_UNARY(Erfc, std::erfc(a))
TF_FLOAT_UNARY(NormCdf, 0.5 * std::erfc(-static_cast<double>(a) * M_SQRT1_2))
TF_FLOAT_UNARY(ErfInv, inverse_erf(a))
TF_FLOAT_UNARY(Rcbrt, T(1) / std::cbrt(a))
TF_FLOAT_UNARY(Lgamma, std::lgamma(a))
TF_FLOAT_UNARY(Tgamma, std::tgamma(a))
TF_FLOAT_UNARY(Sqrt, std::sqrt(a))
TF_FLOAT_UNARY(Rsqrt, T(1) / std::sqrt(a))
TF_FLOAT_UNARY(Rcp, T(1) / a)
TF_FLOAT_UNARY(Cbrt, std::cbrt(a))
TF_FLOAT_UNARY(Abs, std::fabs(a))
TF_FLOAT_UNARY(Floor, std::floor(a))
TF_FLOAT_UNARY(Ceil, std::ceil(a))
TF_FLOAT_UNARY(Trunc, std::trunc(a))
TF_FLOAT_UNARY(Rint, std::nearbyint(a))
TF_FLOAT_UNARY(Round, std::round(a))
TF_FLOAT_UNARY(Saturate, a >= T(1) ? T(1) : a > T(0) ? a : T(0))
TF_FLOAT_BINARY(AddF, a + b)
TF_FLOAT_BINARY(SubF, a - b)
TF_FLOAT_BINARY(MulF, a* b)
TF_FLOAT_BINARY(DivF, a / b)
TF_FLOAT_BINARY(RemF, std::fmod(a, b))
TF_FLOAT_BINARY(Remainder, std::remainder(a, b))
TF_FLOAT_BINARY(Pow, std::pow(a, b))
TF_FLOAT_BINARY(Atan2, std::atan2(a, b))
TF_FLOAT_BINARY(Hypot, std::hypot(a, b))
TF_FLOAT_BINARY(Fdim, std::fdim(a, b))
TF_FLOAT_BINARY(CopySign, std::copysign(a, b))
TF_FLOAT_BINARY(NextAfter, std::nextafter(a, b))
// IEEE 754-2019 maximum and minimum (a NaN wins) and maximumNumber and minimumNumber (a number wins); +0 is above -0.
TF_FLOAT_BINARY(Maximum, a != a ? a : b != b ? b : a > b ? a : b > a ? b : (std::signbit(a) ? b : a))
TF_FLOAT_BINARY(Minimum, a != a ? a : b != b ? b : a < b ? a : b < a ? b : (std::signbit(a) ? a : b))
TF_FLOAT_BINARY(MaxNum, a != a ? b : b != b ? a : a > b ? a : b > a ? b : (std::signbit(a) ? b : a))
TF_FLOAT_BINARY(MinNum, a != a ? b : b != b ? a : a < b ? a : b < a ? b : (std::signbit(a) ? a : b))
#undef TF_FLOAT_UNARY
#undef TF_FLOAT_BINARY
struct Fma {
  template <typename T>
  static T of(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct IsNan {
  template <typename T>
  static int32_t of(T a) {
    return a != a;
  }
};
struct IsInf {
  template <typename T>
  static int32_t of(T a) {
    return std::isinf(a);
  }
};
struct IsFinite {
  template <typename T>
  static int32_t of(T a) {
    return std::isfinite(a);
  }
};
struct SignBit {
  template <typename T>
  static int32_t of(T a) {
    return std::signbit(a);
  }
};
struct ToInt {
  template <typename T>
  static int64_t of(T a) {
    return static_cast<int64_t>(std::nearbyint(a));
  }
};

// tt.clampf: min(max(x, low), high); NaN of x is kept only where the operation says so.
template <typename T>
void clamp(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i), sa = i.single & 1 ? 0 : 1, sb = i.single & 2 ? 0 : 1, sc = i.single & 4 ? 0 : 1;
  const T* a = m.at<T>(i.in[0]);
  const T* b = m.at<T>(i.in[1]);
  const T* c = m.at<T>(i.in[2]);
  T* out = m.at<T>(i.out[0]);
  const bool keep = i.detail && i.detail->flag;
  for (int64_t k = 0; k < n; ++k) {
    const T x = a[k * sa];
    out[k] = keep && x != x ? x : MinNum::of(MaxNum::of(x, b[k * sb]), c[k * sc]);
  }
  finish(i, out, n);
}

// ldexp and powi take an integer beside the float.
template <bool kPower>
void with_integer(Machine& m, const Instruction& i) {
  const int64_t n = m.count(i), sa = i.single & 1 ? 0 : 1, sb = i.single & 2 ? 0 : 1;
  const float* a = m.at<float>(i.in[0]);
  const int32_t* b = m.at<int32_t>(i.in[1]);
  float* out = m.at<float>(i.out[0]);
  for (int64_t k = 0; k < n; ++k)
    out[k] = kPower ? static_cast<float>(std::pow(static_cast<double>(a[k * sa]), b[k * sb]))
                    : std::ldexp(a[k * sa], b[k * sb]);
  finish(i, out, n);
}

// How many operands an operation takes is part of its entry: IR from outside may give it fewer.
struct One {
  Run run;
  One(Run chosen) : run(chosen) {}
};
struct Two {
  Run run;
  Two(Run chosen) : run(chosen) {}
};

template <typename Op>
Two on_integers(Kind kind) {
  switch (kind) {
    case Kind::kI1: return binary<Op, uint8_t, uint8_t>;
    case Kind::kI8: return binary<Op, int8_t, int8_t>;
    case Kind::kI16: return binary<Op, int16_t, int16_t>;
    case Kind::kI32: return binary<Op, int32_t, int32_t>;
    case Kind::kI64:
    case Kind::kPointer: return binary<Op, int64_t, int64_t>;
    default: return nullptr;
  }
}
template <typename Op>
Run compare_integers(Kind kind) {
  switch (kind) {
    case Kind::kI1: return binary<Op, uint8_t, uint8_t>;
    case Kind::kI8: return binary<Op, int8_t, uint8_t>;
    case Kind::kI16: return binary<Op, int16_t, uint8_t>;
    case Kind::kI32: return binary<Op, int32_t, uint8_t>;
    case Kind::kI64:
    case Kind::kPointer: return binary<Op, int64_t, uint8_t>;
    default: return nullptr;
  }
}
template <typename Op>
Two on_floats(Kind kind) {
  return !is_float(kind) ? nullptr : kind == Kind::kF64 ? binary<Op, double, double> : binary<Op, float, float>;
}
template <typename Op>
Run compare_floats(Kind kind) {
  return !is_float(kind) ? nullptr : kind == Kind::kF64 ? binary<Op, double, uint8_t> : binary<Op, float, uint8_t>;
}
template <typename Op>
One on_float(Kind kind) {
  return !is_float(kind) ? nullptr : kind == Kind::kF64 ? unary<Op, double, double> : unary<Op, float, float>;
}
template <typename Op, typename R>
One float_test(Kind kind) {
  return !is_float(kind) ? nullptr : kind == Kind::kF64 ? unary<Op, double, R> : unary<Op, float, R>;
}
template <typename Op>
One on_bits(Kind kind) {
  return kind == Kind::kI32 ? unary<Op, int32_t, int32_t> : kind == Kind::kI64 ? unary<Op, int64_t, int32_t> : nullptr;
}

struct Entry {
  Entry() = default;
  Entry(One (*choose)(Kind), float flops = 0, std::optional<Kind> result = {})
      : one(choose), flops(flops), result(result) {}
  Entry(Two (*choose)(Kind), float flops = 0) : two(choose), flops(flops) {}
  Chosen pick(Kind kind, size_t operands) const {
    if (operands == 1 && one) return {one(kind).run, flops, result.value_or(kind)};
    if (operands == 2 && two) return {two(kind).run, flops, kind};
    return {};
  }
  One (*one)(Kind) = nullptr;
  Two (*two)(Kind) = nullptr;
  float flops = 0;
  std::optional<Kind> result;  // where it is not the operands'
};
constexpr float kTranscendental = 4;  // what own_share takes for one: the rate of a GPU's special function unit

const std::unordered_map<std::string_view, Entry>& operations() {
  static const std::unordered_map<std::string_view, Entry> table = {
      {"arith.addi", {on_integers<AddI>}},
      {"arith.subi", {on_integers<SubI>}},
      {"arith.muli", {on_integers<MulI>}},
      {"arith.divsi", {on_integers<DivS>}},
      {"arith.divui", {on_integers<DivU>}},
      {"arith.remsi", {on_integers<RemS>}},
      {"arith.remui", {on_integers<RemU>}},
      {"arith.andi", {on_integers<And>}},
      {"arith.ori", {on_integers<Or>}},
      {"arith.xori", {on_integers<Xor>}},
      {"arith.shli", {on_integers<Shl>}},
      {"arith.shrsi", {on_integers<ShrS>}},
      {"arith.shrui", {on_integers<ShrU>}},
      {"arith.maxsi", {on_integers<MaxS>}},
      {"arith.minsi", {on_integers<MinS>}},
      {"arith.maxui", {on_integers<MaxU>}},
      {"arith.minui", {on_integers<MinU>}},
      {"tt.mulhiui", {on_integers<MulHiU>}},
      {"math.absi", {+[](Kind k) -> One {
         return k == Kind::kI64   ? unary<AbsI, int64_t, int64_t>
                : k == Kind::kI32 ? unary<AbsI, int32_t, int32_t>
                : k == Kind::kI16 ? unary<AbsI, int16_t, int16_t>
                : k == Kind::kI8  ? unary<AbsI, int8_t, int8_t>
                                  : nullptr;
       }}},
      {"arith.addf", {on_floats<AddF>, 1}},
      {"arith.subf", {on_floats<SubF>, 1}},
      {"arith.mulf", {on_floats<MulF>, 1}},
      {"arith.divf", {on_floats<DivF>, 1}},
      {"arith.remf", {on_floats<RemF>, 1}},
      {"arith.negf", {on_float<Neg>, 1}},
      {"arith.maximumf", {on_floats<Maximum>, 1}},
      {"arith.minimumf", {on_floats<Minimum>, 1}},
      {"arith.maxnumf", {on_floats<MaxNum>, 1}},
      {"arith.minnumf", {on_floats<MinNum>, 1}},
      {"tt.precise_divf", {on_floats<DivF>, 1}},
      {"tt.precise_sqrt", {on_float<Sqrt>, kTranscendental}},
      {"math.sqrt", {on_float<Sqrt>, kTranscendental}},
      {"math.rsqrt", {on_float<Rsqrt>, kTranscendental}},
      {"math.exp", {on_float<Exp>, kTranscendental}},
      {"math.exp2", {on_float<Exp2>, kTranscendental}},
      {"math.expm1", {on_float<Expm1>, kTranscendental}},
      {"math.log", {on_float<Log>, kTranscendental}},
      {"math.log2", {on_float<Log2>, kTranscendental}},
      {"math.log10", {on_float<Log10>, kTranscendental}},
      {"math.log1p", {on_float<Log1p>, kTranscendental}},
      {"math.sin", {on_float<Sin>, kTranscendental}},
      {"math.cos", {on_float<Cos>, kTranscendental}},
      {"math.tan", {on_float<Tan>, kTranscendental}},
      {"math.tanh", {on_float<Tanh>, kTranscendental}},
      {"math.erf", {on_float<Erf>, kTranscendental}},
      {"math.absf", {on_float<Abs>, 1}},
      {"math.floor", {on_float<Floor>, 1}},
      {"math.ceil", {on_float<Ceil>, 1}},
      {"math.trunc", {on_float<Trunc>, 1}},
      {"math.round", {on_float<Round>, 1}},
      {"math.roundeven", {on_float<Rint>, 1}},
      {"math.copysign", {on_floats<CopySign>, 1}},
      {"math.powf", {on_floats<Pow>, kTranscendental}},
  };
  return table;
}

// libdevice and ocml functions by name without prefix and type suffix.
const std::unordered_map<std::string_view, Entry>& externals() {
  constexpr float t = kTranscendental;
  static const std::unordered_map<std::string_view, Entry> table = {
      {"abs", {on_float<Abs>, 1}},
      {"fabs", {on_float<Abs>, 1}},
      {"acos", {on_float<Acos>, t}},
      {"acosh", {on_float<Acosh>, t}},
      {"asin", {on_float<Asin>, t}},
      {"asinh", {on_float<Asinh>, t}},
      {"atan", {on_float<Atan>, t}},
      {"atan2", {on_floats<Atan2>, t}},
      {"atanh", {on_float<Atanh>, t}},
      {"cbrt", {on_float<Cbrt>, t}},
      {"ceil", {on_float<Ceil>, 1}},
      {"copysign", {on_floats<CopySign>, 1}},
      {"cos", {on_float<Cos>, t}},
      {"cosh", {on_float<Cosh>, t}},
      {"cospi", {on_float<CosPi>, t}},
      {"div_rn", {on_floats<DivF>, 1}},
      {"erf", {on_float<Erf>, t}},
      {"erfc", {on_float<Erfc>, t}},
      {"exp", {on_float<Exp>, t}},
      {"exp10", {on_float<Exp10>, t}},
      {"exp2", {on_float<Exp2>, t}},
      {"expm1", {on_float<Expm1>, t}},
      {"fdim", {on_floats<Fdim>, 1}},
      {"floor", {on_float<Floor>, 1}},
      {"fmax", {on_floats<MaxNum>, 1}},
      {"fmin", {on_floats<MinNum>, 1}},
      {"fmod", {on_floats<RemF>, 1}},
      {"hypot", {on_floats<Hypot>, t}},
      {"isnan", {float_test<IsNan, int32_t>, 1, Kind::kI32}},
      {"isinf", {float_test<IsInf, int32_t>, 1, Kind::kI32}},
      {"finite", {float_test<IsFinite, int32_t>, 1, Kind::kI32}},
      {"isfinited", {float_test<IsFinite, int32_t>, 1, Kind::kI32}},
      {"signbit", {float_test<SignBit, int32_t>, 1, Kind::kI32}},
      {"erfinv", {on_float<ErfInv>, t}},
      {"rcbrt", {on_float<Rcbrt>, t}},
      {"lgamma", {on_float<Lgamma>, t}},
      {"log", {on_float<Log>, t}},
      {"log10", {on_float<Log10>, t}},
      {"log1p", {on_float<Log1p>, t}},
      {"log2", {on_float<Log2>, t}},
      {"logb", {on_float<Logb>, 1}},
      {"nearbyint", {on_float<Rint>, 1}},
      {"nextafter", {on_floats<NextAfter>, 1}},
      {"normcdf", {on_float<NormCdf>, t}},
      {"pow", {on_floats<Pow>, t}},
      {"rcp_rn", {on_float<Rcp>, 1}},
      {"remainder", {on_floats<Remainder>, 1}},
      {"rint", {on_float<Rint>, 1}},
      {"round", {on_float<Round>, 1}},
      {"rsqrt", {on_float<Rsqrt>, t}},
      {"saturate", {on_float<Saturate>, 1}},
      {"sin", {on_float<Sin>, t}},
      {"sinh", {on_float<Sinh>, t}},
      {"sinpi", {on_float<SinPi>, t}},
      {"sqrt", {on_float<Sqrt>, t}},
      {"sqrt_rn", {on_float<Sqrt>, t}},
      {"tan", {on_float<Tan>, t}},
      {"tanh", {on_float<Tanh>, t}},
      {"tgamma", {on_float<Tgamma>, t}},
      {"trunc", {on_float<Trunc>, 1}},
      {"add_rn", {on_floats<AddF>, 1}},
      {"sub_rn", {on_floats<SubF>, 1}},
      {"mul_rn", {on_floats<MulF>, 1}},
      {"fast_exp", {on_float<Exp>, t}},
      {"fast_log", {on_float<Log>, t}},
      {"fast_log2", {on_float<Log2>, t}},
      {"fast_log10", {on_float<Log10>, t}},
      {"fast_sin", {on_float<Sin>, t}},
      {"fast_cos", {on_float<Cos>, t}},
      {"fast_tan", {on_float<Tan>, t}},
      {"fast_tanh", {on_float<Tanh>, t}},
      {"fast_pow", {on_floats<Pow>, t}},
      {"fast_divide", {on_floats<DivF>, 1}},
      {"fast_fdivide", {on_floats<DivF>, 1}},
      {"fast_exp10", {on_float<Exp10>, t}},
      {"llrint", {float_test<ToInt, int64_t>, 1, Kind::kI64}},
      {"popc", {on_bits<Popcount>, 0, Kind::kI32}},
      {"popcll", {on_bits<Popcount>, 0, Kind::kI32}},
      {"clz", {on_bits<LeadingZeros>, 0, Kind::kI32}},
      {"clzll", {on_bits<LeadingZeros>, 0, Kind::kI32}},
      {"ffs", {on_bits<FirstSet>, 0, Kind::kI32}},
      {"ffsll", {on_bits<FirstSet>, 0, Kind::kI32}},
  };
  return table;
}

Entry external(std::string_view symbol) {
  for (const std::string_view prefix : {"__nv_", "__ocml_"}) {
    if (symbol.starts_with(prefix)) symbol.remove_prefix(prefix.size());
  }
  for (const std::string_view suffix : {"_f32", "_f64", "_f16"}) {
    if (symbol.ends_with(suffix)) symbol.remove_suffix(suffix.size());
  }
  const auto found = externals().find(symbol);
  if (found != externals().end()) return found->second;
  if (symbol.ends_with('f') || symbol == "isnand" || symbol == "isinfd" || symbol == "signbitd") {
    const auto shorter = externals().find(symbol.substr(0, symbol.size() - 1));
    if (shorter != externals().end()) return shorter->second;
  }
  return {};
}

Run comparison(std::string_view name, std::string_view predicate, Kind kind) {
  static const std::unordered_map<std::string_view, Run (*)(Kind)> integers = {
      {"eq", compare_integers<Equal>},    {"ne", compare_integers<NotEqual>},
      {"slt", compare_integers<Less>},    {"sle", compare_integers<LessEqual>},
      {"sgt", compare_integers<Greater>}, {"sge", compare_integers<GreaterEqual>},
      {"ult", compare_integers<BelowU>},  {"ule", compare_integers<BelowEqualU>},
      {"ugt", compare_integers<AboveU>},  {"uge", compare_integers<AboveEqualU>}};
  static const std::unordered_map<std::string_view, Run (*)(Kind)> floats = {
      {"oeq", compare_floats<Equal>},
      {"one", compare_floats<OrderedNotEqual>},
      {"olt", compare_floats<Less>},
      {"ole", compare_floats<LessEqual>},
      {"ogt", compare_floats<Greater>},
      {"oge", compare_floats<GreaterEqual>},
      {"ord", compare_floats<Ordered>},
      {"uno", compare_floats<Unordered>},
      {"ueq", compare_floats<UnorderedEqual>},
      {"une", compare_floats<NotEqual>},
      {"ult", compare_floats<UnorderedLess>},
      {"ule", compare_floats<UnorderedLessEqual>},
      {"ugt", compare_floats<UnorderedGreater>},
      {"uge", compare_floats<UnorderedGreaterEqual>}};
  const auto& table = name == "arith.cmpi" ? integers : floats;
  const auto found = table.find(predicate);
  return found == table.end() ? nullptr : found->second(kind);
}

Run selection(Kind kind) {
  switch (kind == Kind::kTuple ? 0 : held_size(kind)) {
    case 1: return select<uint8_t>;
    case 2: return select<uint16_t>;
    case 4: return select<uint32_t>;
    case 8: return select<uint64_t>;
    default: return nullptr;
  }
}

}  // namespace

Chosen elementwise(std::string_view name, std::string_view word, Kind kind, size_t operands) {
  if (name == "arith.cmpi" || name == "arith.cmpf")
    return {operands == 2 ? comparison(name, word, kind) : nullptr, name == "arith.cmpf" ? 1.0f : 0.0f, Kind::kI1};
  if (name == "arith.select") return {operands == 3 ? selection(kind) : nullptr, 0, kind};
  if (name == "math.fma")
    return {operands != 3 || !is_float(kind) ? nullptr
            : kind == Kind::kF64             ? ternary<Fma, double, double>
                                             : ternary<Fma, float, float>,
            2, kind};
  if (name == "tt.clampf")
    return {operands != 3 || !is_float(kind) ? nullptr : kind == Kind::kF64 ? clamp<double> : clamp<float>, 2, kind};
  if (name == "tt.extern_elementwise") {
    if (word.find("fma") != std::string_view::npos && operands == 3) return elementwise("math.fma", "", kind, 3);
    if (word.find("ldexp") != std::string_view::npos && operands == 2 && kind == Kind::kF32)
      return {with_integer<false>, 1, kind};
    if (word.find("powi") != std::string_view::npos && operands == 2 && kind == Kind::kF32)
      return {with_integer<true>, kTranscendental, kind};
    return external(word).pick(kind, operands);
  }
  const auto found = operations().find(name);
  return found == operations().end() ? Chosen{} : found->second.pick(kind, operands);
}

}  // namespace tritonforge::evaluate::ir
