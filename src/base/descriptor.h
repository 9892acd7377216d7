#pragma once
// A file descriptor that is closed with its owner, whatever ends that.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tritonforge {

class Descriptor {
 public:
  Descriptor() = default;                   // of nothing
  explicit Descriptor(int fd) : fd_(fd) {}  // below 0: of nothing
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // to somebody else, who closes it

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};
inline Pipe make_pipe(int flags = O_CLOEXEC) {  // throws kUnavailable
  int ends[2];
  if (::pipe2(ends, flags) != 0) fail(ErrorKind::kUnavailable, "pipe: {}", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace tritonforge
