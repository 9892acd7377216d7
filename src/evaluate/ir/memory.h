#pragma once
// The memory that kernels see: registered buffers at made-up addresses far apart, so that every address names its
// buffer. Checks bounds, reads of what nobody wrote, and races between the programs of one launch, element by element:
// accesses that no chain of releases and acquires orders (happens-before: Lamport 1978; C++ [intro.races]).
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tritonforge::evaluate::ir {

// What is wrong with an access; the launch goes on (bounds excepted, which end it).
struct Finding {
  enum class Kind { kRace, kUninitialised } kind;
  std::string text;  // one line: kernel, programs, source line, buffer, element
};
std::string_view name_of(Finding::Kind kind);

// How the programs of a launch follow one another. A device may do any of it.
enum class Schedule {
  kDrawn,   // in a random order: what only works in one is found out
  kRising,  // one after the other by their numbers, in which devices begin them
  kAtOnce,  // likewise, and what one stores is not there yet for another that has no order after it
};
constexpr std::array<std::string_view, 3> names_of(Schedule) { return {"drawn", "rising", "at_once"}; }

class Memory {
 public:
  struct Buffer {
    std::string name;
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int granule = 4;                       // bytes of an element, for messages and for what is tracked
    std::vector<uint8_t> written;          // one a granule; empty: all of it is initialised
    std::vector<uint32_t> writer, reader;  // the stretches that did, one a granule; made at the first access
    std::vector<uint32_t> atomic;          // the same for atomics
    std::vector<std::byte> before;         // its bytes when the launch began, where its programs run at once
  };
  // `data` must outlive this object; bytes may be 0.
  int add(std::string name, std::byte* data, int64_t bytes, int granule, bool initialised);
  static constexpr int kBits = 40;  // of an offset within a buffer
  static uint64_t address(int buffer, int64_t offset) {
    return (static_cast<uint64_t>(buffer) + 1) << kBits | static_cast<uint64_t>(offset);
  }
  size_t size() const { return buffers_.size(); }
  Buffer& buffer(size_t index) { return buffers_[index]; }

  // Where a program of a launch is. What it does between two releases is a stretch, which has a number of its own.
  struct Turn {
    uint32_t program = 0, stretch = 0;
    bool released = false;                          // the stretch; what is done next is another one
    std::unordered_map<uint64_t, size_t> acquired;  // address -> how many of the releases there
  };
  // orders: programs look at what atomics found, so that those order them.
  void begin_launch(int64_t programs, bool orders, Schedule schedule = Schedule::kDrawn);
  // The turn is a program's from its begin on, until the next begin; it is taken again whenever another one was.
  void begin(Turn& turn, int64_t program);
  void take(Turn& turn) { turn_ = &turn; }

  enum class Access { kLoad, kStore, kAtomic };
  // The bytes of `count` elements of `size` bytes from `address` on; throws std::out_of_range with the text of a Fault.
  // For a store, `fresh` are the bytes about to be written (a race is flagged only where they differ). Of a load they
  // stay until the next one.
  std::byte* access(Access kind, uint64_t address, int64_t count, int size, const std::byte* fresh = nullptr);
  // What was released at the address is before what the program does from here on.
  void acquire(uint64_t address);
  // What the program has done is before what those do who acquire there from here on. Only of an atomic that changes
  // what is there: of another one nobody can tell whether it was earlier.
  void release(uint64_t address);
  uint64_t changes = 0;  // stores and atomics that changed something, so far

  std::vector<Finding> findings;  // of the launches so far, at most kMaxFindings
  static constexpr size_t kMaxFindings = 16;
  // Called for the text of a finding: kernel and line.
  std::string (*describe)(void*) = nullptr;
  void* describe_data = nullptr;

 private:
  std::byte* loaded(Buffer& buffer, int64_t offset, int64_t bytes, int64_t from, int64_t to);
  void track_load(Buffer& buffer, int64_t from, int64_t to);
  void track_store(Buffer& buffer, int64_t from, int64_t to, int64_t byte, int64_t bytes, const std::byte* fresh);
  void track_atomic(Buffer& buffer, int64_t from, int64_t to);
  void race(Buffer& buffer, int64_t cell, uint32_t other, const char* mine, const char* theirs);
  bool ordered(uint32_t other) const;
  uint32_t program_of(uint32_t stretch) const { return programs_[stretch - first_]; }
  void begin_stretch();
  std::string element(const Buffer& buffer, int64_t byte) const;

  std::vector<Buffer> buffers_;
  // Those at one address, each with its place among them.
  struct Releases {
    struct Release {
      uint32_t stretch;
      size_t place;
    };
    size_t count = 0;
    std::unordered_map<uint32_t, std::vector<Release>> of;  // program -> its own, rising
    std::unordered_map<uint64_t, size_t> acquired;          // what those who released here had acquired elsewhere
  };
  uint32_t first_ = 1;                 // marks of this launch: first_ is of several readers, then its stretches follow
  std::vector<uint32_t> programs_{0};  // whose they are
  bool orders_ = false, at_once_ = false;
  std::vector<std::byte> loaded_;
  Turn* turn_ = nullptr;
  std::unordered_map<uint64_t, Releases> releases_;
  bool flagged_ = false;  // one race a launch is enough
  bool unwritten_flagged_ = false;
};

}  // namespace tritonforge::evaluate::ir
