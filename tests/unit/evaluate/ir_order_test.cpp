// Programs that look at each other: what orders them, who goes on, and what ends them where nobody can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "evaluate/ir/machine.h"

namespace tritonforge::evaluate::ir {
namespace {

using ::testing::HasSubstr;

TEST(Fiber, GivesWayAndGoesOnWhereItWas) {
  std::vector<int> seen;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    for (int k = 0; k < 3; ++k) {
      seen.push_back(k);
      self->give_way();
    }
  });
  self = &fiber;
  for (int k = 0; k < 3; ++k) {
    EXPECT_TRUE(fiber.resume());
    seen.push_back(10 + k);
  }
  EXPECT_FALSE(fiber.resume());
  EXPECT_EQ(seen, (std::vector<int>{0, 10, 1, 11, 2, 12}));
}

TEST(Fiber, WhatItThrowsReachesWhoResumedIt) {
  Fiber* self = nullptr;
  Fiber fiber([&] {
    self->give_way();
    throw std::runtime_error("inside");
  });
  self = &fiber;
  EXPECT_TRUE(fiber.resume());
  EXPECT_THROW(fiber.resume(), std::runtime_error);
}

TEST(Fiber, OneThatIsLeftBehindIsUnwound) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  {
    Fiber* self = nullptr;
    Fiber fiber([&] {
      const auto mine = std::move(held);
      self->give_way();
      ADD_FAILURE() << "it went on";
    });
    self = &fiber;
    EXPECT_TRUE(fiber.resume());
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

// Three programs over two numbers of data and two flags.
class Order : public ::testing::Test {
 protected:
  Order() {
    data_ = Memory::address(memory_.add("data", reinterpret_cast<std::byte*>(values_.data()), 8, 4, true), 0);
    flags_ = Memory::address(memory_.add("flags", reinterpret_cast<std::byte*>(values_.data() + 2), 8, 4, true), 0);
    memory_.begin_launch(3, true);
    for (int64_t program = 0; program < 3; ++program) memory_.begin(turns_[static_cast<size_t>(program)], program);
  }
  void load(size_t program, uint64_t number = 0) { access(program, Memory::Access::kLoad, data_ + 4 * number); }
  void store(size_t program, uint64_t number = 0) {
    memory_.take(turns_[program]);
    const float fresh = ++last_;
    std::byte* at = memory_.access(Memory::Access::kStore, data_ + 4 * number, 1, 4,
                                   reinterpret_cast<const std::byte*>(&fresh));
    std::memcpy(at, &fresh, 4);
  }
  void acquire(size_t program, uint64_t flag = 0) {
    access(program, Memory::Access::kAtomic, flags_ + 4 * flag);
    memory_.acquire(flags_ + 4 * flag);
  }
  void release(size_t program, uint64_t flag = 0) {
    access(program, Memory::Access::kAtomic, flags_ + 4 * flag);
    memory_.release(flags_ + 4 * flag);
  }
  std::string race() const { return memory_.findings.empty() ? "" : memory_.findings.front().text; }

 private:
  void access(size_t program, Memory::Access kind, uint64_t address) {
    memory_.take(turns_[program]);
    memory_.access(kind, address, 1, 4);
  }
  std::array<float, 4> values_{};
  float last_ = 0;
  Memory memory_;
  std::array<Memory::Turn, 3> turns_;
  uint64_t data_ = 0, flags_ = 0;
};

TEST_F(Order, NothingOrdersWhatNobodyReleased) {
  store(0);
  acquire(1);
  load(1);
  EXPECT_THAT(race(), HasSubstr("program 1 reads element 0 of 'data'"));
  EXPECT_THAT(race(), HasSubstr("which program 0 writes"));
}

TEST_F(Order, WhatWasReleasedIsBeforeTheAcquire) {
  store(0);
  release(0);
  acquire(1);
  load(1);
  store(1);
  EXPECT_EQ(race(), "");
}

TEST_F(Order, WhatIsDoneAfterTheReleaseIsNot) {
  release(0);
  store(0);
  acquire(1);
  load(1);
  EXPECT_THAT(race(), HasSubstr("program 1 reads"));
}

TEST_F(Order, AnAcquireDoesNotReachLaterReleases) {
  store(0);
  release(0);
  acquire(1);
  store(0, 1);
  release(0);
  load(1, 1);
  EXPECT_THAT(race(), HasSubstr("element 1 of 'data'"));
}

TEST_F(Order, AnotherFlagOrdersNothing) {
  store(0);
  release(0, 0);
  acquire(1, 1);
  load(1);
  EXPECT_THAT(race(), HasSubstr("program 1 reads"));
}

TEST_F(Order, ItIsHandedOnThroughAnotherProgramAndAnotherFlag) {
  store(0);
  release(0, 0);
  acquire(1, 0);
  release(1, 1);
  acquire(2, 1);
  load(2);
  EXPECT_EQ(race(), "");
}

TEST_F(Order, WhatTheOneBetweenAcquiredLaterIsNotHandedOn) {
  release(1, 1);
  store(0);
  release(0, 0);
  acquire(1, 0);
  acquire(2, 1);
  load(2);
  EXPECT_THAT(race(), HasSubstr("program 2 reads"));
}

TEST_F(Order, AProgramIsInOrderWithItself) {
  load(0);
  release(0);
  load(0);
  store(0);
  release(0);
  store(0);
  load(0);
  EXPECT_EQ(race(), "");
}

TEST_F(Order, AReaderWhoReleasedMayBeWrittenOver) {
  load(0);
  release(0);
  acquire(1);
  store(1);
  EXPECT_EQ(race(), "");
}

TEST_F(Order, AReaderWhoReleasedBeforeItReadMayNot) {
  release(0);
  load(0);
  acquire(1);
  store(1);
  EXPECT_THAT(race(), HasSubstr("program 1 writes"));
}

// Counts programs in `x`, waits until all of them have, and writes what it then saw into y[program].
std::string barrier(const std::string& semantics, const std::string& programs) {
  return R"(module {
  tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %all = arith.constant )" +
         programs + R"( : i32
    %t = arith.constant true
    %p = tt.get_program_id x : i32
    %a = tt.addptr %y, %p : !tt.ptr<i32>, i32
    tt.store %a, %p : !tt.ptr<i32>
    %n = tt.atomic_rmw add, )" +
         semantics + R"(, gpu, %x, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32
    %w = scf.while (%v = %n) : (i32) -> (i32) {
      %g = arith.cmpi slt, %v, %all : i32
      scf.condition(%g) %v : i32
    } do {
    ^bb0(%v: i32):
      %u = tt.atomic_rmw add, )" +
         semantics + R"(, gpu, %x, %zero, %t : (!tt.ptr<i32>, i32, i1) -> i32
      scf.yield %u : i32
    }
    %q = tt.get_num_programs x : i32
    %o = arith.subi %q, %p : i32
    %o1 = arith.subi %o, %one : i32
    %b = tt.addptr %y, %o1 : !tt.ptr<i32>, i32
    %s = tt.load %b : !tt.ptr<i32>
    %c = tt.addptr %a, %q : !tt.ptr<i32>, i32
    tt.store %c, %s : !tt.ptr<i32>
    tt.return
  }
}
)";
}

