#include "train/pinned_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tritonforge::train {

void PinnedFile::make(uint64_t bytes) {
  drop();
  fs::remove(spare_);
  const int fd = ::open(spare_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorKind::kUnavailable, "cannot create {}: {}", spare_.string(), std::strerror(errno));
  path_ = spare_;
  // All of its pages now: one that is missing later would end the process.
  const int full = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* map = full == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = full != 0 ? full : errno;
  ::close(fd);
  if (map == MAP_FAILED) {
    fs::remove(spare_);
    fail(ErrorKind::kUnavailable, "{}: no room for {} MiB: {}", spare_.string(), bytes >> 20, std::strerror(error));
  }
  bytes_ = {static_cast<std::byte*>(map), bytes};
  pinned_ = std::make_unique<gpu::PinnedRange>(bytes_);
}

void PinnedFile::write(const model::SafetensorsLayout& layout, const fs::path& path) {
  if (bytes_.size() != layout.bytes) make(layout.bytes);
  else retire();
  std::memcpy(bytes_.data(), layout.header.data(), layout.header.size());
  const auto& api = gpu::open_cuda_library();
  gpu::check_cuda(api.set_device(layout.tensors.front().second.device().index()));
  const gpu::GpuStream stream;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const at::Tensor& tensor = layout.tensors[i].second;
    gpu::check_cuda(api.copy(bytes_.data() + layout.begins[i], tensor.const_data_ptr(), tensor.nbytes(), stream));
  }
  gpu::check_cuda(api.stream_synchronize(stream));
  fs::rename(path_, path);
  path_ = path;
}

void PinnedFile::retire() {
  if (path_.empty() || path_ == spare_) return;
  fs::rename(path_, spare_);
  path_ = spare_;
}

void PinnedFile::drop() {
  pinned_.reset();
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
  std::error_code error;
  if (path_ == spare_) fs::remove(spare_, error);
  path_.clear();
}

}  // namespace tritonforge::train
