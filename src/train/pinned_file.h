#pragma once
// A safetensors file in shared memory that the GPU writes by itself: mapped and pinned once, then used again for every
// publication that it has room for, at the speed of the bus.
#include <memory>
#include <span>
#include <string>

#include "base/filesystem.h"
#include "kernels/gpu/handles.h"
#include "model/weights.h"

namespace tritonforge::train {

class PinnedFile {
 public:
  // `spare`: its name while it is nobody's. A file of that name is replaced.
  explicit PinnedFile(fs::path spare) : spare_(std::move(spare)) {}
  ~PinnedFile() { drop(); }
  PinnedFile(const PinnedFile&) = delete;
  PinnedFile& operator=(const PinnedFile&) = delete;

  // Writes tensors of a GPU under the spare name and then calls itself `path`. Throws kUnavailable where shared memory
  // is full.
  void write(const model::SafetensorsLayout& layout, const fs::path& path);
  // Back to the spare name; whoever has it open keeps reading it until the next write().
  void retire();
  int64_t capacity() const { return static_cast<int64_t>(bytes_.size()); }
  bool is(const fs::path& path) const { return path_ == path; }
  // Unmapped, and its name forgotten: somebody else's has it now.
  void drop();

 private:
  void make(uint64_t bytes);
  const fs::path spare_;
  fs::path path_;  // now; empty: there is none
  std::span<std::byte> bytes_;
  std::unique_ptr<tritonforge::gpu::PinnedRange> pinned_;
};

}  // namespace tritonforge::train
