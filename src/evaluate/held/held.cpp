// libtritonforge_held.so: holds a program at the point where it opens its input, and lets a copy of it go on from there
// for each input. ptxas spends as long before that point as it does on a small kernel. Preloaded into the program by
// worker/tritonforge_worker/held.py, which says in the environment
//   TRITONFORGE_HELD_INPUT   the path, as the program is given it
//   TRITONFORGE_HELD_SOCKET  the number of a socket: a byte asks for a copy, an int32 answers with its wait status
// The copy finds its input at that path. The program ends with the socket.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

// The program's code, as far as it fills pages of 2 MiB, as memory of its own in such pages: copies have it at once,
// where a file's pages come by one fault for sixteen of them. Where the system refuses, it stays as it is.
void take_code(uintptr_t begin, uintptr_t end) {
  const size_t size = end - begin;
  auto* room = static_cast<std::byte*>(
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (room == MAP_FAILED) return;
  auto* copy = room + (kHugePage - reinterpret_cast<uintptr_t>(room) % kHugePage) % kHugePage;
  madvise(copy, size, MADV_HUGEPAGE);
  std::memcpy(copy, reinterpret_cast<const void*>(begin), size);
  if (mprotect(copy, size, PROT_READ | PROT_EXEC) == 0)
    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(begin));
}

int take_code_of(dl_phdr_info* program, size_t, void*) {
  for (int k = 0; k < program->dlpi_phnum; ++k) {
    const auto& part = program->dlpi_phdr[k];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || (part.p_flags & PF_W) != 0) continue;
    const uintptr_t at = program->dlpi_addr + part.p_vaddr;
    const uintptr_t begin = (at + kHugePage - 1) / kHugePage * kHugePage,
                    end = (at + part.p_filesz) / kHugePage * kHugePage;
    if (begin < end) take_code(begin, end);
  }
  return 1;  // the first is the program
}

// Returns in each copy.
void hold(int socket) {
  // What a copy makes of a kernel's text shall not reach the next one: none may look into this process.
  prctl(PR_SET_DUMPABLE, 0);
  dl_iterate_phdr(take_code_of, nullptr);
  for (char asked; read(socket, &asked, 1) == 1;) {
    const pid_t copy = fork();
    if (copy == 0) {
      close(socket);
      return;
    }
    int32_t status = -1;
    while (copy > 0 && waitpid(copy, &status, 0) < 0 && errno == EINTR) {}
    if (write(socket, &status, sizeof status) != sizeof status) break;
  }
  _exit(0);
}

FILE* open_file(const char* path, const char* mode) {
  static const auto real = reinterpret_cast<FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "fopen"));
  static bool held = false;
  const char* input = std::getenv("TRITONFORGE_HELD_INPUT");
  const char* socket = std::getenv("TRITONFORGE_HELD_SOCKET");
  if (!held && input && socket && std::strcmp(path, input) == 0) {
    held = true;
    hold(std::atoi(socket));
  }
  return real(path, mode);
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) FILE* fopen(const char* path, const char* mode) { return open_file(path, mode); }
__attribute__((visibility("default"))) FILE* fopen64(const char* path, const char* mode) {
  return open_file(path, mode);
}
}
