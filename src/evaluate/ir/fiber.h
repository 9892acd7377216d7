#pragma once
// A function with a stack of its own, which gives way in its middle and goes on where it was when it is resumed, on the
// same thread (ucontext of the C library).
#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>

namespace tritonforge::evaluate::ir {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);  // begins with the first resume
  ~Fiber();                                    // what has begun and not ended is unwound: its give_way throws
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Until it gives way or ends; throws what it threw. False: it has ended.
  bool resume();
  // By the body: back to who resumed it.
  void give_way();

 private:
  struct Abandoned {};
  static void enter(unsigned low, unsigned high);
  void run();

  std::function<void()> body_;
  std::byte* memory_ = nullptr;  // a page that nobody may touch, then the stack
  ucontext_t inside_{}, outside_{};
  std::exception_ptr thrown_;
  bool begun_ = false, ended_ = false, abandoned_ = false;
  const void* outside_stack_ = nullptr;  // as AddressSanitizer knows it
  size_t outside_bytes_ = 0;
};

}  // namespace tritonforge::evaluate::ir
