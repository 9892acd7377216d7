#pragma once
// The memory that kernels see: registered buffers at made-up addresses far apart, so that every address names its
// buffer. Checks bounds, reads of what nobody wrote, and races between the programs of one launch, element by element.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tritonforge::evaluate::ir {

// What is wrong with an access; the launch goes on (bounds excepted, which end it).
struct Finding {
  enum class Kind { kRace, kUninitialised } kind;
  std::string text;  // one line: kernel, programs, source line, buffer, element
};
std::string_view name_of(Finding::Kind kind);

class Memory {
 public:
  struct Buffer {
    std::string name;
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int granule = 4;                       // bytes of an element, for messages and for what is tracked
    std::vector<uint8_t> written;          // one a granule; empty: all of it is initialised
    std::vector<uint32_t> writer, reader;  // launch-wide program numbers, one a granule; made at the first access
    std::vector<uint32_t> atomic;          // the same for atomics
  };
  // `data` must outlive this object; bytes may be 0.
  int add(std::string name, std::byte* data, int64_t bytes, int granule, bool initialised);
  static constexpr int kBits = 40;  // of an offset within a buffer
  static uint64_t address(int buffer, int64_t offset) {
    return (static_cast<uint64_t>(buffer) + 1) << kBits | static_cast<uint64_t>(offset);
  }
  size_t size() const { return buffers_.size(); }
  Buffer& buffer(size_t index) { return buffers_[index]; }

  // One program's turn. Numbers of earlier launches are below `first`.
  void begin_launch(int64_t programs);
  void begin_program(int64_t program);

  enum class Access { kLoad, kStore, kAtomic };
  // The bytes of `count` elements of `size` bytes from `address` on; throws std::out_of_range with the text of a Fault.
  // For a store, `fresh` are the bytes about to be written (a race is flagged only where they differ).
  std::byte* access(Access kind, uint64_t address, int64_t count, int size, const std::byte* fresh = nullptr);
  // An atomic whose result the kernel uses: what its earlier visitors did is ordered before this program from here on.
  void synchronise(uint64_t address);

  std::vector<Finding> findings;  // of the launches so far, at most kMaxFindings
  static constexpr size_t kMaxFindings = 16;
  // Called for the text of a finding: kernel and line.
  std::string (*describe)(void*) = nullptr;
  void* describe_data = nullptr;

 private:
  void track_load(Buffer& buffer, int64_t from, int64_t to);
  void track_store(Buffer& buffer, int64_t from, int64_t to, int64_t byte, int64_t bytes, const std::byte* fresh);
  void track_atomic(Buffer& buffer, int64_t from, int64_t to);
  void race(Buffer& buffer, int64_t cell, uint32_t other, const char* mine, const char* theirs);
  bool ordered(uint32_t other) const;
  std::string element(const Buffer& buffer, int64_t byte) const;

  std::vector<Buffer> buffers_;
  uint32_t first_ = 1, many_ = 1, self_ = 0;  // [first_, many_) are this launch's programs
  std::unordered_map<uint64_t, std::unordered_set<uint32_t>> visitors_;
  std::unordered_set<uint32_t> before_me_;
  bool flagged_ = false;  // one race a launch is enough
  bool unwritten_flagged_ = false;
};

}  // namespace tritonforge::evaluate::ir
