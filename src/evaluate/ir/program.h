#pragma once
// A kernel compiled for evaluation: calls inlined, what never changes during a launch or a loop moved out of it, equal
// expressions computed once, unused ones dropped, every value given a place in memory.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/ir/module.h"

namespace tritonforge::evaluate::ir {

class Machine;
struct Instruction;
using Code = std::vector<Instruction>;

struct Move {
  int from = 0, to = 0;  // places
  int64_t bytes = 0;
  int element = 8;           // held bytes of one
  bool exchange = false;     // the source is not needed afterwards: the places are swapped, nothing is copied
  bool spread_from = false;  // the source holds one element for all
};

// What only some instructions need.
struct Detail {
  std::vector<int64_t> shape, out_shape, order;
  int axis = 0;
  bool reverse = false, flag = false;
  bool acquires = false, releases = false;  // an atomic, among programs that look at what atomics found
  std::string text;
  std::vector<uint64_t> bits;                    // a constant
  std::vector<int> lanes_a, lanes_b, lanes_out;  // places of a reduction's region: left, right, results
  std::vector<Kind> kinds;
  std::vector<int64_t> list;
  struct Jump {
    int target = -1;  // -1: the function returns
    std::vector<Move> moves;
  };
  struct Exit {          // of a block of a control-flow graph
    int condition = -1;  // place; -1: always the first jump
    std::array<Jump, 2> jumps;
  };
  std::vector<Exit> exits;
  std::vector<Move> moves, moves_in, moves_out;
};

struct Instruction {
  using Run = void (*)(Machine&, const Instruction&);
  Run run = nullptr;
  Kind kind = Kind::kI32, out_kind = Kind::kI32;  // of the first operand, of the result
  int64_t n = 1;                                  // elements of the result; -1: the lanes of a reduction's region
  uint32_t single = 0;                            // bit i: operand i holds one element for all
  std::vector<int> in, out;                       // values while compiling, places afterwards
  std::vector<Code> bodies;
  std::shared_ptr<Detail> detail;
  int location = -1;
  bool pure = true;       // nothing but its results: may be moved, shared or left out
  uint32_t in_place = 0;  // bit i: the result may take operand i's place
  const char* name = "";  // while compiling: of the module's operation
  float flops = 0;        // an element of the result
};

struct Parameter {
  std::string name;
  Kind kind = Kind::kI32, pointee = Kind::kI8;
  int place = -1;
};

struct Program {
  std::string kernel;
  std::vector<Parameter> parameters;
  Code launch_code, code;       // once a launch; once a program
  std::vector<int64_t> places;  // bytes of each place
  std::vector<std::string> locations;
  size_t instructions = 0;
  bool waits = false;  // its programs look at what atomics found, and so may wait for each other
};

// The module's public function. Throws kUnsupported naming an operation that is not evaluated, kUsage for IR that is
// wrong.
Program compile(const Module& module);

}  // namespace tritonforge::evaluate::ir
