#include "kernels/tensor_checksum.h"

#include <atomic>

#include "base/error.h"
#include "kernels/checksum.h"
#include "kernels/device.h"
#include "kernels/gpu/handles.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

constexpr int64_t kGrain = int64_t{1} << 17;  // words that are worth a thread

// Of `count` bytes, the first of which is in word `first` of the whole.
uint64_t on_cpu(const char* bytes, int64_t count, int64_t first) {
  std::atomic<uint64_t> sum{0};
  const auto part = [&](int64_t begin, int64_t end) {
    const auto size = static_cast<size_t>(std::min(8 * end, count) - 8 * begin);
    sum += checksum_bytes(bytes + 8 * begin, size, static_cast<uint64_t>(first + begin));
  };
  over_threads((count + 7) / 8, kGrain, part, kMostCopying);
  return sum;
}

uint64_t on_cpu(const at::Tensor& tensor) {
  return on_cpu(static_cast<const char*>(tensor.const_data_ptr()), static_cast<int64_t>(tensor.nbytes()), 0);
}

// The kernel reads 16 bytes at once.
bool kernel_can(const at::Tensor& tensor) {
  return tensor.is_cuda() && reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0 && has_gpu_kernels();
}

}  // namespace

std::vector<std::string> tensor_checksums(std::span<const at::Tensor> tensors) {
  std::vector<uint64_t> sums(tensors.size());
  if (tensors.empty()) return {};
  synchronize(tensors[0].device());
  const bool by_kernel = std::ranges::all_of(tensors, kernel_can);
  if (by_kernel) {
    const auto& api = gpu::open_cuda_library();
    gpu::check_cuda(api.set_device(tensors[0].device().index()));
    const gpu::GpuStream stream;
    const gpu::DeviceMemory found(sums.size() * sizeof(uint64_t));
    for (size_t i = 0; i < tensors.size(); ++i)
      gpu::check_cuda(api.checksum(found.as<uint64_t>() + i, tensors[i].const_data_ptr(), tensors[i].nbytes(), stream));
    gpu::check_cuda(api.copy(sums.data(), found.as<void>(), sums.size() * sizeof(uint64_t), stream));
    gpu::check_cuda(api.stream_synchronize(stream));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TF_CHECK(tensors[i].is_contiguous(), "the checksum of a tensor with gaps");
    texts.push_back(fmt::format("{:016x}", by_kernel ? sums[i] : on_cpu(tensors[i].cpu())));
  }
  return texts;
}

uint64_t part_checksum(const at::Tensor& part, const PartPlace& place, const std::string& name) {
  TF_CHECK(part.is_contiguous() && part.device().is_cpu(), "the checksum of a part of '{}' with gaps", name);
  const auto size = static_cast<int64_t>(part.element_size());
  const int64_t rows = part.numel() / place.width, first = place.first * size, width = place.width * size,
                stride = place.stride * size;
  const bool to_the_end = place.first + place.width == place.whole;  // where the last word may be filled up
  if (first % 8 != 0 || (width % 8 != 0 && !to_the_end) || (rows > 1 && stride % 8 != 0)) {
    fail(ErrorKind::kUnsupported,
         "tensor '{}': a part that begins at byte {}, in rows of {} bytes {} apart, is not made of words of 8 bytes",
         name, first, width, stride);
  }
  const auto* bytes = static_cast<const char*>(part.const_data_ptr());
  if (rows == 1) return on_cpu(bytes, width, first / 8);
  std::atomic<uint64_t> sum{0};
  over_threads(
      rows, std::max<int64_t>(1, 8 * kGrain / width),
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          sum += checksum_bytes(bytes + row * width, static_cast<size_t>(width),
                                static_cast<uint64_t>((first + row * stride) / 8));
        }
      },
      kMostCopying);
  return sum;
}

}  // namespace tritonforge::kernels
