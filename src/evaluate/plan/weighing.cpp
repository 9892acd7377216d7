#include "evaluate/plan/weighing.h"

#include <algorithm>

#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

// A part at a time: what differs mostly does so in the first one.
bool same(const at::Tensor& a, const at::Tensor& b) {
  constexpr double kTolerance = 1e-3;
  if (a.numel() != b.numel()) return false;
  for (int64_t at = 0; at < a.numel(); at += kElementsAtOnce) {
    const int64_t count = std::min(kElementsAtOnce, a.numel() - at);
    const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, at, count).to(at::kDouble); };
    if (!at::allclose(part(a), part(b), kTolerance, kTolerance, /*equal_nan=*/true)) return false;
  }
  return true;
}

at::Tensor contents_of(const at::Tensor& tensor) { return tensor.clone().flatten(); }

}  // namespace

void Weighing::before(const std::vector<at::Tensor>& bound) {
  before_.clear();
  for (const at::Tensor& tensor : bound) {
    before_.push_back(contents_of(tensor));
    given_.try_emplace(storage_of(tensor), tensor, before_.back());
  }
}

void Weighing::after(const std::vector<at::Tensor>& bound) {
  only_copied_.push_back(std::all_of(bound.begin(), bound.end(), [&](const at::Tensor& tensor) {
    const at::Tensor left = tensor.flatten();
    return std::any_of(before_.begin(), before_.end(), [&](const at::Tensor& given) { return same(left, given); });
  }));
  before_.clear();
}

void Weighing::moved(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& made) {
  const bool of_run = std::any_of(from.begin(), from.end(), [&](const at::Tensor& tensor) {
    const auto found = given_.find(storage_of(tensor));
    if (found == given_.end()) return moved_.contains(storage_of(tensor));
    return !same(found->second.tensor.flatten(), found->second.contents);
  });
  if (!of_run) return;
  for (const at::Tensor& tensor : made) moved_.emplace(storage_of(tensor), tensor);
}

void Weighing::end_run(const std::set<const void*>& used) {
  const bool copied = std::all_of(used.begin(), used.end(), [&](const void* storage) {
    const auto changed = given_.find(storage);
    const auto made = moved_.find(storage);
    if (changed == given_.end() && made == moved_.end()) return true;
    const at::Tensor left = (changed == given_.end() ? made->second : changed->second.tensor).flatten();
    return std::any_of(given_.begin(), given_.end(),
                       [&](const auto& given) { return same(left, given.second.contents); });
  });
  if (copied) std::fill(only_copied_.begin() + static_cast<ptrdiff_t>(first_), only_copied_.end(), true);
  first_ = only_copied_.size();
  given_.clear();
  moved_.clear();
}

}  // namespace tritonforge::evaluate
