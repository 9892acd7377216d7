#include "evaluate/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tritonforge::evaluate {
namespace {

constexpr std::array<size_t, 10> kSizes = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
constexpr int64_t kMaxElements = int64_t{1} << 40;

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// f(how an element of this type is read as a number).
template <typename F>
auto with_reader(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kFloat64: return f([](const std::byte* at) { return load<double>(at); });
    case Dtype::kFloat32: return f([](const std::byte* at) -> double { return load<float>(at); });
    case Dtype::kFloat16: return f([](const std::byte* at) -> double { return half_to_float(load<uint16_t>(at)); });
    case Dtype::kBFloat16:
      return f([](const std::byte* at) -> double {
        return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(at)) << 16);
      });
    case Dtype::kInt64: return f([](const std::byte* at) { return static_cast<double>(load<int64_t>(at)); });
    case Dtype::kInt32: return f([](const std::byte* at) -> double { return load<int32_t>(at); });
    case Dtype::kInt16: return f([](const std::byte* at) -> double { return load<int16_t>(at); });
    case Dtype::kInt8: return f([](const std::byte* at) -> double { return load<int8_t>(at); });
    case Dtype::kUint8: return f([](const std::byte* at) -> double { return load<uint8_t>(at); });
    case Dtype::kBool: break;
  }
  return f([](const std::byte* at) -> double { return load<uint8_t>(at) != 0; });
}

// Strides in elements of each dimension.
std::vector<int64_t> strides_of(const TensorView& tensor) {
  std::vector<int64_t> strides(tensor.shape.size());
  int64_t step = 1;
  for (size_t i = tensor.order.size(); i-- > 0;) {
    strides[tensor.order[i]] = step;
    step *= tensor.shape[tensor.order[i]];
  }
  return strides;
}

// Walks a tensor in logical order.
class Walker {
 public:
  explicit Walker(const TensorView& tensor)
      : tensor_(tensor), strides_(strides_of(tensor)), index_(tensor.shape.size()), size_(size_of(tensor.dtype)) {}
  const std::byte* at() const { return tensor_.bytes.data() + offset_ * size_; }
  void next() {
    for (size_t d = index_.size(); d-- > 0;) {
      offset_ += strides_[d];
      if (++index_[d] < tensor_.shape[d]) return;
      offset_ -= strides_[d] * tensor_.shape[d];
      index_[d] = 0;
    }
  }

 private:
  const TensorView& tensor_;
  std::vector<int64_t> strides_, index_;
  int64_t offset_ = 0;
  size_t size_;
};

// Walks a tensor in the order of its memory.
class Straight {
 public:
  explicit Straight(const TensorView& tensor) : at_(tensor.bytes.data()), size_(size_of(tensor.dtype)) {}
  const std::byte* at() const { return at_; }
  void next() { at_ += size_; }

 private:
  const std::byte* at_;
  size_t size_;
};

// Of the n-th element in logical order, or in that of the memory.
std::vector<int64_t> index_of(const TensorView& tensor, int64_t n, bool in_memory) {
  std::vector<int64_t> order = tensor.order, index(tensor.shape.size());
  if (!in_memory) std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i-- > 0; n /= tensor.shape[order[i]]) index[order[i]] = n % tensor.shape[order[i]];
  return index;
}

Bounds bounds_of(const Summary& summary, const Tolerance& tolerance) {
  return {.absolute = tolerance.absolute * std::max(1.0, 3 * summary.quartile),
          .relative = tolerance.relative,
          .rms = std::max(0.05 * summary.deviation, tolerance.relative * summary.rms)};
}

std::string text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.6g}", value);
}

}  // namespace

double last_place(const TensorView& tensor, const Bounds& bounds) {
  constexpr std::array<double, 4> kEpsilons = {0x1p-52, 0x1p-23, 0x1p-10, 0x1p-7};
  if (!is_floating(tensor.dtype)) return 0;
  double most = 0;
  with_reader(tensor.dtype, [&](auto read) {
    for (size_t at = 0; at < tensor.bytes.size(); at += size_of(tensor.dtype)) {
      const double value = std::fabs(read(&tensor.bytes[at]));
      if (std::isfinite(value)) most = std::max(most, value);
    }
  });
  return kEpsilons[static_cast<size_t>(tensor.dtype)] * most / (bounds.absolute + bounds.relative * most);
}

