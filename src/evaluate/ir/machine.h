#pragma once
// Runs a compiled kernel's programs over registered memory, in a random order unless it is told another; those that may
// wait for each other take turns at their atomics.
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "evaluate/ir/fiber.h"
#include "evaluate/ir/memory.h"
#include "evaluate/ir/program.h"

namespace tritonforge::evaluate::ir {

// The kernel did what no kernel may: out of bounds, a failed assertion, work without end.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Argument {
  enum class Form { kBuffer, kInteger, kFloat } form = Form::kInteger;
  int buffer = -1;      // kBuffer: of the memory; -1: a null pointer
  int64_t integer = 0;  // kBuffer: byte offset
  double real = 0;
};

struct LaunchOptions {
  std::array<int64_t, 3> grid{1, 1, 1};
  Schedule schedule = Schedule::kDrawn;   // of those that wait for each other the turns are drawn in any
  uint64_t seed = 0;                      // of what is drawn
  int64_t work_limit = int64_t{1} << 38;  // elements computed in one launch
  bool own_sizes = true;                  // the problem's: tensor descriptors are such as hardware takes
  Deadline deadline = Deadline::after(3600);
};

// Work of one launch, as own_share counts it.
struct Work {
  double flops = 0;  // float operations; 2 M N K of a dot
  double bytes = 0;  // loaded and stored, masked-out elements not counted
};

// Throws Fault, or kUsage where arguments and parameters do not agree. Findings are left in `memory`.
Work launch(const Program& program, Memory& memory, std::span<const Argument> arguments, const LaunchOptions& options);

// What instructions work on.
class Machine {
 public:
  Machine(const Program& program, Memory& memory, const LaunchOptions& options);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  template <typename T>
  T* at(int place) {
    return reinterpret_cast<T*>(places_[static_cast<size_t>(place)]);
  }
  int64_t count(const Instruction& i) const { return i.n < 0 ? lanes : i.n; }
  void run(const Code& code) {
    for (const Instruction& i : code) {
      current = &i;
      const int64_t n = count(i);
      work.flops += i.flops * static_cast<float>(n);
      if ((spent += n + 8) > next_check) check();
      i.run(*this, i);
    }
  }
  void tick() {  // a round of a loop, so that an empty one ends too
    if ((spent += 8) > next_check) check();
  }
  void pause() {  // before an atomic: others may go first
    if (fiber) fiber->give_way();
  }
  void move(const std::vector<Move>& moves);
  std::byte* scratch(size_t index, size_t bytes);  // stays valid until the same index is asked for again
  [[noreturn]] void fault(const std::string& what) const;
  std::string where() const;  // "kernel softmax, line candidate.py:12, program (3, 0, 0)"
  void start(std::span<const Argument> arguments);
  void run_program(int64_t index, Memory::Turn& turn);

  const Program& program;
  Memory& memory;
  const LaunchOptions& options;
  Work work;
  std::array<int64_t, 3> pid{0, 0, 0};
  int64_t lanes = 1, spent = 0, next_check = 1 << 16;
  const Instruction* current = nullptr;
  Fiber* fiber = nullptr;  // that it runs on, where programs take turns

 private:
  void check();
  std::vector<std::byte> storage_;
  std::vector<std::byte*> places_;
  std::array<std::vector<std::byte>, 8> scratch_;
};

}  // namespace tritonforge::evaluate::ir
