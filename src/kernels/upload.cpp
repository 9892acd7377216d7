#include "kernels/upload.h"

#include <cstring>

#include "base/error.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {

void Upload::copy(const at::Tensor& target, const at::Tensor& source) {
  TF_CHECK(target.is_contiguous() && source.is_contiguous() && target.nbytes() == source.nbytes() &&
               target.scalar_type() == source.scalar_type(),
           "upload of {} bytes to {}", source.nbytes(), target.nbytes());
  constexpr int64_t kGrain = int64_t{1} << 20;  // bytes that are worth a thread
  const auto& api = gpu::open_cuda_library();
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  auto* to = static_cast<std::byte*>(target.mutable_data_ptr());
  for (size_t at = 0; at < source.nbytes(); at += kBytes) {
    Half& half = halves_[turn_++ % halves_.size()];
    half.copied.wait();
    const size_t count = std::min(kBytes, source.nbytes() - at);
    auto* pinned = half.memory.as<std::byte>();
    const auto part = [&](int64_t begin, int64_t end) {
      std::memcpy(pinned + begin, from + at + begin, static_cast<size_t>(end - begin));
    };
    over_threads(static_cast<int64_t>(count), kGrain, part, kMostCopying);
    gpu::check_cuda(api.copy(to + at, pinned, count, stream_));
    half.copied.record(stream_);
  }
}

}  // namespace tritonforge::kernels
