// Where the warm Python parent's memory lies, for the sake of its children (worker/tritonforge_worker/inherited.py): a
// fork copies a page table's entry for each page, and its child's end removes it; a large page has one for 512.
#include <sys/mman.h>

#include <cstdint>
#include <vector>

namespace tritonforge::sandbox {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// Memory that begins at a large page's border; null where there is none.
char* aligned(size_t size) {
  void* all = mmap(nullptr, size + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(all);
  char* const from = begin + (kLargePage - reinterpret_cast<uintptr_t>(begin) % kLargePage) % kLargePage;
  if (from != begin) munmap(begin, static_cast<size_t>(from - begin));
  if (from != begin + kLargePage) munmap(from + size, static_cast<size_t>(begin + kLargePage - from));
  return from;
}

// Python asks for its small objects' memory in pieces of 1 MiB, which mmap strews between libraries: here they lie side
// by side. One thread at a time, as Python's own.
class Arenas {
 public:
  void* take(size_t size) {
    if (size == kArena && !free_.empty()) {
      void* const again = free_.back();
      free_.pop_back();
      return again;
    }
    if (size != kArena) return map(size);
    if (next_ == end_) {
      next_ = aligned(kBlock);
      end_ = next_ ? next_ + kBlock : nullptr;
    }
    if (!next_) return nullptr;
    void* const arena = next_;
    next_ += kArena;
    return arena;
  }
  // Those of before this took over are among them.
  void give_back(void* arena, size_t size) {
    if (size == kArena) free_.push_back(arena);
    else munmap(arena, size);
  }

 private:
  static constexpr size_t kArena = size_t{1} << 20, kBlock = size_t{32} << 20;
  static void* map(size_t size) {
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }

  char *next_ = nullptr, *end_ = nullptr;
  std::vector<void*> free_;
};

Arenas arenas;

}  // namespace
}  // namespace tritonforge::sandbox

extern "C" {

// Of Python's PyObjectArenaAllocator.
void* tritonforge_take_arena(void*, size_t size) { return tritonforge::sandbox::arenas.take(size); }
void tritonforge_give_back_arena(void*, void* arena, size_t size) {
  tritonforge::sandbox::arenas.give_back(arena, size);
}
}