std::vector<std::byte> zeros_where_small(const TensorView& tensor, double most) {
  constexpr size_t kFewest = 16, kPart = 64;
  if (tensor.dtype != Dtype::kFloat32 && tensor.dtype != Dtype::kFloat64) return {};
  std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
  const size_t size = size_of(tensor.dtype), count = bytes.size() / size;
  size_t small = 0;
  with_reader(tensor.dtype, [&](auto read) {
    for (size_t at = 0; at < bytes.size(); at += size) {
      const double value = std::fabs(read(&bytes[at]));
      if (!(value > 0 && value <= most)) continue;
      write_element(tensor.dtype, 0, &bytes[at]);
      ++small;
    }
  });
  return small < std::max(kFewest, count / kPart) ? std::vector<std::byte>() : bytes;
}

size_t size_of(Dtype dtype) { return kSizes[static_cast<size_t>(dtype)]; }

int64_t TensorView::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<TensorView> parse_tensors(const Json& described, std::span<const std::byte> payload) {
  if (!described.is_array()) fail(ErrorKind::kCorrupt, "tensors: not a list");
  std::vector<TensorView> tensors;
  size_t at = 0;
  for (const auto& item : described) {
    TensorView tensor;
    try {
      constexpr auto kNames = names_of(Dtype{});
      const auto found = std::find(kNames.begin(), kNames.end(), item.at("dtype").get_ref<const std::string&>());
      if (found == kNames.end()) fail(ErrorKind::kCorrupt, "tensor {}: unknown dtype", tensors.size());
      tensor.dtype = static_cast<Dtype>(found - kNames.begin());
      tensor.shape = item.at("shape").get<std::vector<int64_t>>();
      tensor.order = item.at("order").get<std::vector<int64_t>>();
      const auto bytes = item.at("bytes").get<uint64_t>();
      int64_t elements = 1;
      for (const int64_t size : tensor.shape) {
        if (size < 0 || (size > 0 && elements > kMaxElements / size))
          fail(ErrorKind::kCorrupt, "tensor {}: shape out of range", tensors.size());
        elements *= size;
      }
      std::vector<bool> seen(tensor.shape.size());
      for (const int64_t d : tensor.order) {
        if (d < 0 || d >= static_cast<int64_t>(seen.size()) || seen[d])
          fail(ErrorKind::kCorrupt, "tensor {}: order is not a permutation", tensors.size());
        seen[d] = true;
      }
      if (tensor.order.size() != tensor.shape.size())
        fail(ErrorKind::kCorrupt, "tensor {}: order and shape differ in length", tensors.size());
      if (bytes != static_cast<uint64_t>(elements) * size_of(tensor.dtype) || bytes > payload.size() - at) {
        fail(ErrorKind::kCorrupt, "tensor {}: {} bytes announced, {} left, {} elements", tensors.size(), bytes,
             payload.size() - at, elements);
      }
      tensor.bytes = payload.subspan(at, bytes);
      at += bytes;
    } catch (const nlohmann::json::exception&) {
      fail(ErrorKind::kCorrupt, "tensor {}: a field is missing or has the wrong type", tensors.size());
    }
    tensors.push_back(std::move(tensor));
  }
  if (at != payload.size()) fail(ErrorKind::kCorrupt, "{} bytes of payload beyond the tensors", payload.size() - at);
  return tensors;
}

Tolerance Tolerances::of(Dtype dtype) const {
  switch (dtype) {
    case Dtype::kFloat64: return float64;
    case Dtype::kFloat32: return float32;
    case Dtype::kFloat16:
    case Dtype::kBFloat16: return half;
    default: return {0, 0};
  }
}

Tolerances Tolerances::scaled(double factor) const {
  const auto by = [&](const Tolerance& t) { return Tolerance{t.absolute * factor, t.relative * factor}; };
  return {by(float64), by(float32), by(half)};
}

