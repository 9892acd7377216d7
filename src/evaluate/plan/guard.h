#pragma once
// Memory between two canaries: a write beyond a buffer's ends shows when they are looked at. Works on any device of
// libtorch's.
//   [shift + 64 KiB of canary | the bytes, padded with canary to 16 | 64 KiB of canary]
// The canary is a NaN in every float type, so that what reads beyond an end is wrong, too.
#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tritonforge::evaluate {

inline constexpr int64_t kGuardBytes = 64 << 10;

class GuardedMemory {
 public:
  explicit GuardedMemory(uint64_t seed = 0) : seed_(seed) {}
  // The tensor's storage moved between canaries, at an address that the seed shifts by multiples of 256 bytes; sizes,
  // strides and offset stay. What is not initialised is not copied.
  at::Tensor move(const at::Tensor& tensor, bool copy);
  struct Damage {
    size_t buffer;       // in the order of move()
    int64_t first_byte;  // of the write, from the buffer's begin; negative before it
  };
  // Those whose canaries changed since they were made. One wait for the device.
  std::vector<Damage> damaged() const;
  // What the buffer of a tensor is called from now on; other tensors have none here.
  void name(const at::Tensor& tensor, const std::string& name);
  // "" or the first damage in words: "it wrote out of bounds of 'y', 8 bytes after its begin".
  std::string damage_text() const;

 private:
  struct Buffer {
    at::Tensor block;    // int32 words
    int64_t begin, end;  // bytes of the buffer in it
    std::string name;
  };
  uint64_t seed_;
  std::vector<Buffer> buffers_;
  std::unordered_map<const void*, size_t> by_storage_;  // of the moved tensors -> buffers_
};

}  // namespace tritonforge::evaluate
