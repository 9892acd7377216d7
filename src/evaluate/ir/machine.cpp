#include "evaluate/ir/machine.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "evaluate/ir/floats.h"
#include "evaluate/ir/ops.h"

namespace tritonforge::evaluate::ir {

Machine::Machine(const Program& given, Memory& memory, const LaunchOptions& options)
    : program(given), memory(memory), options(options) {
  size_t total = 0;
  for (const int64_t bytes : given.places) total += (static_cast<size_t>(bytes) + 63) / 64 * 64;
  storage_.resize(total + 64);
  std::byte* at = storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
  for (const int64_t bytes : given.places) {
    places_.push_back(at);
    at += (static_cast<size_t>(bytes) + 63) / 64 * 64;
  }
}

std::byte* Machine::scratch(size_t index, size_t bytes) {
  auto& block = scratch_[index];
  if (block.size() < bytes) block.resize(bytes);
  return block.data();
}

std::string Machine::where() const {
  std::string line;
  if (current && current->location >= 0) line = program.locations[static_cast<size_t>(current->location)];
  return fmt::format("kernel {}{}{}, program ({}, {}, {})", program.kernel, line.empty() ? "" : ", ", line, pid[0],
                     pid[1], pid[2]);
}

void Machine::fault(const std::string& what) const { throw Fault(where() + ": " + what); }

void Machine::check() {
  next_check = spent + (1 << 20);
  if (spent > options.work_limit)
    fault(fmt::format("more work than the limit of {} elements; does a loop wait for another program?",
                      options.work_limit));
  if (options.deadline.expired()) fault("the time for this launch ran out");
}

void Machine::move(const std::vector<Move>& moves) {
  // Sources that are also targets are read before anything is written.
  for (size_t k = 0; k < moves.size(); ++k) {
    const Move& one = moves[k];
    if (one.exchange || one.from == one.to) continue;
    for (size_t other = 0; other < moves.size(); ++other) {
      if (other == k || moves[other].to != one.from) continue;
      // Rare (values that change places): all of them through scratch.
      size_t total = 0;
      for (const Move& each : moves) total += static_cast<size_t>(each.bytes);
      std::byte* spare = scratch(5, total);
      size_t at = 0;
      for (const Move& each : moves) {
        const size_t bytes = static_cast<size_t>(each.bytes);
        if (each.spread_from) {
          for (size_t b = 0; b < bytes; b += static_cast<size_t>(each.element))
            std::memcpy(spare + at + b, this->at<std::byte>(each.from), static_cast<size_t>(each.element));
        } else {
          std::memcpy(spare + at, this->at<std::byte>(each.from), bytes);
        }
        at += bytes;
      }
      at = 0;
      for (const Move& each : moves) {
        std::memcpy(this->at<std::byte>(each.to), spare + at, static_cast<size_t>(each.bytes));
        at += static_cast<size_t>(each.bytes);
      }
      return;
    }
  }
  for (const Move& one : moves) {
    if (one.from == one.to) continue;
    if (one.exchange) {
      std::swap(places_[static_cast<size_t>(one.from)], places_[static_cast<size_t>(one.to)]);
    } else if (one.spread_from) {
      for (int64_t b = 0; b < one.bytes; b += one.element)
        std::memcpy(at<std::byte>(one.to) + b, at<std::byte>(one.from), static_cast<size_t>(one.element));
    } else {
      std::memcpy(at<std::byte>(one.to), at<std::byte>(one.from), static_cast<size_t>(one.bytes));
    }
  }
}

void Machine::start(std::span<const Argument> arguments) {
  if (arguments.size() != program.parameters.size()) {
    fail(ErrorKind::kUsage, "kernel {} takes {} arguments, {} are given", program.kernel, program.parameters.size(),
         arguments.size());
  }
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Parameter& parameter = program.parameters[k];
    const Argument& argument = arguments[k];
    const bool pointer = parameter.kind == Kind::kPointer;
    if (pointer != (argument.form == Argument::Form::kBuffer) ||
        (is_float(parameter.kind) != (argument.form == Argument::Form::kFloat))) {
      fail(ErrorKind::kUsage, "kernel {}: argument '{}' is no {}", program.kernel, parameter.name,
           name_of(parameter.kind));
    }
    if (parameter.place < 0) continue;  // never used
    if (pointer) {
      *at<uint64_t>(parameter.place) = argument.buffer < 0 ? 0 : Memory::address(argument.buffer, argument.integer);
    } else if (parameter.kind == Kind::kF64) {
      *at<double>(parameter.place) = argument.real;
    } else if (is_float(parameter.kind)) {
      *at<float>(parameter.place) = round_to(parameter.kind, static_cast<float>(argument.real));
    } else {
      const int64_t value = parameter.kind == Kind::kI1 ? argument.integer & 1 : argument.integer;
      std::memcpy(at<std::byte>(parameter.place), &value, static_cast<size_t>(held_size(parameter.kind)));
    }
  }
  run(program.launch_code);
}

