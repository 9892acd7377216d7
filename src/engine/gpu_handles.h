#pragma once
// Owners of what the CUDA library makes: memory, a stream, events, graphs. Each frees its own; none is copied.
#include <memory>
#include <utility>

#include "kernels/gpu/cuda_library.h"

namespace tritonforge::engine {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes) {
    void* made = nullptr;
    gpu::check_cuda(gpu::open_cuda_library().allocate(&made, bytes));
    memory_.reset(made);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* pointer) const { gpu::open_cuda_library().release(pointer); }
  };
  std::unique_ptr<void, Free> memory_;
};

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes) : bytes_(bytes) {
    void* made = nullptr;
    gpu::check_cuda(gpu::open_cuda_library().allocate_pinned(&made, bytes));
    memory_.reset(made);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* pointer) const { gpu::open_cuda_library().release_pinned(pointer); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> memory_;
};

class GpuStream {
 public:
  GpuStream() { gpu::check_cuda(gpu::open_cuda_library().stream_create(&stream_, /*high_priority=*/0)); }
  ~GpuStream() { gpu::open_cuda_library().stream_destroy(stream_); }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  operator gpu::Stream() const { return stream_; }

 private:
  gpu::Stream stream_ = nullptr;
};

class GpuEvent {
 public:
  GpuEvent() { gpu::check_cuda(gpu::open_cuda_library().event_create(&event_, /*timing=*/0)); }
  ~GpuEvent() { gpu::open_cuda_library().event_destroy(event_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(gpu::Stream stream) { gpu::check_cuda(gpu::open_cuda_library().event_record(event_, stream)); }
  void wait() { gpu::check_cuda(gpu::open_cuda_library().event_synchronize(event_)); }  // at once where never recorded

 private:
  gpu::Event event_ = nullptr;
};

// What the calling thread does until the end of the block, as a profiler shows it.
class GpuRange {
 public:
  explicit GpuRange(const char* name) { gpu::open_cuda_library().range_begin(name); }
  ~GpuRange() { gpu::open_cuda_library().range_end(); }
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;
};

class GpuGraph {
 public:
  GpuGraph() = default;
  explicit GpuGraph(gpu::Graph graph) : graph_(graph) {}
  GpuGraph(GpuGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  GpuGraph& operator=(GpuGraph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~GpuGraph() {
    if (graph_ != nullptr) gpu::open_cuda_library().graph_destroy(graph_);
  }
  explicit operator bool() const { return graph_ != nullptr; }
  void launch(gpu::Stream stream) const { gpu::check_cuda(gpu::open_cuda_library().graph_launch(graph_, stream)); }

 private:
  gpu::Graph graph_ = nullptr;
};

class GemmHandle {
 public:
  explicit GemmHandle(size_t workspace_bytes) : workspace_(workspace_bytes) {
    gpu::check_cuda(gpu::open_cuda_library().gemm_open(&gemm_, workspace_.as<void>(), workspace_bytes));
  }
  ~GemmHandle() { gpu::open_cuda_library().gemm_close(gemm_); }
  GemmHandle(const GemmHandle&) = delete;
  GemmHandle& operator=(const GemmHandle&) = delete;
  operator gpu::Gemm*() const { return gemm_; }

 private:
  DeviceMemory workspace_;
  gpu::Gemm* gemm_ = nullptr;
};

}  // namespace tritonforge::engine
