#include "evaluate/plan/drawn.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

// What one part of two tensors shows of the whole.
struct Part {
  double wrong = 0, worst = -1, max_abs = 0, squares = 0, finite = 0;
  int64_t worst_at = 0;
};

at::Tensor none_of(const at::Tensor& like) { return at::zeros({}, like.options()); }

// `mine`, `theirs`: the same elements of both, flat, as the dtype has them.
Part part_of(const at::Tensor& mine, const at::Tensor& theirs, const Bounds& bounds) {
  const auto widened = [](const at::Tensor& tensor) { return tensor.to(at::kDouble, false, /*copy=*/true); };
  const at::Tensor a = widened(mine), b = widened(theirs);
  const at::Tensor finite = a.isfinite().logical_and_(b.isfinite());
  const at::Tensor none = none_of(a), error = at::where(finite, a.sub(b).abs_(), none);
  const bool floating = at::isFloatingType(mine.scalar_type());
  // Over what is allowed; integers are compared as such, and what is no number agrees with itself.
  const at::Tensor same = floating ? a.eq(b).logical_or_(a.isnan().logical_and_(b.isnan())) : mine.eq(theirs);
  const at::Tensor infinite = at::full({}, std::numeric_limits<double>::infinity(), a.options());
  at::Tensor ratio = at::where(same, none, infinite);
  if (floating) ratio = at::where(finite, error.div(b.abs().mul_(bounds.relative).add_(bounds.absolute)), ratio);
  const at::Tensor worst_at = ratio.argmax();
  const at::Tensor found = at::stack({ratio.le(1).logical_not_().sum().to(at::kDouble), ratio.max(), error.max(),
                                      error.square().sum(), finite.sum().to(at::kDouble), worst_at.to(at::kDouble)})
                               .cpu();
  for (const at::Tensor& tensor : {a, b}) wipe(tensor);
  const double* value = found.const_data_ptr<double>();
  return {value[0], value[1], value[2], value[3], value[4], static_cast<int64_t>(value[5])};
}

// What became a copy in being flattened is wiped, as its origin will be.
struct Copies {
  const at::Tensor &output, &a, &expected, &b;
  ~Copies() {
    if (!a.is_alias_of(output)) wipe(a);
    if (!b.is_alias_of(expected)) wipe(b);
  }
};

std::string text_of(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value); }

std::vector<int64_t> index_of(int64_t at, at::IntArrayRef shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = at % shape[d];
    at /= shape[d];
  }
  return index;
}

}  // namespace

Comparison compare(const at::Tensor& output, const at::Tensor& expected, const Bounds& bounds,
                   const std::string& label) {
  Comparison result;
  if (output.sizes() != expected.sizes()) {
    result.mismatch = fmt::format("{} has shape [{}], expected [{}]", label, fmt::join(output.sizes(), ", "),
                                  fmt::join(expected.sizes(), ", "));
    return result;
  }
  if (output.scalar_type() != expected.scalar_type()) {
    const auto name = [](const at::Tensor& tensor) {
      const auto dtype = dtype_of(tensor.scalar_type());
      return dtype ? std::string(name_of(*dtype)) : std::string(c10::toString(tensor.scalar_type()));
    };
    result.mismatch = fmt::format("{} has dtype {}, expected {}", label, name(output), name(expected));
    return result;
  }
  const at::Tensor a = output.reshape(-1), b = expected.reshape(-1);
  const Copies copies{output, a, expected, b};
  Part whole;
  for (int64_t at = 0; at < a.numel(); at += kElementsAtOnce) {
    const int64_t count = std::min(kElementsAtOnce, a.numel() - at);
    const Part part = part_of(a.narrow(0, at, count), b.narrow(0, at, count), bounds);
    whole.wrong += part.wrong;
    whole.squares += part.squares;
    whole.finite += part.finite;
    whole.max_abs = std::max(whole.max_abs, part.max_abs);
    if (part.worst > whole.worst) {
      whole.worst = part.worst;
      whole.worst_at = at + part.worst_at;
    }
  }
  result.max_abs_error = whole.max_abs;
  result.max_rel_error = std::max(0.0, whole.worst);
  const auto value = [&](const at::Tensor& flat) { return text_of(flat[whole.worst_at].item<double>()); };
  if (whole.wrong > 0) {
    result.mismatch = fmt::format("{} at [{}]: {}, expected {} ({} of {} wrong)", label,
                                  fmt::join(index_of(whole.worst_at, output.sizes()), ", "), value(a), value(b),
                                  static_cast<int64_t>(whole.wrong), a.numel());
    return result;
  }
  const double rms = whole.finite > 0 ? std::sqrt(whole.squares / whole.finite) : 0;
  if (at::isFloatingType(output.scalar_type()) && rms > 0 && !(rms <= bounds.rms)) {
    result.max_rel_error = std::max(result.max_rel_error, rms / bounds.rms);
    result.mismatch = fmt::format(
        "{}: every element is within {} of the reference, but the error (rms {}) is not small beside the reference "
        "itself; worst at [{}]: {}, expected {}",
        label, text_of(bounds.absolute), text_of(rms), fmt::join(index_of(whole.worst_at, output.sizes()), ", "),
        value(a), value(b));
    return result;
  }
  result.passed = true;
  return result;
}

DrawnProblem::DrawnProblem(std::unique_ptr<Replayer> inputs, std::unique_ptr<Replayer> reference,
                           std::vector<int64_t> fractions)
    : inputs_(std::move(inputs)), reference_(std::move(reference)), fractions_(std::move(fractions)) {}

std::vector<at::Tensor> DrawnProblem::inputs(uint64_t seed) {
  return inputs_->run({}, {.forward_seed = seed, .guard = false}).outputs;
}

Finished DrawnProblem::expected(uint64_t seed, uint64_t forward_seed) {
  reference_->forget_copies();
  return reference_->run(inputs(seed), {.forward_seed = forward_seed, .guard = false});
}

ReplayedTensor DrawnProblem::sample(const at::Tensor& tensor) const {
  const int64_t count = tensor.numel();
  if (count <= kSampled) return bytes_of(tensor.reshape(-1));
  const at::Tensor fractions = at::from_blob(const_cast<int64_t*>(fractions_.data()),
                                             {static_cast<int64_t>(fractions_.size())}, at::kLong);
  return bytes_of(tensor.take(fractions.mul(count).bitwise_right_shift(32).to(tensor.device())));
}

}  // namespace tritonforge::evaluate
