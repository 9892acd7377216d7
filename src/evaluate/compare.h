#pragma once
// Comparison of raw tensor bytes, in the trusted process and without Python. Formulas:
//   element     |c - r| <= atol max(1, 3 q(r)) + rtol |r|     (NaN with NaN, infinities with the same infinity)
//               q: the lower quartile of |r|, 3 q about the deviation of a normal distribution: sums of large numbers
//               that end near zero may be as wrong as those that do not, and no outlier (a mask's -1e9) makes room
//   scale       rms(c - r) <= max(0.05 std(r), rtol rms(r))   so that zeros, or the mean, do not pass where outputs are
//               small or nearly constant beside atol
// Integers and booleans must be equal.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"

namespace tritonforge::evaluate {

enum class Dtype { kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };
constexpr std::array<std::string_view, 10> names_of(Dtype) {
  return {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"};
}
size_t size_of(Dtype dtype);
constexpr bool is_floating(Dtype dtype) { return dtype <= Dtype::kBFloat16; }

// A dense tensor: `order` lists the dimensions from the outermost in memory to the innermost.
struct TensorView {
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> shape;
  std::vector<int64_t> order;
  std::span<const std::byte> bytes;
  int64_t elements() const;
};
// Reads {"dtype", "shape", "order", "bytes"} with every number checked against the payload's size. The input comes from
// untrusted processes: throws kCorrupt naming what is wrong.
std::vector<TensorView> parse_tensors(const Json& described, std::span<const std::byte> payload);

struct Tolerance {
  double absolute = 0, relative = 0;
};
// KernelBench v0.1's: 1e-4 for float32, 1e-2 for the 16-bit floats; 1e-7 for float64.
struct Tolerances {
  Tolerance float64{1e-7, 1e-7}, float32{1e-4, 1e-4}, half{1e-2, 1e-2};
  Tolerance of(Dtype dtype) const;
  Tolerances scaled(double factor) const;
};

// Of the finite elements.
struct Summary {
  int64_t finite = 0;
  double mean = 0, rms = 0;
  double deviation = 0;  // their standard deviation; rms where they are fewer than 16
  double quartile = 0;   // the lower one of |element|, over at most 65,536 of them, evenly
};
Summary summary_of(const TensorView& tensor);
// What an element and the rms of the error may be, for one expected tensor (the formulas above).
struct Bounds {
  double absolute = 0, relative = 0, rms = 0;
};
// [[absolute, relative, rms]]
Json json_of(const std::vector<Bounds>& bounds);
Bounds bounds_of(const TensorView& reference, const Tolerances& tolerances);
// By how much two answers may differ that are rounded to the tensor's type and right, over what is allowed, at most.
double last_place(const TensorView& tensor, const Bounds& bounds);
// The bytes of a float32 or float64 tensor with zeros for what is not larger than `most`; empty where those are fewer
// than 16 or than a sixty-fourth of its elements, zeros not counted.
std::vector<std::byte> zeros_where_small(const TensorView& tensor, double most);
// `value` as an element of the type, rounded to nearest, integers towards zero. `at` has room for size_of(dtype) bytes.
void write_element(Dtype dtype, double value, std::byte* at);

struct Comparison {
  bool passed = false;
  double max_abs_error = 0;  // worst |c - r| over finite elements
  double max_rel_error = 0;  // worst |c - r| / what is allowed
  bool constant = false;     // the reference has one value everywhere (more than 16 elements)
  std::string mismatch;      // where and what, in one line; empty where it passed
};
// `label` begins the mismatch: "output 0".
Comparison compare(const TensorView& candidate, const TensorView& reference, const Tolerances& tolerances,
                   const std::string& label);
// The error over what is allowed, at most 1, of a candidate of the reference's shape and type that passes; nullopt
// where it does not, found at the first element that is wrong. of_reference: summary_of(reference).
std::optional<double> error_within(const TensorView& candidate, const TensorView& reference,
                                   const Summary& of_reference, const Tolerances& tolerances);

// The same bits, shape and type (inputs after a call).
bool identical(const TensorView& a, const TensorView& b);

}  // namespace tritonforge::evaluate
