#pragma once
// The I/O threads of servers and clients. A proxy gives both the same one: a request then passes without a change of
// thread, which costs more than all the rest of its way.
#include <memory>

namespace tritonforge::net {

class IoLoop {
 public:
  explicit IoLoop(int threads = 1);
  void start();  // repeats are fine; not beside stop()
  ~IoLoop();     // stop()
  void stop();   // returns once all that was begun on it has ended; repeats are fine

  struct Impl;  // net/io_loop_impl.h, for net/*.cpp
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::net
