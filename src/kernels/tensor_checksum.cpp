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

uint64_t on_cpu(const at::Tensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.nbytes()), words = (count + 7) / 8;
  const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
  std::atomic<uint64_t> sum{0};
  const auto part = [&](int64_t begin, int64_t end) {
    const auto size = static_cast<size_t>(std::min(8 * end, count) - 8 * begin);
    sum += checksum_bytes(bytes + 8 * begin, size, static_cast<uint64_t>(begin));
  };
  over_threads(words, kGrain, part, kMostCopying);
  return sum;
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

}  // namespace tritonforge::kernels