// y[p] = y[of p], in place, of numbers 10, 11, ...
std::vector<int32_t> moved(const std::string& of, Schedule schedule) {
  std::vector<int32_t> y(8);
  std::iota(y.begin(), y.end(), 10);
  const std::string text = R"(
module {
  tt.func public @k(%y: !tt.ptr<i32>) {
    %one = arith.constant 1 : i32
    %p = tt.get_program_id x : i32
    %n = tt.get_num_programs x : i32
    %last = arith.subi %n, %one : i32
    %of = )" + of + R"( : i32
    %a = tt.addptr %y, %of : !tt.ptr<i32>, i32
    %v = tt.load %a : !tt.ptr<i32>
    %b = tt.addptr %y, %p : !tt.ptr<i32>, i32
    tt.store %b, %v : !tt.ptr<i32>
    tt.return
  }
}
)";
  Memory memory;
  const Argument argument{.form = Argument::Form::kBuffer,
                          .buffer = memory.add("y", reinterpret_cast<std::byte*>(y.data()), 32, 4, true)};
  launch(compile(parse(text)), memory, {&argument, 1}, {.grid = {8, 1, 1}, .schedule = schedule});
  EXPECT_FALSE(memory.findings.empty());
  return y;
}

TEST(Schedules, ProgramsRunByTheirNumbers) {
  EXPECT_EQ(moved("arith.subi %last, %p", Schedule::kRising), (std::vector<int32_t>{17, 16, 15, 14, 14, 15, 16, 17}));
}

