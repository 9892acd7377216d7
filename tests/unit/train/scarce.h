#pragma once
// Memory that ends, for tests.
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <new>

namespace tritonforge::train {

// Tensors' memory on the CPU while this lives: a thread that says how many blocks it may still have gets no more.
class Scarce : public c10::Allocator {
 public:
  static constexpr int64_t kPlenty = int64_t{1} << 40;
  explicit Scarce(int64_t blocks = kPlenty) {
    left = blocks;
    c10::SetCPUAllocator(this);
  }
  ~Scarce() override {
    c10::SetCPUAllocator(memory_);
    left = kPlenty;
  }
  c10::DataPtr allocate(size_t bytes) override {
    if (left-- <= 0) throw std::bad_alloc();
    return memory_->allocate(bytes);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  inline static thread_local int64_t left = kPlenty;

 private:
  c10::Allocator* const memory_ = c10::GetCPUAllocator();
};

}  // namespace tritonforge::train
