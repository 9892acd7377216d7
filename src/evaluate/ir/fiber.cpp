#include "evaluate/ir/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else  // who does not look at stacks need not know that they change
static void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
static void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
#endif

namespace tritonforge::evaluate::ir {
namespace {

constexpr size_t kStack = size_t{256} << 10;
size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* memory = mmap(nullptr, page() + kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorKind::kUnavailable, "no memory for a stack of {} bytes", kStack);
  memory_ = static_cast<std::byte*>(memory);
  TF_CHECK(mprotect(memory_ + page(), kStack, PROT_READ | PROT_WRITE) == 0, "a stack's memory");
  TF_CHECK(getcontext(&inside_) == 0, "getcontext");
  inside_.uc_stack.ss_sp = memory_ + page();
  inside_.uc_stack.ss_size = kStack;
  inside_.uc_link = &outside_;
  const auto self = reinterpret_cast<uint64_t>(this);  // makecontext passes ints
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
}

Fiber::~Fiber() {
  abandoned_ = true;
  if (begun_ && !ended_) resume();
  munmap(memory_, page() + kStack);
}

bool Fiber::resume() {
  TF_CHECK(!ended_, "an ended fiber");
  begun_ = true;
  void* stack = nullptr;
  __sanitizer_start_switch_fiber(&stack, memory_ + page(), kStack);
  swapcontext(&outside_, &inside_);
  __sanitizer_finish_switch_fiber(stack, nullptr, nullptr);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return !ended_;
}

void Fiber::give_way() {
  void* stack = nullptr;
  __sanitizer_start_switch_fiber(&stack, outside_stack_, outside_bytes_);
  swapcontext(&inside_, &outside_);
  __sanitizer_finish_switch_fiber(stack, &outside_stack_, &outside_bytes_);
  if (abandoned_) throw Abandoned{};
}

void Fiber::enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(static_cast<uint64_t>(high) << 32 | low)->run();
}

void Fiber::run() {
  __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_bytes_);
  try {
    body_();
  } catch (const Abandoned&) {
  } catch (...) {
    thrown_ = std::current_exception();
  }
  ended_ = true;
  __sanitizer_start_switch_fiber(nullptr, outside_stack_, outside_bytes_);  // uc_link follows
}

}  // namespace tritonforge::evaluate::ir