void Machine::run_program(int64_t index, Memory::Turn& turn) {
  pid = {index % options.grid[0], index / options.grid[0] % options.grid[1],
         index / (options.grid[0] * options.grid[1])};
  memory.begin(turn, index);
  run(program.code);
}

namespace {

// How many programs there are. Throws kUsage.
int64_t programs_of(const Program& program, const std::array<int64_t, 3>& grid) {
  for (const int64_t size : grid) {
    if (size < 0 || size > std::numeric_limits<int32_t>::max())
      fail(ErrorKind::kUsage, "kernel {}: grid size {}", program.kernel, size);
  }
  const int64_t plane = grid[0] * grid[1];
  if (plane == 0 || grid[2] == 0) return 0;
  constexpr int64_t kMaxPrograms = 1 << 24;
  if (plane > kMaxPrograms || grid[2] > kMaxPrograms / plane)
    fail(ErrorKind::kUsage, "kernel {}: more than {} programs in one launch", program.kernel, kMaxPrograms);
  return plane * grid[2];
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  size_t below(size_t end) { return (state_ = Rng::mix(state_ + 0x9E3779B97F4A7C15ull)) % end; }

 private:
  uint64_t state_;
};

std::vector<int32_t> order_of(int64_t programs, Schedule schedule, Draws& draws) {
  std::vector<int32_t> order(static_cast<size_t>(programs));
  std::iota(order.begin(), order.end(), 0);
  if (schedule != Schedule::kDrawn) return order;
  for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[draws.below(k)]);
  return order;
}

// Where findings are made, for as long as this lives.
class Describes {
 public:
  explicit Describes(Memory& memory) : memory_(memory) {
    memory.describe = [](void* data) { return static_cast<Machine*>(data)->where(); };
  }
  ~Describes() { memory_.describe = nullptr; }
  void by(Machine& machine) { memory_.describe_data = &machine; }

 private:
  Memory& memory_;
};

// Programs that may wait for each other: so many are under way at once, as on a GPU, and which of them goes on is drawn
// at each atomic.
class Residents {
 public:
  // An H100 holds as many at least, one on each of its multiprocessors. What needs more to be under way need not end.
  static constexpr size_t kMost = 132;
  static constexpr int64_t kMostBytes = int64_t{1} << 30;  // of their values

  Residents(const Program& program, Memory& memory, std::span<const Argument> arguments, const LaunchOptions& options,
            const std::vector<int32_t>& order, Draws& draws)
      : memory_(memory), order_(order), draws_(draws), describes_(memory) {
    const auto bytes = std::accumulate(program.places.begin(), program.places.end(), int64_t{1});
    const size_t held = static_cast<size_t>(std::max<int64_t>(1, kMostBytes / bytes));
    for (size_t k = 0; k < std::min({kMost, held, order.size()}); ++k) {
      auto& one = *under_way_.emplace_back(std::make_unique<Resident>(program, memory, options));
      one.fiber = std::make_unique<Fiber>([this, &one] {
        while (begun_ < order_.size()) one.machine.run_program(order_[begun_++], one.turn);
      });
      one.machine.fiber = one.fiber.get();
      describes_.by(one.machine);
      memory.begin(one.turn, 0);
      one.machine.start(arguments);
      if (k > 0) one.machine.work = {};  // what is done once a launch counts once
    }
  }

  Work run() {
    Work work;
    while (!under_way_.empty()) {
      std::swap(under_way_[draws_.below(under_way_.size())], under_way_.back());
      Resident& one = *under_way_.back();
      memory_.take(one.turn);
      describes_.by(one.machine);
      if (one.fiber->resume()) {
        look_for_changes(one.machine);
        continue;
      }
      work.flops += one.machine.work.flops;
      work.bytes += one.machine.work.bytes;
      under_way_.pop_back();
      quiet_ = 0;
    }
    return work;
  }