Summary summary_of(const TensorView& tensor) {
  Summary out;
  const size_t size = size_of(tensor.dtype), count = tensor.bytes.size() / size;
  const size_t every = count / (size_t{1} << 16) + 1;
  double sum = 0, squares = 0;
  std::vector<double> some;
  with_reader(tensor.dtype, [&](auto read) {
    size_t next = 0;  // of `some`
    for (size_t i = 0; i < count; ++i) {
      const double value = read(tensor.bytes.data() + i * size);
      const bool taken = i == next;
      if (taken) next += every;
      if (!std::isfinite(value)) continue;
      if (taken) some.push_back(std::fabs(value));
      ++out.finite;
      sum += value;
      squares += value * value;
    }
  });
  if (out.finite == 0) return out;
  if (!some.empty()) {
    const auto at = some.begin() + static_cast<ptrdiff_t>(some.size() / 4);
    std::nth_element(some.begin(), at, some.end());
    out.quartile = *at;
  }
  const auto n = static_cast<double>(out.finite);
  out.mean = sum / n;
  out.rms = std::sqrt(squares / n);
  out.deviation = out.finite >= 16 ? std::sqrt(std::max(0.0, squares / n - out.mean * out.mean)) : out.rms;
  return out;
}

Bounds bounds_of(const TensorView& reference, const Tolerances& tolerances) {
  return is_floating(reference.dtype) ? bounds_of(summary_of(reference), tolerances.of(reference.dtype)) : Bounds();
}

Json json_of(const std::vector<Bounds>& bounds) {
  Json list = Json::array();
  for (const Bounds& one : bounds) list.push_back({one.absolute, one.relative, one.rms});
  return list;
}

void write_element(Dtype dtype, double value, std::byte* at) {
  const auto store = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case Dtype::kFloat64: return store(value);
    case Dtype::kFloat32: return store(static_cast<float>(value));
    case Dtype::kFloat16: return store(static_cast<_Float16>(value));
    case Dtype::kBFloat16: {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      return store(static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16));
    }
    case Dtype::kInt64: return store(static_cast<int64_t>(value));
    case Dtype::kInt32: return store(static_cast<int32_t>(value));
    case Dtype::kInt16: return store(static_cast<int16_t>(value));
    case Dtype::kInt8: return store(static_cast<int8_t>(value));
    case Dtype::kUint8: return store(static_cast<uint8_t>(value));
    case Dtype::kBool: return store(static_cast<uint8_t>(value != 0));
  }
}

namespace {

// Element by element: error over tolerance, the worst place, and the error's sum. NaN agrees with NaN, an infinity with
// itself. What comes behind the first element that is wrong may not matter.
struct Errors {
  int64_t wrong = 0, finite = 0, worst_at = 0;
  double most = 0, most_ratio = 0, worst = -1, worst_candidate = 0, worst_reference = 0, squares = 0;
  bool constant = true;
};

template <typename Way, typename Read>
Errors errors_of(const TensorView& candidate, const TensorView& reference, const Bounds& bounds, bool to_the_end,
                 Read read) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t count = reference.elements();
  const bool floating = is_floating(reference.dtype), wide_integer = reference.dtype == Dtype::kInt64;
  Errors found;
  double first = 0;
  Way c(candidate), r(reference);
  for (int64_t i = 0; i < count; ++i, c.next(), r.next()) {
    const double a = read(c.at()), b = read(r.at());
    if (i == 0) first = b;
    found.constant = found.constant && (b == first || (std::isnan(b) && std::isnan(first)));
    double ratio;
    if (std::isfinite(a) && std::isfinite(b)) {
      // 64-bit integers beyond 2^53 are compared as such.
      const bool same = wide_integer ? load<int64_t>(c.at()) == load<int64_t>(r.at()) : a == b;
      const double error = std::fabs(a - b);
      found.most = std::max(found.most, error);
      ratio = floating ? error / (bounds.absolute + bounds.relative * std::fabs(b)) : same ? 0 : kInfinity;
      found.squares += error * error;
      ++found.finite;
    } else {
      ratio = (std::isnan(a) && std::isnan(b)) || a == b ? 0 : kInfinity;
    }
    found.most_ratio = std::max(found.most_ratio, ratio);
    if (!(ratio <= 1)) ++found.wrong;
    if (found.wrong > 0 && !to_the_end) break;
    if (ratio > found.worst) {
      found.worst = ratio;
      found.worst_candidate = a;
      found.worst_reference = b;
      found.worst_at = i;
    }
  }
  return found;
}

