#pragma once
// Owners of what the CUDA library makes: memory, a stream, events, graphs. Each frees its own; none is copied.
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "kernels/gpu/cuda_library.h"

namespace tritonforge::gpu {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes) {
    void* made = nullptr;
    check_cuda(open_cuda_library().allocate(&made, bytes));
    memory_.reset(made);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* pointer) const { open_cuda_library().release(pointer); }
  };
  std::unique_ptr<void, Free> memory_;
};

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* made = nullptr;
    check_cuda(open_cuda_library().allocate_pinned(&made, bytes));
    memory_.reset(made);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* pointer) const { open_cuda_library().release_pinned(pointer); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> memory_;
};

// Memory of somebody else's that is pinned for as long as this lives.
class PinnedRange {
 public:
  explicit PinnedRange(std::span<std::byte> bytes) : begin_(bytes.data()) {
    check_cuda(open_cuda_library().pin(begin_, bytes.size()));
  }
  ~PinnedRange() { open_cuda_library().unpin(begin_); }
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  std::byte* begin_;
};

class GpuStream {
 public:
  explicit GpuStream(bool high_priority = false) {
    check_cuda(open_cuda_library().stream_create(&stream_, high_priority ? 1 : 0));
  }
  ~GpuStream() { open_cuda_library().stream_destroy(stream_); }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Stream stream_ = nullptr;
};

class GpuEvent {
 public:
  explicit GpuEvent(bool timing = false) { check_cuda(open_cuda_library().event_create(&event_, timing ? 1 : 0)); }
  ~GpuEvent() { open_cuda_library().event_destroy(event_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(Stream stream) { check_cuda(open_cuda_library().event_record(event_, stream)); }
  void wait() { check_cuda(open_cuda_library().event_synchronize(event_)); }  // at once where never recorded
  bool done() const {
    int done = 0;
    check_cuda(open_cuda_library().event_done(event_, &done));
    return done != 0;
  }
  // From `begin` on; both with timing, and done.
  double seconds_since(const GpuEvent& begin) const {
    float milliseconds = 0;
    check_cuda(open_cuda_library().event_elapsed(begin, event_, &milliseconds));
    return milliseconds / 1e3;
  }
  operator Event() const { return event_; }

 private:
  Event event_ = nullptr;
};

// What the calling thread does until the end of the block, as a profiler shows it.
class GpuRange {
 public:
  explicit GpuRange(const char* name) { open_cuda_library().range_begin(name); }
  ~GpuRange() { open_cuda_library().range_end(); }
  GpuRange(const GpuRange&) = delete;
  GpuRange& operator=(const GpuRange&) = delete;
};

class GpuGraph {
 public:
  GpuGraph() = default;
  GpuGraph(Graph graph, int64_t nodes) : graph_(graph), nodes_(nodes) {}
  GpuGraph(GpuGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)), nodes_(other.nodes_) {}
  GpuGraph& operator=(GpuGraph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(nodes_, other.nodes_);
    return *this;
  }
  ~GpuGraph() {
    if (graph_ != nullptr) open_cuda_library().graph_destroy(graph_);
  }
  explicit operator bool() const { return graph_ != nullptr; }
  void launch(Stream stream) const { check_cuda(open_cuda_library().graph_launch(graph_, stream)); }
  int64_t nodes() const { return nodes_; }

 private:
  Graph graph_ = nullptr;
  int64_t nodes_ = 0;
};

// Its workspace stays the caller's and may be another one between two products.
class GemmHandle {
 public:
  explicit GemmHandle(size_t workspace_bytes) {
    check_cuda(open_cuda_library().gemm_open(&gemm_, nullptr, workspace_bytes));
  }
  void use_workspace(void* workspace) { check_cuda(open_cuda_library().gemm_workspace(gemm_, workspace)); }
  ~GemmHandle() { open_cuda_library().gemm_close(gemm_); }
  GemmHandle(const GemmHandle&) = delete;
  GemmHandle& operator=(const GemmHandle&) = delete;
  operator Gemm*() const { return gemm_; }

 private:
  Gemm* gemm_ = nullptr;
};

}  // namespace tritonforge::gpu
