#include "evaluate/plan/sealed.h"

#include <c10/util/strides.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "evaluate/plan/sealed_words.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {
namespace {

static_assert(sizeof(sealed::Difference) == 3 * sizeof(int64_t));

constexpr int64_t kMostBlocks = 1024;  // several for each multiprocessor

sealed::Kind kind_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return sealed::kReal64;
    case at::kFloat: return sealed::kReal32;
    case at::kHalf: return sealed::kHalf;
    case at::kBFloat16: return sealed::kBFloat16;
    default: return sealed::kBytes;
  }
}

void run_on_cpu(const Sealer::Run& run) {
  auto* words = static_cast<sealed::Words*>(run.words.mutable_data_ptr());
  auto* found = static_cast<sealed::Difference*>(run.found);
  const auto bytes = static_cast<uint64_t>(run.bytes);
  for (uint64_t block = 0; 16 * block < bytes; ++block) {
    const sealed::Words other = sealed::masked(words[block], run.seed, block);
    if (run.computed == nullptr) words[block] = other;
    else
      sealed::compare(*found, other, run.computed, block, bytes, static_cast<sealed::Kind>(run.kind),
                      run.bounds.absolute, run.bounds.relative);
  }
}

}  // namespace

Sealer::Sealer(std::span<const std::byte> cubin, KernelShape shape)
    : kernel_(std::make_unique<GpuKernel>(cubin, std::move(shape))) {}

void Sealer::run(const Run& run) const {
  if (run.words.is_cpu()) return run_on_cpu(run);
  if (!kernel_) fail(ErrorKind::kUsage, "timing: no kernel was sent that compares on a device");
  const void* words = run.words.mutable_data_ptr();
  uint64_t bytes = static_cast<uint64_t>(run.bytes), seed = run.seed;
  int kind = run.kind;
  double absolute = run.bounds.absolute, relative = run.bounds.relative;
  const void* computed = run.computed;
  void* found = run.found;
  std::vector<void*> arguments{&words, &bytes, &seed, &computed, &kind, &absolute, &relative, &found};
  const int64_t threads = kernel_->shape().threads()[0];
  const int64_t blocks = std::min(kMostBlocks, (run.words.size(0) + threads - 1) / threads);
  kernel_->launch({blocks, 1, 1}, arguments);
}

SealedTensor::SealedTensor(const Sealer& sealer, const at::Tensor& tensor, const Bounds& bounds, uint64_t seed)
    : sizes_(tensor.sizes().vec()),
      strides_(tensor.is_non_overlapping_and_dense() ? tensor.strides().vec()
                                                     : at::IntArrayRef(c10::contiguous_strides(sizes_)).vec()),
      type_(tensor.scalar_type()),
      bytes_(static_cast<int64_t>(tensor.nbytes())),
      bounds_(bounds),
      seed_(seed) {
  words_ = at::zeros({(bytes_ + 15) / 16, 4}, tensor.options().dtype(at::kInt));
  if (bytes_ == 0) return;
  at::for_blob(words_.mutable_data_ptr(), sizes_)
      .strides(strides_)
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor()
      .copy_(tensor);
  sealer.run({.words = words_, .bytes = bytes_, .seed = seed_});
}

bool SealedTensor::may_be(const at::Tensor& output) const {
  return output.sizes() == at::IntArrayRef(sizes_) && output.scalar_type() == type_;
}

SealedOutputs::SealedOutputs(const Sealer& sealer, const std::vector<at::Tensor>& outputs,
                             const std::vector<Bounds>& bounds, uint64_t seed) {
  if (bounds.size() != outputs.size()) fail(ErrorKind::kUsage, "timing: bounds for other outputs");
  for (size_t k = 0; k < outputs.size(); ++k)
    tensors_.emplace_back(sealer, outputs[k], bounds[k], Rng::derive(seed, k) >> 1);
}

SealedOutputs::Comparison SealedOutputs::compare(const Sealer& sealer, const std::vector<at::Tensor>& outputs) const {
  Comparison comparison;
  comparison.expected_ = this;
  if (outputs.size() != tensors_.size()) return comparison;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!tensors_[k].may_be(outputs[k])) return comparison;
  }
  const at::Tensor found = at::zeros({static_cast<int64_t>(outputs.size()), 3},
                                     (outputs.empty() ? at::TensorOptions() : outputs[0].options()).dtype(at::kLong));
  for (size_t k = 0; k < outputs.size(); ++k) {
    const SealedTensor& expected = tensors_[k];
    if (expected.bytes_ == 0) continue;
    at::Tensor alike = outputs[k];
    const bool moved = alike.strides() != at::IntArrayRef(expected.strides_);
    if (moved) alike = at::empty_strided(expected.sizes_, expected.strides_, alike.options()).copy_(alike);
    sealer.run({.words = expected.words_,
                .bytes = expected.bytes_,
                .seed = expected.seed_,
                .computed = alike.const_data_ptr(),
                .kind = kind_of(expected.type_),
                .bounds = expected.bounds_,
                .found = found[static_cast<int64_t>(k)].mutable_data_ptr()});
    if (moved) wipe(alike);
  }
  comparison.found_ = found;
  return comparison;
}

bool SealedOutputs::Comparison::right() const {
  if (!found_.defined()) return false;
  const at::Tensor here = found_.cpu();
  std::vector<sealed::Difference> each(expected_->tensors_.size());
  if (!each.empty()) std::memcpy(each.data(), here.const_data_ptr(), here.nbytes());
  for (size_t k = 0; k < each.size(); ++k) {
    const double rms = each[k].finite > 0 ? std::sqrt(each[k].squares / static_cast<double>(each[k].finite)) : 0;
    const bool floating = at::isFloatingType(expected_->tensors_[k].type_);
    if (each[k].wrong > 0 || (floating && rms > 0 && !(rms <= expected_->tensors_[k].bounds_.rms))) return false;
  }
  return true;
}

}  // namespace tritonforge::evaluate