bool same_order(const TensorView& a, const TensorView& b) { return a.order == b.order; }

Errors errors_of(const TensorView& candidate, const TensorView& reference, const Bounds& bounds, bool to_the_end) {
  return with_reader(reference.dtype, [&](auto read) {
    return same_order(candidate, reference) ? errors_of<Straight>(candidate, reference, bounds, to_the_end, read)
                                            : errors_of<Walker>(candidate, reference, bounds, to_the_end, read);
  });
}

double rms(const Errors& errors) {
  return errors.finite > 0 ? std::sqrt(errors.squares / static_cast<double>(errors.finite)) : 0;
}

// All elements may be within their tolerance, but where the reference itself is small beside that, zeros would be, too:
// the error's rms must be small beside the reference's spread.
bool small_beside_spread(const Errors& errors, const Bounds& bounds) {
  const double error = rms(errors);
  return error <= bounds.rms || error == 0;
}

Bounds bounds_by(const Summary& summary, Dtype dtype, const Tolerances& tolerances) {
  return is_floating(dtype) ? bounds_of(summary, tolerances.of(dtype)) : Bounds();
}

}  // namespace

std::optional<double> error_within(const TensorView& candidate, const TensorView& reference,
                                   const Summary& of_reference, const Tolerances& tolerances) {
  const Bounds bounds = bounds_by(of_reference, reference.dtype, tolerances);
  const Errors errors = errors_of(candidate, reference, bounds, /*to_the_end=*/false);
  if (errors.wrong > 0 || (is_floating(reference.dtype) && !small_beside_spread(errors, bounds))) return std::nullopt;
  return errors.most_ratio;
}

Comparison compare(const TensorView& candidate, const TensorView& reference, const Tolerances& tolerances,
                   const std::string& label) {
  Comparison result;
  // Same shape and dtype, or there is nothing to compare.
  if (candidate.shape != reference.shape) {
    result.mismatch = fmt::format("{} has shape [{}], expected [{}]", label, fmt::join(candidate.shape, ", "),
                                  fmt::join(reference.shape, ", "));
    return result;
  }
  if (candidate.dtype != reference.dtype) {
    result.mismatch = fmt::format("{} has dtype {}, expected {}", label, name_of(candidate.dtype),
                                  name_of(reference.dtype));
    return result;
  }
  const int64_t count = reference.elements();
  const bool floating = is_floating(reference.dtype);
  const Summary summary = floating ? summary_of(reference) : Summary();
  const Bounds bounds = bounds_by(summary, reference.dtype, tolerances);
  const Errors errors = errors_of(candidate, reference, bounds, /*to_the_end=*/true);
  result.max_abs_error = errors.most;
  result.max_rel_error = errors.most_ratio;
  const auto worst = [&] {
    return fmt::format("[{}]: {}, expected {}",
                       fmt::join(index_of(reference, errors.worst_at, same_order(candidate, reference)), ", "),
                       text(errors.worst_candidate), text(errors.worst_reference));
  };
  // A single element beyond its tolerance fails.
  result.constant = errors.constant && count > 16;
  if (errors.wrong > 0) {
    result.mismatch = fmt::format("{} at {} ({} of {} wrong)", label, worst(), errors.wrong, count);
    return result;
  }
  if (floating && !small_beside_spread(errors, bounds)) {
    const double over = bounds.rms > 0 ? rms(errors) / bounds.rms : std::numeric_limits<double>::infinity();
    result.max_rel_error = std::max(result.max_rel_error, over);
    result.mismatch = fmt::format(
        "{}: every element is within {} of the reference, but the error (rms {}) is not small beside the reference "
        "itself (rms {}, spread {}); worst at {}",
        label, text(bounds.absolute), text(rms(errors)), text(summary.rms), text(summary.deviation), worst());
    return result;
  }
  result.passed = true;
  return result;
}

bool identical(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  if (a.order == b.order)
    return a.bytes.size() == b.bytes.size() &&
           (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
  Walker x(a), y(b);
  const size_t size = size_of(a.dtype);
  for (int64_t i = 0, n = a.elements(); i < n; ++i, x.next(), y.next()) {
    if (std::memcmp(x.at(), y.at(), size) != 0) return false;
  }
  return true;
}

}  // namespace tritonforge::evaluate