 private:
  struct Resident {
    Resident(const Program& program, Memory& memory, const LaunchOptions& options)
        : machine(program, memory, options) {}
    Machine machine;
    Memory::Turn turn;
    std::unique_ptr<Fiber> fiber;
  };

  void look_for_changes(const Machine& machine) {
    constexpr size_t kQuietTurns = 4096;  // of each
    if (memory_.changes != changes_) quiet_ = 0;
    changes_ = memory_.changes;
    if (++quiet_ < kQuietTurns * under_way_.size()) return;
    machine.fault(
        fmt::format("waits for what no program does: {} under way, {} not begun; {} atomics of each changed nothing",
                    under_way_.size(), order_.size() - begun_, kQuietTurns));
  }

  Memory& memory_;
  const std::vector<int32_t>& order_;
  Draws& draws_;
  Describes describes_;
  size_t begun_ = 0, quiet_ = 0;
  uint64_t changes_ = 0;
  std::vector<std::unique_ptr<Resident>> under_way_;
};

Work one_after_another(const Program& program, Memory& memory, std::span<const Argument> arguments,
                       const LaunchOptions& options, const std::vector<int32_t>& order) {
  Describes describes(memory);
  Machine machine(program, memory, options);
  describes.by(machine);
  Memory::Turn turn;
  memory.begin(turn, 0);
  machine.start(arguments);
  for (const int32_t index : order) machine.run_program(index, turn);
  return machine.work;
}

}  // namespace

Work launch(const Program& program, Memory& memory, std::span<const Argument> arguments, const LaunchOptions& options) {
  const int64_t programs = programs_of(program, options.grid);
  if (programs == 0) return {};
  memory.begin_launch(programs, program.waits, options.schedule);
  Draws draws(options.seed);
  const std::vector<int32_t> order = order_of(programs, options.schedule, draws);
  if (!program.waits) return one_after_another(program, memory, arguments, options, order);
  return Residents(program, memory, arguments, options, order, draws).run();
}

namespace run {

namespace {
int64_t read(Machine& m, Kind kind, int place) {
  switch (kind) {
    case Kind::kI1:
    case Kind::kI8: return *m.at<int8_t>(place);
    case Kind::kI16: return *m.at<int16_t>(place);
    case Kind::kI32: return *m.at<int32_t>(place);
    default: return *m.at<int64_t>(place);
  }
}
}  // namespace

// in: lower bound, upper bound, step; out.back(): the counter.
void loop_for(Machine& m, const Instruction& i) {
  const int64_t low = read(m, i.kind, i.in[0]), high = read(m, i.kind, i.in[1]), step = read(m, i.kind, i.in[2]);
  m.move(i.detail->moves_in);
  if (step <= 0) {
    if (step == 0 || low < high) m.fault(fmt::format("a loop with step {}", step));
    return;
  }
  const int counter = i.out.back();
  for (int64_t value = low; value < high; value += step) {
    std::memcpy(m.at<std::byte>(counter), &value, static_cast<size_t>(held_size(i.kind)));
    m.run(i.bodies[0]);
    m.move(i.detail->moves);
    m.tick();
    if (value > std::numeric_limits<int64_t>::max() - step) break;
  }
}

void branch_if(Machine& m, const Instruction& i) {
  const bool holds = *m.at<uint8_t>(i.in[0]) != 0;
  if (holds) {
    m.run(i.bodies[0]);
    m.move(i.detail->moves);
  } else {
    if (i.bodies.size() > 1) m.run(i.bodies[1]);
    m.move(i.detail->moves_out);
  }
}

// bodies: the condition's, the loop's. moves_in: before the first round; moves: condition's operands; moves_out: back.
void loop_while(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  m.move(d.moves_in);
  for (;;) {
    m.run(i.bodies[0]);
    const bool holds = *m.at<uint8_t>(d.lanes_a[0]) != 0;
    m.move(d.moves);
    if (!holds) return;
    m.run(i.bodies[1]);
    m.move(d.moves_out);
    m.tick();
  }
}

void graph(Machine& m, const Instruction& i) {
  const Detail& d = *i.detail;
  size_t block = 0;
  for (;;) {
    m.run(i.bodies[block]);
    const Detail::Exit& exit = d.exits[block];
    const Detail::Jump& jump = exit.jumps[exit.condition < 0 || *m.at<uint8_t>(exit.condition) ? 0 : 1];
    m.move(jump.moves);
    if (jump.target < 0) return;
    block = static_cast<size_t>(jump.target);
    m.tick();
  }
}

}  // namespace run
}  // namespace tritonforge::evaluate::ir