TEST(Schedules, AtOnceNoneSeesWhatAnotherStored) {
  EXPECT_EQ(moved("arith.subi %last, %p", Schedule::kAtOnce), (std::vector<int32_t>{17, 16, 15, 14, 13, 12, 11, 10}));
}

struct Barrier {
  explicit Barrier(int64_t programs, const std::string& semantics = "acq_rel", int64_t awaited = -1, uint64_t seed = 1)
      : written(static_cast<size_t>(2 * programs)) {
    const std::vector<Argument> arguments{
        {.form = Argument::Form::kBuffer,
         .buffer = memory.add("x", reinterpret_cast<std::byte*>(&counter), 4, 4, true)},
        {.form = Argument::Form::kBuffer,
         .buffer = memory.add("y", reinterpret_cast<std::byte*>(written.data()), 8 * programs, 4, true)}};
    const std::string text = barrier(semantics, std::to_string(awaited < 0 ? programs : awaited));
    try {
      work = launch(compile(parse(text)), memory, arguments, {.grid = {programs, 1, 1}, .seed = seed});
    } catch (const Fault& error) {
      fault = error.what();
    }
  }
  int32_t counter = 0;
  std::vector<int32_t> written;
  Memory memory;
  Work work;
  std::string fault;
};

TEST(Residents, AllOfThemMeetAtABarrier) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Barrier ran(100, "acq_rel", -1, seed);
    ASSERT_EQ(ran.fault, "");
    EXPECT_TRUE(ran.memory.findings.empty()) << ran.memory.findings.front().text;
    for (int32_t k = 0; k < 100; ++k) EXPECT_EQ(ran.written[static_cast<size_t>(100 + k)], 99 - k);
  }
}

TEST(Residents, ABarrierThatOrdersNothingIsARace) {
  const Barrier ran(8, "relaxed");
  ASSERT_EQ(ran.fault, "");
  ASSERT_FALSE(ran.memory.findings.empty());
  EXPECT_THAT(ran.memory.findings.front().text, HasSubstr("of 'y'"));
}

TEST(Residents, OneMoreThanThereAreIsWaitedForInVain) {
  EXPECT_THAT(Barrier(8, "acq_rel", 9).fault, HasSubstr("waits for what no program does: 8 under way, 0 not begun"));
}

TEST(Residents, AGpuNeedNotHoldMoreThanItHasPlacesFor) {
  EXPECT_THAT(Barrier(140).fault, HasSubstr("waits for what no program does: 132 under way, 8 not begun"));
}

// Each once, whoever ran it, and what is computed once a launch is counted once.
TEST(Residents, TheirWorkIsTheirSum) {
  const auto bytes = [](int64_t programs) { return Barrier(programs, "acq_rel", 0).work.bytes; };
  EXPECT_EQ(bytes(300), 300 * bytes(1));
}

}  // namespace
}  // namespace tritonforge::evaluate::ir
