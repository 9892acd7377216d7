#include "kernels/upload.h"

#include <cstring>

#include "base/error.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {

void Upload::copy(const at::Tensor& target, const at::Tensor& source) {
  const bool rows = !source.is_contiguous() && source.dim() == 2 && source.stride(1) == 1;
  TF_CHECK(target.is_contiguous() && (rows || source.is_contiguous()) && target.nbytes() == source.nbytes() &&
               target.scalar_type() == source.scalar_type(),
           "upload of {} bytes to {}", source.nbytes(), target.nbytes());
  constexpr int64_t kGrain = int64_t{1} << 20;  // bytes that are worth a thread
  const auto& api = gpu::open_cuda_library();
  // One row of all bytes where there are no gaps.
  const size_t row = rows ? static_cast<size_t>(source.size(1)) * source.element_size() : source.nbytes();
  const size_t pitch = rows ? static_cast<size_t>(source.stride(0)) * source.element_size() : row;
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  auto* to = static_cast<std::byte*>(target.mutable_data_ptr());
  for (size_t at = 0; at < source.nbytes(); at += kBytes) {
    Half& half = halves_[turn_++ % halves_.size()];
    half.copied.wait();
    const size_t count = std::min(kBytes, source.nbytes() - at);
    auto* pinned = half.memory.as<std::byte>();
    const auto part = [&](int64_t begin, int64_t end) {
      const size_t last = at + static_cast<size_t>(end);
      for (size_t byte = at + static_cast<size_t>(begin); byte < last;) {
        const size_t piece = std::min(row - byte % row, last - byte);
        std::memcpy(pinned + (byte - at), from + byte / row * pitch + byte % row, piece);
        byte += piece;
      }
    };
    over_threads(static_cast<int64_t>(count), kGrain, part, kMostCopying);
    gpu::check_cuda(api.copy(to + at, pinned, count, stream_));
    half.copied.record(stream_);
  }
}

}  // namespace tritonforge::kernels
